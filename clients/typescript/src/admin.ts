// The routes of operators. All but the activity's need an operatorToken; those need a wallet that may see it.
import { type Call, type CallOptions, type Listing, listing, type PageOptions } from "./call.js";
import { type Connection, keyHeader, present } from "./connection.js";
import type { PruneActivityResponse } from "./gen/roamcard/v1/activity_pb.js";
import type { GetChallengeRetentionResponse, PruneChallengesResponse } from "./gen/roamcard/v1/operator_pb.js";
import {
  type Activity, type CardClosing, type ClosingStatus, type EsimCancellation, type FeeJob, type Finding, type JobStatus,
  type OrderInspection, type OrderStatus, type Plain, plain, type Product, type QueuedOrder,
  type Reconciliation, type StrayTransfer, type Switch, type TransferResolution,
} from "./results.js";

/** An act that is kept with its reason. The same key is the same act. */
export interface ActOptions extends CallOptions {
  reason: string;
  idempotencyKey: string;
}

type ListOptions = CallOptions & PageOptions;

/** What an operator does. */
export class Admin {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Reads what happened in the last days, 7 when absent, without raw identifiers. */
  activity({ days, ...options }: CallOptions & { days?: number } = {}): Call<Activity> {
    return this.#connection.call(options, (wire) =>
      this.#connection.activity.getActivity(days === undefined ? {} : { days }, wire),
    );
  }

  /** Deletes expired product events now. */
  pruneActivity(options: CallOptions = {}): Call<Plain<PruneActivityResponse>> {
    return this.#connection.call(options, (wire) => this.#connection.activity.pruneActivity({}, wire));
  }

  /** Reads the jobs that withdraw issue fees: one by one, or by page(). */
  feeJobs({ status, pageSize, pageToken, ...options }: ListOptions & { status?: JobStatus } = {}): Listing<FeeJob> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }) };
      const { jobs, nextPageToken } = await this.#connection.operator.listFeeJobs(request, wire);
      return { items: plain(jobs), nextPageToken };
    }));
  }

  /** Reads a withdrawal from the issuer, without doing it again. */
  reconcileFeeJob(id: string, options: CallOptions = {}): Call<FeeJob> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.operator.reconcileFeeJob({ id }, wire)).job),
    );
  }

  /** Tries a withdrawal again that the issuer says has failed. */
  retryFeeJob(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<FeeJob> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.retryFeeJob({ id, reason }, wire)).job),
      { [keyHeader]: idempotencyKey },
    );
  }

  /**
   * Closes a card for good: what is left on it is refunded to its owner on chain. It goes on by itself. A card that is
   * being closed, or was closed so, answers with that closing.
   */
  closeCard(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<CardClosing> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.closeCard({ id, reason }, wire)).closing),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the closings of cards: one by one, or by page(). */
  cardClosings(
    { status, pageSize, pageToken, ...options }: ListOptions & { status?: ClosingStatus } = {},
  ): Listing<CardClosing> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }) };
      const { closings, nextPageToken } = await this.#connection.operator.listCardClosings(request, wire);
      return { items: plain(closings), nextPageToken };
    }));
  }

  /** Lets a closing that waits for an operator go on from its stage. */
  retryCardClosing(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<CardClosing> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.retryCardClosing({ id, reason }, wire)).closing),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Lets the cancellation of an order's eSIM that waits for an operator go on from its stage. */
  retryEsimCancellation(
    orderId: string,
    { reason, idempotencyKey, ...options }: ActOptions,
  ): Call<EsimCancellation> {
    return this.#connection.call(
      options,
      async (wire) =>
        plain(present((await this.#connection.operator.retryEsimCancellation({ orderId, reason }, wire)).cancellation)),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads how many sign-in challenges are kept, and how many of them too long. */
  challengeRetention(options: CallOptions = {}): Call<Plain<GetChallengeRetentionResponse>> {
    return this.#connection.call(options, (wire) => this.#connection.operator.getChallengeRetention({}, wire));
  }

  /** Deletes expired sign-in challenges. */
  pruneChallenges(options: CallOptions = {}): Call<Plain<PruneChallengesResponse>> {
    return this.#connection.call(options, (wire) => this.#connection.operator.pruneChallenges({}, wire));
  }

  /** Reads the orders that somebody has to look at, or those of a status: one by one, or by page(). */
  orders({
    status,
    pageSize,
    pageToken,
    ...options
  }: ListOptions & { status?: OrderStatus } = {}): Listing<QueuedOrder> {
    return listing({ pageSize, pageToken }, (page) =>
      this.#connection.call(options, async (wire) => {
        const request = { ...page, ...(status !== undefined && { status }) };
        const { orders, nextPageToken } = await this.#connection.operator.listOrderQueue(request, wire);
        return { items: plain(orders), nextPageToken };
      }),
    );
  }

  /** Reads all there is about an order. */
  inspectOrder(orderId: string, options: CallOptions = {}): Call<OrderInspection> {
    return this.#connection.call(options, (wire) => this.#connection.operator.inspectOrder({ orderId }, wire));
  }

  /** Decides what becomes of an order in review. */
  decideOrder(
    orderId: string,
    { action, reason, idempotencyKey, ...options }: ActOptions & { action: "refund" | "retry" | "fulfilled" },
  ): Call<QueuedOrder> {
    const request = { orderId, action, reason };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.decideOrder(request, wire)).order),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Lists which products are paused. */
  switches(options: CallOptions = {}): Call<Switch[]> {
    return this.#connection.call(
      options,
      async (wire) => (await this.#connection.operator.listSwitches({}, wire)).switches,
    );
  }

  /** Pauses the sale of a product, or resumes it. */
  setSwitch(
    product: Product,
    { paused, reason, idempotencyKey, ...options }: ActOptions & { paused: boolean },
  ): Call<Switch> {
    const request = { product, paused, reason };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.setSwitch(request, wire)).switch),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Compares the books with the chain and the issuer now. */
  reconcile(options: CallOptions = {}): Call<Reconciliation> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.operator.reconcile({}, wire)).report),
    );
  }

  /** Reads the last comparison. */
  reconciliation(options: CallOptions = {}): Call<Reconciliation> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.operator.getReconciliation({}, wire)).report),
    );
  }

  /** Reads what differs between the books, of any code or of one: what is open, or what is resolved. */
  findings({ status, code, pageSize, pageToken, ...options }: ListOptions & {
    status?: "open" | "resolved"; code?: string;
  } = {}): Listing<Finding> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }), ...(code !== undefined && { code }) };
      const { findings, nextPageToken } = await this.#connection.operator.listFindings(request, wire);
      return { items: plain(findings), nextPageToken };
    }));
  }

  /** Says that a finding is understood. It blocks nothing until there is more of it. */
  resolveFinding(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<Finding> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.resolveFinding({ id, reason }, wire)).finding),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the transfers to the payee that belong to no order: the open ones, or those that are resolved. */
  transfers({ status, pageSize, pageToken, ...options }: ListOptions & {
    status?: "open" | "resolved";
  } = {}): Listing<StrayTransfer> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }) };
      const { transfers, nextPageToken } = await this.#connection.operator.listTransfers(request, wire);
      return { items: plain(transfers), nextPageToken };
    }));
  }

  /** Says what has become of such a transfer, for good. No money moves. */
  resolveTransfer({ transaction, logIndex, resolution, reason, idempotencyKey, ...options }: ActOptions & {
    transaction: string; logIndex: number; resolution: TransferResolution;
  }): Call<StrayTransfer> {
    const request = { transaction, logIndex, resolution, reason };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.operator.resolveTransfer(request, wire)).transfer),
      { [keyHeader]: idempotencyKey },
    );
  }
}
