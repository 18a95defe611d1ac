// Auto-pay and errors over Connect, gRPC and gRPC-Web, by an interceptor: it works on every transport.
import { clone, toJson } from "@bufbuild/protobuf";
import { ConnectError, type Interceptor, type UnaryRequest, type UnaryResponse } from "@connectrpc/connect";
import type { AnsweredOrder } from "./answer.js";
import { failure, problemOf } from "./failures.js";
import { OrderService } from "./gen/roamcard/v1/order_pb.js";
import { type Attempt, isUnclear, type Payer, type Reply } from "./payer.js";
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
