// The routes of operators. All but the activity's need an operatorToken; those need a wallet that may see it.
import type { Call, CallOptions } from "./call.js";
import { type Connection, keyHeader, present } from "./connection.js";
import type { GetActivityResponse, PruneActivityResponse } from "./gen/roamcard/v1/activity_pb.js";
import type {
  FeeJob, GetChallengeRetentionResponse, InspectOrderResponse, PruneChallengesResponse, QueuedOrder, Reconciliation, Switch,
} from "./gen/roamcard/v1/operator_pb.js";

/** An act that is kept with its reason. The same key is the same act. */
export interface ActOptions extends CallOptions {
  reason: string;
  idempotencyKey: string;
}

/** What an operator does. */
export class Admin {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Reads what happened in the last days, 7 when absent, without raw identifiers. */
  activity({ days, ...options }: CallOptions & { days?: number } = {}): Call<GetActivityResponse> {
    return this.#connection.call(options, (wire) => this.#connection.activity.getActivity(days === undefined ? {} : { days }, wire));
  }

  /** Deletes expired product events now. */
  pruneActivity(options: CallOptions = {}): Call<PruneActivityResponse> {
    return this.#connection.call(options, (wire) => this.#connection.activity.pruneActivity({}, wire));
  }

  /** Reads the jobs that withdraw issue fees, page by page as they are taken. */
  async *feeJobs({ status, ...options }: CallOptions & { status?: string } = {}): AsyncGenerator<FeeJob, void> {
    for (let pageToken: string | undefined; ; ) {
      const request = { ...(status !== undefined && { status }), ...(pageToken && { pageToken }) };
      const page = await this.#connection.call(options, (wire) => this.#connection.operator.listFeeJobs(request, wire));
      yield* page.jobs;
      if (!page.nextPageToken) return;
      pageToken = page.nextPageToken;
    }
  }

  /** Reads a withdrawal from the issuer, without doing it again. */
  reconcileFeeJob(id: string, options: CallOptions = {}): Call<FeeJob> {
    return this.#connection.call(options, async (wire) => present((await this.#connection.operator.reconcileFeeJob({ id }, wire)).job));
  }

  /** Tries a withdrawal again that the issuer says has failed. */
  retryFeeJob(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<FeeJob> {
    return this.#connection.call(options, async (wire) => present((await this.#connection.operator.retryFeeJob({ id, reason }, wire)).job), { [keyHeader]: idempotencyKey });
  }

  /** Reads how many sign-in challenges are kept, and how many of them too long. */
  challengeRetention(options: CallOptions = {}): Call<GetChallengeRetentionResponse> {
    return this.#connection.call(options, (wire) => this.#connection.operator.getChallengeRetention({}, wire));
  }

  /** Deletes expired sign-in challenges. */
  pruneChallenges(options: CallOptions = {}): Call<PruneChallengesResponse> {
    return this.#connection.call(options, (wire) => this.#connection.operator.pruneChallenges({}, wire));
  }

  /** Reads the orders that somebody has to look at, or those of a status, page by page as they are taken. */
  async *orders({ status, ...options }: CallOptions & { status?: string } = {}): AsyncGenerator<QueuedOrder, void> {
    for (let pageToken: string | undefined; ; ) {
      const request = { ...(status !== undefined && { status }), ...(pageToken && { pageToken }) };
      const page = await this.#connection.call(options, (wire) => this.#connection.operator.listOrderQueue(request, wire));
      yield* page.orders;
      if (!page.nextPageToken) return;
      pageToken = page.nextPageToken;
    }
  }

  /** Reads all there is about an order. */
  inspectOrder(orderId: string, options: CallOptions = {}): Call<InspectOrderResponse> {
    return this.#connection.call(options, (wire) => this.#connection.operator.inspectOrder({ orderId }, wire));
  }

  /** Decides what becomes of an order in review. */
  decideOrder(orderId: string, { action, reason, idempotencyKey, ...options }: ActOptions & { action: "refund" | "retry" | "fulfilled" }): Call<QueuedOrder> {
    const request = { orderId, action, reason };
    return this.#connection.call(options, async (wire) => present((await this.#connection.operator.decideOrder(request, wire)).order), { [keyHeader]: idempotencyKey });
  }

  /** Lists which products are paused. */
  switches(options: CallOptions = {}): Call<Switch[]> {
    return this.#connection.call(options, async (wire) => (await this.#connection.operator.listSwitches({}, wire)).switches);
  }

  /** Pauses the sale of a product, or resumes it. */
  setSwitch(product: "card_issue" | "card_topup" | "esim", { paused, reason, idempotencyKey, ...options }: ActOptions & { paused: boolean }): Call<Switch> {
    const request = { product, paused, reason };
    return this.#connection.call(options, async (wire) => present((await this.#connection.operator.setSwitch(request, wire)).switch), { [keyHeader]: idempotencyKey });
  }

  /** Compares the books with the chain and the issuer now. */
  reconcile(options: CallOptions = {}): Call<Reconciliation> {
    return this.#connection.call(options, async (wire) => present((await this.#connection.operator.reconcile({}, wire)).report));
  }

  /** Reads the last comparison. */
  reconciliation(options: CallOptions = {}): Call<Reconciliation> {
    return this.#connection.call(options, async (wire) => present((await this.#connection.operator.getReconciliation({}, wire)).report));
  }
}
