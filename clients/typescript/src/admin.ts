// The routes of operators. All but the activity's need an operatorToken; those need a wallet that may see it.
import { type Client, createClient } from "@connectrpc/connect";
import { type Call, type CallOptions, type Listing, listing, type PageOptions } from "./call.js";
import { type Connection, keyHeader, present } from "./connection.js";
import { ActivityService, type PruneActivityResponse } from "./gen/roamcard/v1/activity_pb.js";
import {
  type GetChallengeRetentionResponse, OperatorService, type PruneChallengesResponse,
} from "./gen/roamcard/v1/operator_pb.js";
import {
  type Activity, type Approval, type ApprovalStatus, type AuditRecord, type CardClosing,
  type EsimCancellation, type EsimCancellationJob, type FeeJob,
  type Finding, type Gauges, type Job, type JobStatus, type OrderCount, type OrderInspection, type OrderKind,
  type OperatorIdentity, type OperatorRole, type OperatorToken, type OrderReview, type OrderStatus, type Plain, plain,
  type ReviewItem, type TokenStatus,
  type Reconciliation, type ReconciliationOutcome, type ReconciliationRun, type UnmatchedTransfer, type Summary,
  type Switch, type SwitchName, type TransferResolution, type WorkStatus,
} from "./results.js";

/** An act that is kept with its reason. The same key is the same act. */
export interface ActOptions extends CallOptions {
  reason: string;
  idempotencyKey: string;
}

type ListOptions = CallOptions & PageOptions;

