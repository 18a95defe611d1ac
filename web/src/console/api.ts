// The operators' routes, by REST: the console loads no descriptor of a message, and shows what the service answers.
import {
  ApiError, apiError, type Approval, type AuditRecord, type CardClosing, type EsimCancellationJob, type FeeJob,
  type Finding, type Gauges, type Job, type OperatorIdentity, type OrderInspection, type OrderReview,
  type ProblemFields, type Reconciliation, type ReconciliationRun, type ReviewItem, type Summary, type Switch,
  type UnmatchedTransfer,
} from "roamcard";

import { t } from "./text.js";

/** A page of a list. */
export interface Slice<T> {
  items: T[];
  next: string | undefined;
}

/** What may be asked of a list; members that are undefined or empty are left out. */
export type Query = Record<string, string | number | undefined>;

const timeoutMs = 30_000;
/** The most that an answer may have; the largest is a page of a hundred records. */
const maxAnswer = 8 << 20;
/** How many items a page of a list has. */
export const pageSize = 25;

/** The routes with a token. It is in no header, address or storage but that of each request. */
export class OperatorApi {
  readonly #token: string;
  readonly #gone = new AbortController();
  readonly #refused: () => void;

  constructor(token: string, refused: () => void) {
    this.#token = token;
    this.#refused = refused;
  }

  /** Ends what is under way, and everything that comes. */
  end(): void {
    this.#gone.abort();
  }

  async #send<T>(method: string, path: string, body?: unknown, key?: string): Promise<T> {
    const signal = AbortSignal.any([this.#gone.signal, AbortSignal.timeout(timeoutMs)]);
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (key !== undefined) headers["idempotency-key"] = key;
    let answer: Response;
    let text: string;
    try {
      answer = await fetch(`/api/admin/${path}`, {
        method, headers, signal, cache: "no-store", credentials: "omit", redirect: "error",
        referrerPolicy: "no-referrer",
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      text = await answer.text();
    } catch (error) {
      this.#gone.signal.throwIfAborted();
      throw apiError({ status: 0, code: "no_answer", detail: String(error), retryable: true });
    }
    if (text.length > maxAnswer) throw apiError({ status: 0, code: "answer_too_large" });
    const value = valueOf(text);
    if (answer.ok && value !== undefined) return value as T;
    if (answer.status === 401) this.#refused();
    const problem = (value ?? {}) as Partial<ProblemFields>;
    const wait = Number(answer.headers.get("retry-after"));
    throw apiError({
      ...problem, status: answer.status, code: problem.code ?? `http_${answer.status}`,
      retryAfterMs: wait > 0 ? wait * 1000 : undefined,
      requestId: problem.requestId ?? answer.headers.get("x-request-id") ?? undefined,
    });
  }

  #get<T>(path: string, query: Query = {}): Promise<T> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    return this.#send<T>("GET", given.length > 0 ? `${path}?${search}` : path);
  }

  async #list<T>(path: string, member: string, query: Query): Promise<Slice<T>> {
    const answer = await this.#get<Record<string, unknown>>(path, { pageSize, ...query });
    return { items: (answer[member] ?? []) as T[], next: (answer.nextPageToken as string | undefined) || undefined };
  }

  /** Does something that is kept with its reason. The same key is the same act. */
  act<T>(path: string, key: string, body: object = {}): Promise<T> {
    return this.#send<T>("POST", path, body, key);
  }

  whoami(): Promise<OperatorIdentity> {
    return this.#get("whoami");
  }

  summary(orderId?: string): Promise<Summary> {
    return this.#get("summary", { orderId });
  }

  gauges(): Promise<Gauges> {
    return this.#get("gauges");
  }

  orders(query: Query): Promise<Slice<ReviewItem>> {
    return this.#list("orders", "orders", query);
  }

  inspect(orderId: string): Promise<OrderInspection> {
    return this.#get(`orders/${encodeURIComponent(orderId)}`);
  }

  review(orderId: string): Promise<OrderReview> {
    return this.#get(`orders/${encodeURIComponent(orderId)}/review`);
  }

  approvals(query: Query): Promise<Slice<Approval>> {
    return this.#list("approvals", "approvals", query);
  }

  feeJobs(query: Query): Promise<Slice<FeeJob>> {
    return this.#list("card-issue-fee/jobs", "jobs", query);
  }

  closings(query: Query): Promise<Slice<CardClosing>> {
    return this.#list("card-closings", "closings", query);
  }

  cancellations(query: Query): Promise<Slice<EsimCancellationJob>> {
    return this.#list("esim-cancellations", "cancellations", query);
  }

  transfers(query: Query): Promise<Slice<UnmatchedTransfer>> {
    return this.#list("transfers", "transfers", query);
  }

  findings(query: Query): Promise<Slice<Finding>> {
    return this.#list("findings", "findings", query);
  }

  reconciliations(query: Query): Promise<Slice<ReconciliationRun>> {
    return this.#list("reconciliations", "reconciliations", query);
  }

  jobs(query: Query): Promise<Slice<Job>> {
    return this.#list("jobs", "jobs", query);
  }

  audit(query: Query): Promise<Slice<AuditRecord>> {
    return this.#list("audit", "records", query);
  }

  async switches(): Promise<Switch[]> {
    return (await this.#get<{ switches: Switch[] }>("switches")).switches;
  }

  /** The last comparison of the books; undefined before the first. */
  async reconciliation(): Promise<Reconciliation | undefined> {
    try {
      return await this.#get<Reconciliation>("reconcile");
    } catch (error) {
      if (error instanceof ApiError && error.code === "report_not_found") return undefined;
      throw error;
    }
  }

  /** Compares the books now. */
  reconcile(): Promise<Reconciliation> {
    return this.#send("POST", "reconcile", {});
  }
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The service's own words for a failure, without the code in front. */
export function wordsOf(error: unknown): { text: string; code: string; requestId: string | undefined } {
  // What the browser says of an answer that got lost is for programmers.
  if (error instanceof ApiError && error.code === "no_answer")
    return { text: t.noAnswer, code: error.code, requestId: undefined };
  if (!(error instanceof ApiError)) return { text: String(error), code: "", requestId: undefined };
  const text = error.message.replace(/^\d+ \w+: /, "");
  return { text, code: error.code, requestId: error.requestId };
}
