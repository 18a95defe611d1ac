// What can go wrong, as types that a caller can act on.
import type { FieldProblem } from "./gen/roamcard/v1/problem_pb.js";
import { printable } from "./printable.js";

/** The base of everything this package throws on purpose. */
export class RoamcardError extends Error {
  override name = this.constructor.name;
  /** What went wrong, stable: the service's code, or one of this package's own. */
  readonly code: string = "failed";
  /** Set once a payment was signed: only a call with this key is safe from paying twice. */
  idempotencyKey?: string;

  /** Messages quote what the service says: nothing in them steers a terminal. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message && printable(message), options);
  }

  /** What the service's operators ask for: the id of the request that failed, when the service answered it. */
  get requestId(): string | undefined {
    return this.cause instanceof RoamcardError ? this.cause.requestId : undefined;
  }

  /** What JSON.stringify writes: name and message, and what there is to act on. */
  toJSON(): Record<string, unknown> {
    const members: object = this;
    return { ...members, name: this.name, message: this.message, requestId: this.requestId };
  }
}

/** One wrong member of a request. */
export type WrongField = Pick<FieldProblem, "path" | "rule" | "message">;

/** What the service advises after a failure. */
export type NextAction =
  | "retry_same_request"
  | "wait_and_retry"
  | "poll_order"
  | "sign_new_payment"
  | "fix_request"
  | "sign_in"
  | "contact_support";

/** A failure as the service told it (RFC 9457). Codes are stable; texts are for people. */
export interface ProblemFields {
  status: number;
  code: string;
  title?: string;
  detail?: string;
  retryable?: boolean;
  safeToPayAgain?: boolean;
  nextAction?: string;
  requestId?: string | undefined;
  orderId?: string;
  fields?: WrongField[];
  /** What Retry-After asks for. */
  retryAfterMs?: number | undefined;
}

/** The service answered with a failure, or, with status 0, did not answer. */
export class ApiError extends RoamcardError {
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** The service's code, or else http_ and the status. */
  override readonly code: string;
  readonly #requestId: string | undefined;
  /** Whether the same request can succeed later: where there is a `retryAt`, from then on. */
  readonly retryable: boolean;
  /** Whether a new payment is safe: no authorization of this key can still land. */
  readonly safeToPayAgain: boolean;
  readonly nextAction: NextAction | undefined;
  readonly orderId: string | undefined;
  readonly fields: WrongField[];
  /** How long the service asks to wait, if it says so. */
  readonly retryAfterMs: number | undefined;
  /**
   * When another payment may be signed for the key, in ISO 8601: the chain can then no longer take this one. Undefined
   * is now.
   */
  readonly retryAt?: string;

  constructor(problem: ProblemFields, options?: ErrorOptions) {
    super(`${problem.status} ${problem.code}: ${problem.detail ?? problem.title ?? "no detail"}`, options);
    this.status = problem.status;
    this.code = problem.code;
    this.#requestId = problem.requestId;
    this.retryable = problem.retryable ?? false;
    this.safeToPayAgain = problem.safeToPayAgain ?? false;
    this.nextAction = problem.nextAction as NextAction | undefined;
    this.orderId = problem.orderId;
    this.fields = problem.fields ?? [];
    this.retryAfterMs = problem.retryAfterMs;
  }

  override get requestId(): string | undefined {
    return this.#requestId;
  }
}

/** 409: the state of the service, or an earlier use of the key, forbids it. */
export class ConflictError extends ApiError {}

/** 404. */
export class NotFoundError extends ApiError {}

/** 401: the session or a signature was not accepted. */
export class UnauthorizedError extends ApiError {}

/** 429, 5xx or no answer: not now. */
export class UnavailableError extends ApiError {}

/** Whether a failure to read may pass by itself. */
export function mayPass(error: unknown): error is ApiError {
  return error instanceof UnavailableError || (error instanceof ApiError && error.retryable);
}

/** The error class of a problem. */
export function apiError(problem: ProblemFields, options?: ErrorOptions): ApiError {
  const { status } = problem;
  if (status === 409) return new ConflictError(problem, options);
  if (status === 404) return new NotFoundError(problem, options);
  if (status === 401) return new UnauthorizedError(problem, options);
  if (status === 429 || status >= 500 || status === 0) return new UnavailableError(problem, options);
  return new ApiError(problem, options);
}

/**
 * A key, an id, a token or a reason was given and is empty, as a variable that is not set makes it. Nothing was signed
 * or sent. A new key is made when none is given.
 */
export class EmptyError extends RoamcardError {
  override readonly code = "arguments_invalid";
}

/** A payment was not made, or its outcome is not known. */
export class PaymentError extends RoamcardError {}

/** The service asks for something else than it publishes or than is pinned. Nothing was signed. */
export class TermsMismatchError extends PaymentError {
  override readonly code = "terms_mismatch";
}

/** The policy forbids this payment. Nothing was signed. */
export class PolicyDeniedError extends PaymentError {
  override readonly code = "denied_by_local_policy";
}

/** The person, or the function in their place, said no. Nothing was signed. */
export class ApprovalDeniedError extends PaymentError {
  override readonly code = "approval_declined";
}

/** The wallet holds less than the price. No money moved. */
export class InsufficientFundsError extends PaymentError {
  override readonly code = "insufficient_funds";
}

/** The key was used with another request before. Nothing was signed. */
export class KeyConflictError extends PaymentError {
  override readonly code = "idempotency_key_reused";

  constructor(key: string) {
    super(`the idempotency key ${key} belongs to another request; use a new key for a new purchase`);
    this.idempotencyKey = key;
  }
}

/**
 * Whether the payment was taken is not known yet. Call again with the same idempotencyKey, in this process or another
 * one with the same store: the same signed bytes go out, and nothing can be paid twice.
 */
export class AmbiguousPaymentError extends PaymentError {
  override readonly code = "payment_outcome_unknown";
  readonly retryable = true;

  declare idempotencyKey: string;

  constructor(
    key: string,
    readonly orderId: string | undefined,
    options?: ErrorOptions,
  ) {
    super(`the outcome of the payment is not known yet; call again with idempotencyKey ${key}`, options);
    this.idempotencyKey = key;
  }
}

/** This computer's clock differs from the service's by more than a minute. Nothing was signed. */
export class ClockError extends PaymentError {
  override readonly code = "clock_differs";
}

/**
 * The smart account that is to pay has no code on the chain, and its signature does not say how it is made. Nothing was
 * sent.
 */
export class NotDeployedError extends PaymentError {
  override readonly code = "account_not_deployed";
}

/** What is wrong with a journal. */
export type JournalReason =
  | "damaged"
  | "foreign"
  | "unreadable"
  | "read_only"
  | "full"
  | "failed"
  | "locked"
  | "exposed";

/** The journal cannot be read or kept. Nothing is sent that is not kept. */
export class JournalError extends RoamcardError {
  override readonly code: string;

  constructor(readonly file: string, readonly reason: JournalReason, detail: string, options?: ErrorOptions) {
    super(`the journal ${file} is ${reason.replace("_", " ")}: ${detail}`, options);
    this.code = `journal_${reason}`;
  }
}

/** A message or typed data that the client was asked to sign is not what it should be. It was not signed. */
export class UntrustedMessageError extends RoamcardError {
  override readonly code = "message_untrusted";
}

/** The presenter did not show the card, or what came could not be opened. */
export class RevealError extends RoamcardError {
  override readonly code = "reveal_failed";
}