// given leaves out what is undefined: a message has no such members.
function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** What an operator does. */
export class Admin {
  readonly #connection: Connection;
  readonly #operator: Client<typeof OperatorService>;
  readonly #activity: Client<typeof ActivityService>;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#operator = createClient(OperatorService, connection.transport);
    this.#activity = createClient(ActivityService, connection.transport);
  }

  /** Reads what happened in the last days, 7 when absent, without raw identifiers. */
  activity({ days, ...options }: CallOptions & { days?: number } = {}): Call<Activity> {
    return this.#connection.call(options, (wire) =>
      this.#activity.getActivity(days === undefined ? {} : { days }, wire),
    );
  }

  /** Deletes expired product events now. */
  pruneActivity(options: CallOptions = {}): Call<Plain<PruneActivityResponse>> {
    return this.#connection.call(options, (wire) => this.#activity.pruneActivity({}, wire));
  }

  /** Reads the jobs that withdraw issue fees: one by one, or by page(). */
  feeJobs({ status, pageSize, pageToken, ...options }: ListOptions & { status?: JobStatus } = {}): Listing<FeeJob> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }) };
      const { jobs, nextPageToken } = await this.#operator.listFeeJobs(request, wire);
      return { items: plain(jobs), nextPageToken };
    }));
  }

  /** Reads a withdrawal from the issuer, without doing it again. */
  reconcileFeeJob(id: string, options: CallOptions = {}): Call<FeeJob> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#operator.reconcileFeeJob({ id }, wire)).job),
    );
  }

  /** Tries a withdrawal again that the issuer says has failed. */
  retryFeeJob(
    id: string,
    { revision, reason, idempotencyKey, ...options }: ActOptions & { revision?: number },
  ): Call<FeeJob> {
    const request = { id, reason, ...given({ revision }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.retryFeeJob(request, wire)).job),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Gives up a fee that the card could not pay: what is owed becomes a cost, and the owner can top up again. */
  writeOffFeeJob(
    id: string,
    { revision, reason, idempotencyKey, ...options }: ActOptions & { revision?: number },
  ): Call<FeeJob> {
    const request = { id, reason, ...given({ revision }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.writeOffFeeJob(request, wire)).job),
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
      async (wire) => present((await this.#operator.closeCard({ id, reason }, wire)).closing),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the closings of cards: one by one, or by page(). */
  cardClosings(
    { status, pageSize, pageToken, ...options }: ListOptions & {
      status?: WorkStatus;
    } = {},
  ): Listing<CardClosing> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }) };
      const { closings, nextPageToken } = await this.#operator.listCardClosings(request, wire);
      return { items: plain(closings), nextPageToken };
    }));
  }

  /** Lets a closing that waits for an operator go on from its stage. */
  retryCardClosing(
    id: string,
    { revision, reason, idempotencyKey, ...options }: ActOptions & { revision?: number },
  ): Call<CardClosing> {
    const request = { id, reason, ...given({ revision }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.retryCardClosing(request, wire)).closing),
      { [keyHeader]: idempotencyKey },
    );
  }

  /**
   * Lets a closing go on whose remainder was refunded by hand, by the transaction that did it. The chain has to show
   * it.
   */
  concludeCardClosing(
    id: string,
    transaction: string,
    { revision, reason, idempotencyKey, ...options }: ActOptions & { revision?: number },
  ): Call<CardClosing> {
    const request = { id, transaction, reason, ...given({ revision }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.concludeCardClosing(request, wire)).closing),
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
        plain(present((await this.#operator.retryEsimCancellation({ orderId, reason }, wire)).cancellation)),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the cancellations of eSIMs: one by one, or by page(). */
  esimCancellations(
    { status, pageSize, pageToken, ...options }: ListOptions & { status?: WorkStatus } = {},
  ): Listing<EsimCancellationJob> {
    const selected = given({ status });
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...selected };
      const { cancellations, nextPageToken } = await this.#operator.listEsimCancellations(request, wire);
      return { items: plain(cancellations), nextPageToken };
    }));
  }

  /** Reads how many sign-in challenges are kept, and how many of them too long. */
  challengeRetention(options: CallOptions = {}): Call<Plain<GetChallengeRetentionResponse>> {
    return this.#connection.call(options, (wire) => this.#operator.getChallengeRetention({}, wire));
  }

  /** Deletes expired sign-in challenges. */
  pruneChallenges(options: CallOptions = {}): Call<Plain<PruneChallengesResponse>> {
    return this.#connection.call(options, (wire) => this.#operator.pruneChallenges({}, wire));
  }

  /** Reads the name of the operator whose token it is. */
  whoami(options: CallOptions = {}): Call<string> {
    return this.#connection.call(
      options,
      async (wire) => (await this.#operator.whoAmI({}, wire)).operator,
    );
  }

  /** Reads whose token it is, its role, and when it expires. */
  identity(options: CallOptions = {}): Call<OperatorIdentity> {
    return this.#connection.call(options, async (wire) =>
      plain(await this.#operator.whoAmI({}, wire)),
    );
  }

  /** Reads the decisions that wait for a second operator, or those in a status: one by one, or by page(). */
  approvals({ status, pageSize, pageToken, ...options }: ListOptions & {
    status?: ApprovalStatus;
  } = {}): Listing<Approval> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...given({ status }) };
      const { approvals, nextPageToken } = await this.#operator.listApprovals(request, wire);
      return { items: plain(approvals), nextPageToken };
    }));
  }

  /** Reads one such decision. */
  approval(id: string, options: CallOptions = {}): Call<Approval> {
    return this.#connection.call(options, async (wire) =>
      plain(present((await this.#operator.getApproval({ id }, wire)).approval)),
    );
  }

  /** Lets a decision of another operator take effect. */
  approveDecision(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<Approval> {
    return this.#connection.call(
      options,
      async (wire) => plain(present((await this.#operator.approveDecision({ id, reason }, wire)).approval)),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Ends the waiting of a decision, which takes no effect. */
  rejectDecision(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<Approval> {
    return this.#connection.call(
      options,
      async (wire) => plain(present((await this.#operator.rejectDecision({ id, reason }, wire)).approval)),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the operators' tokens that were minted: one by one, or by page(). */
  tokens({ status, pageSize, pageToken, ...options }: ListOptions & {
    status?: TokenStatus;
  } = {}): Listing<OperatorToken> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...given({ status }) };
      const { tokens, nextPageToken } = await this.#operator.listTokens(request, wire);
      return { items: plain(tokens), nextPageToken };
    }));
  }

  /** Mints a token. Its `secret` is shown this once: a repeat with the same key has none. */
  mintToken({ name, role, expiresInSeconds, reason, idempotencyKey, ...options }: ActOptions & {
    name: string; role: OperatorRole; expiresInSeconds: number;
  }): Call<{ token: OperatorToken; secret?: string }> {
    const request = { name, role, expiresInSeconds, reason };
    return this.#connection.call(
      options,
      async (wire) => {
        const { token, secret } = await this.#operator.mintToken(request, wire);
        return { token: plain(present(token)), ...(secret !== undefined && { secret }) };
      },
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Ends a token at once. */
  revokeToken(id: string, { reason, idempotencyKey, ...options }: ActOptions): Call<OperatorToken> {
    return this.#connection.call(
      options,
      async (wire) => plain(present((await this.#operator.revokeToken({ id, reason }, wire)).token)),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the orders that somebody has to look at, or those that are selected: one by one, or by page(). */
  orders({
    status, kind, owner, transaction, requestId, sort, pageSize, pageToken, ...options
  }: ListOptions & {
    status?: OrderStatus; kind?: OrderKind; owner?: string; transaction?: string; requestId?: string;
    sort?: "newest" | "oldest";
  } = {}): Listing<ReviewItem> {
    const selected = given({ status, kind, owner, transaction, requestId, sort });
    return listing({ pageSize, pageToken }, (page) =>
      this.#connection.call(options, async (wire) => {
        const request = { ...page, ...selected };
        const { orders, nextPageToken } = await this.#operator.listOrderQueue(request, wire);
        return { items: plain(orders), nextPageToken };
      }),
    );
  }

  /** Counts the orders that are not final, by kind and status. */
  orderCounts(options: CallOptions = {}): Call<OrderCount[]> {
    return this.#connection.call(
      options,
      async (wire) => (await this.#operator.countOrders({}, wire)).counts,
    );
  }

  /** Reads what operators did, newest first: one by one, or by page(). Times are of RFC 3339. */
  audit({
    actor, action, subject, since, until, pageSize, pageToken, ...options
  }: ListOptions & {
    actor?: string; action?: string; subject?: string; since?: string; until?: string;
  } = {}): Listing<AuditRecord> {
    const selected = given({ actor, action, subject, since, until });
    return listing({ pageSize, pageToken }, (page) =>
      this.#connection.call(options, async (wire) => {
        const { records, nextPageToken } = await this.#operator.listAudit({ ...page, ...selected }, wire);
        return { items: plain(records), nextPageToken };
      }),
    );
  }

  /** Reads jobs: those that have stopped, or those that are selected; one by one, or by page(). */
  jobs({
    status, kind, pageSize, pageToken, ...options
  }: ListOptions & { status?: JobStatus; kind?: string } = {}): Listing<Job> {
    const selected = given({ status, kind });
    return listing({ pageSize, pageToken }, (page) =>
      this.#connection.call(options, async (wire) => {
        const { jobs, nextPageToken } = await this.#operator.listJobs({ ...page, ...selected }, wire);
        return { items: plain(jobs), nextPageToken };
      }),
    );
  }

  /** Reads one job. */
  job(id: string, options: CallOptions = {}): Call<Job> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#operator.getJob({ id }, wire)).job),
    );
  }

  /** Puts a job that has stopped back into the queue. With the version that was read, only while it is at that one. */
  retryJob(id: string, { version, reason, idempotencyKey, ...options }: ActOptions & { version?: number }): Call<Job> {
    const request = { id, reason, ...given({ version }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.retryJob(request, wire)).job),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Deletes a job that has stopped, and gives its id: nobody does its work any more. */
  dropJob(
    id: string,
    { version, reason, idempotencyKey, ...options }: ActOptions & { version?: number },
  ): Call<string> {
    const request = { id, reason, ...given({ version }) };
    return this.#connection.call(
      options,
      async (wire) => (await this.#operator.dropJob(request, wire)).id,
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the present values of what sales depend on: floats, accounts, jobs and nodes. */
  gauges(options: CallOptions = {}): Call<Gauges> {
    return this.#connection.call(options, (wire) => this.#operator.getGauges({}, wire));
  }

  /** Reads how much waits for operators, for who watches; with an order, its version too. It leaves no audit record. */
  summary({ orderId, ...options }: CallOptions & { orderId?: string } = {}): Call<Summary> {
    return this.#connection.call(options, (wire) => this.#operator.getSummary(given({ orderId }), wire));
  }

  /** Reads all there is about an order. */
  inspectOrder(orderId: string, options: CallOptions = {}): Call<OrderInspection> {
    return this.#connection.call(options, (wire) => this.#operator.inspectOrder({ orderId }, wire));
  }

  /** Reads what is needed to decide about an order: its version, what can be done and why not, postings and audit. */
  reviewOrder(orderId: string, options: CallOptions = {}): Call<OrderReview> {
    return this.#connection.call(options, (wire) => this.#operator.reviewOrder({ orderId }, wire));
  }

  /** Decides what becomes of an order in review. With the version that was read, only while it is at that version. */
  decideOrder(
    orderId: string,
    { action, version, reason, idempotencyKey, ...options }: ActOptions & {
      action: "refund" | "retry" | "fulfilled"; version?: number;
    },
  ): Call<ReviewItem> {
    const request = { orderId, action, reason, ...given({ version }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.decideOrder(request, wire)).order),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Lists which products are paused, and over which providers nothing is sold. */
  switches(options: CallOptions = {}): Call<Switch[]> {
    return this.#connection.call(
      options,
      async (wire) => (await this.#operator.listSwitches({}, wire)).switches,
    );
  }

  /** Pauses the sale of a product, or over a provider, or resumes it. */
  setSwitch(
    product: SwitchName,
    { paused, reason, idempotencyKey, ...options }: ActOptions & { paused: boolean },
  ): Call<Switch> {
    const request = { product, paused, reason };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.setSwitch(request, wire)).switch),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Compares the books with the chain and the issuer now. */
  reconcile(options: CallOptions = {}): Call<Reconciliation> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#operator.reconcile({}, wire)).report),
    );
  }

  /** Reads the last comparison. */
  reconciliation(options: CallOptions = {}): Call<Reconciliation> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#operator.getReconciliation({}, wire)).report),
    );
  }

  /** Reads the comparisons that have ended, newest first: all, or those that ended so. */
  reconciliations({ outcome, pageSize, pageToken, ...options }: ListOptions & {
    outcome?: ReconciliationOutcome;
  } = {}): Listing<ReconciliationRun> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...given({ outcome }) };
      const { reconciliations, nextPageToken } = await this.#operator.listReconciliations(request, wire);
      return { items: plain(reconciliations), nextPageToken };
    }));
  }

  /** Reads what differs between the books, of any code or of one: what is open, or what is resolved. */
  findings({ status, code, pageSize, pageToken, ...options }: ListOptions & {
    status?: "open" | "resolved"; code?: string;
  } = {}): Listing<Finding> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }), ...(code !== undefined && { code }) };
      const { findings, nextPageToken } = await this.#operator.listFindings(request, wire);
      return { items: plain(findings), nextPageToken };
    }));
  }

  /** Says that a finding is understood. It blocks nothing until there is more of it. */
  resolveFinding(
    id: string,
    { version, reason, idempotencyKey, ...options }: ActOptions & { version?: number },
  ): Call<Finding> {
    const request = { id, reason, ...given({ version }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.resolveFinding(request, wire)).finding),
      { [keyHeader]: idempotencyKey },
    );
  }

  /** Reads the transfers to the payee that belong to no order: the open ones, or those that are resolved. */
  transfers({ status, pageSize, pageToken, ...options }: ListOptions & {
    status?: "open" | "resolved";
  } = {}): Listing<UnmatchedTransfer> {
    return listing({ pageSize, pageToken }, (page) => this.#connection.call(options, async (wire) => {
      const request = { ...page, ...(status !== undefined && { status }) };
      const { transfers, nextPageToken } = await this.#operator.listTransfers(request, wire);
      return { items: plain(transfers), nextPageToken };
    }));
  }

  /** Says what has become of such a transfer, for good. No money moves. */
  resolveTransfer({ transaction, logIndex, resolution, version, reason, idempotencyKey, ...options }: ActOptions & {
    transaction: string; logIndex: number; resolution: TransferResolution; version?: number;
  }): Call<UnmatchedTransfer> {
    const request = { transaction, logIndex, resolution, reason, ...given({ version }) };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#operator.resolveTransfer(request, wire)).transfer),
      { [keyHeader]: idempotencyKey },
    );
  }
}
