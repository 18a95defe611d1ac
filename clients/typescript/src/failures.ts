// What failed calls say, over Connect, gRPC and gRPC-Web.
import { Code, ConnectError } from "@connectrpc/connect";
import { type ApiError, apiError, type ProblemFields, RoamcardError } from "./errors.js";
import { ProblemSchema } from "./gen/roamcard/v1/problem_pb.js";
import { requestIdHeader } from "./logger.js";
import { printableCause } from "./printable.js";

/** Turns what a call rejects with into the errors of this package. */
export function failure(reason: unknown): Error {
  if (reason instanceof RoamcardError) return reason;
  const cause = ConnectError.from(reason);
  // An interceptor's own error comes wrapped.
  if (cause.cause instanceof RoamcardError) return cause.cause;
  const code = `connect_${Code[cause.code].toLowerCase()}`;
  return problemOf(cause) ?? unanswered(cause, { status: 0, code, retryable: true });
}

/**
 * What a call rejects with that got an answer of this HTTP status. One without a problem is a gateway's, not the
 * service's.
 */
export function failureOf(reason: unknown, status: number | undefined): unknown {
  const cause = ConnectError.from(reason);
  if (status === undefined || status < 300 || cause.cause instanceof RoamcardError || problemOf(cause)) return reason;
  return unanswered(cause, { status, code: `http_${status}`, retryable: status >= 500 });
}

function unanswered(cause: ConnectError, problem: ProblemFields): ApiError {
  const { metadata, rawMessage } = cause;
  const [requestId, wait] = [metadata.get(requestIdHeader) ?? undefined, retryAfterMs(metadata.get("retry-after"))];
  return apiError({ ...problem, detail: rawMessage, requestId, retryAfterMs: wait }, { cause: printableCause(cause) });
}

/** The problem that the service tells of a failed call; undefined when it told none. */
export function problemOf(cause: ConnectError): ApiError | undefined {
  const [problem] = cause.findDetails(ProblemSchema);
  if (!problem) return undefined;
  const fields = problem.fields.map(({ path, rule, message }) => ({ path, rule, message }));
  const wait = retryAfterMs(cause.metadata.get("retry-after"));
  return apiError({ ...problem, fields, retryAfterMs: wait }, { cause: printableCause(cause) });
}

/** The wait that a Retry-After header asks for, in seconds or until a date; undefined when it asks for none. */
export function retryAfterMs(header: string | null | undefined): number | undefined {
  if (!header) return undefined;
  if (/^\d{1,5}$/.test(header)) return Number(header) * 1000;
  const until = /^[A-Z][a-z]{2}, /.test(header) ? Date.parse(header) : NaN;
  return Number.isNaN(until) ? undefined : Math.max(0, until - Date.now());
}
