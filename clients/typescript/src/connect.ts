// Auto-pay and errors over Connect, gRPC and gRPC-Web, by an interceptor: it works on every transport.
import { clone, toJson } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor, type UnaryRequest, type UnaryResponse } from "@connectrpc/connect";
import type { AnsweredOrder } from "./answer.js";
import { type ApiError, apiError, type ProblemFields, RoamcardError } from "./errors.js";
import { OrderService } from "./gen/roamcard/v1/order_pb.js";
import { ProblemSchema } from "./gen/roamcard/v1/problem_pb.js";
import { requestIdHeader } from "./logger.js";
import { type Attempt, isUnclear, type Payer, type Reply, retryAfterMs } from "./payer.js";
import { printableCause } from "./printable.js";
import { paymentOf, payRoute, products, type Purchase, purchaseOf } from "./products.js";
import type { Signer } from "./signers.js";
import { provesDead, requiredHeader, signatureHeader } from "./x402.js";

type PaidMessage = { idempotencyKey: string; amountUsdCents?: number; planId?: string; orderId: string };

/** Pays for the paid methods of the API, on any transport. Everything else passes through. */
export function payingInterceptor(payer: Payer, signer: Signer): Interceptor {
  return (next) => async (request) => {
    if (request.stream || request.header.has(signatureHeader)) return next(request);
    const attempt = await attemptOf(payer, request, async (r) => (await next(r)) as UnaryResponse, signer.address);
    return attempt ? payer.pay(attempt, signer) : next(request);
  };
}

/**
 * The purchase that a request of a wallet makes; undefined for methods that cost nothing. One of any eSIM becomes one
 * of a plan.
 */
export async function attemptOf(
  payer: Payer,
  request: UnaryRequest,
  next: (request: UnaryRequest) => Promise<UnaryResponse>,
  wallet: string | undefined,
): Promise<Attempt<UnaryResponse> | undefined> {
  const method = nameOf(request.method);
  let { message } = request;
  let asked = message as unknown as PaidMessage;
  let bought: Purchase;
  const product = products.find((row) => nameOf(row.method) === method);
  if (product) {
    if (product.hasPlans && !asked.planId) {
      const planId = await payer.planFor(product.path, asked.idempotencyKey, wallet);
      message = Object.assign(clone(request.method.input, message), { planId });
      asked = message as unknown as PaidMessage;
    }
    bought = purchaseOf(product, asked.idempotencyKey, asked);
  } else if (method === nameOf(OrderService.method.payOrder)) {
    bought = paymentOf(asked.orderId);
  } else {
    return undefined;
  }
  return {
    ...bought,
    request: toJson(request.method.input, message) as Record<string, unknown>,
    resource: bought.operation === payRoute ? undefined : `${payer.origin}/${method}`,
    signal: request.signal,
    send: async (payment, signal) => {
      const header = new Headers(request.header);
      if (payment) header.set(signatureHeader, payment);
      try {
        return { kind: "done", value: await next({ ...request, message, header, signal }) };
      } catch (error) {
        return replyOf(error);
      }
    },
    order: ({ message: answer }) => (answer as { order?: AnsweredOrder }).order,
  };
}

/** A method as it is named in URLs. */
export function nameOf(method: { name: string; parent: { typeName: string } }): string {
  return `${method.parent.typeName}/${method.name}`;
}

/** What a failed call says about a payment. Without a problem of the service it is not even known who answered. */
export function replyOf(reason: unknown): Exclude<Reply<never>, { kind: "done" }> {
  const cause = ConnectError.from(reason);
  const error = problemOf(cause);
  if (!error) return { kind: "unclear", error: failure(cause) };
  const terms = cause.metadata.get(requiredHeader);
  if (error.status === 402 && terms)
    return { kind: "terms", header: terms, error, dead: provesDead(cause.metadata), date: cause.metadata.get("date") };
  if (isUnclear(error.status, error.retryable)) {
    return { kind: "unclear", error, orderId: error.orderId, waitMs: error.retryAfterMs, answered: true };
  }
  return { kind: "refused", error };
}

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

function problemOf(cause: ConnectError): ApiError | undefined {
  const [problem] = cause.findDetails(ProblemSchema);
  if (!problem) return undefined;
  const fields = problem.fields.map(({ path, rule, message }) => ({ path, rule, message }));
  const wait = retryAfterMs(cause.metadata.get("retry-after"));
  return apiError({ ...problem, fields, retryAfterMs: wait }, { cause: printableCause(cause) });
}
