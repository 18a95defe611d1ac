// Auto-pay and errors over Connect, gRPC and gRPC-Web, by an interceptor: it works on every transport.
import { toJson } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor, type UnaryRequest, type UnaryResponse } from "@connectrpc/connect";
import { type ApiError, apiError, RoamcardError } from "./errors.js";
import { CardService } from "./gen/roamcard/v1/card_pb.js";
import { EsimService } from "./gen/roamcard/v1/esim_pb.js";
import { ProblemSchema } from "./gen/roamcard/v1/problem_pb.js";
import { unitsOfCents } from "./money.js";
import { type Attempt, isUnclear, type Payer, type Published, type Reply, retryAfterMs } from "./payer.js";
import { canonical } from "./rest.js";
import type { Signer } from "./signers.js";
import { provesDead, requiredHeader, signatureHeader } from "./x402.js";

type PaidMessage = { idempotencyKey: string; amountUsdCents?: number; planId?: string };

const price = {
  card: (published: Published) => published.cardUnits,
  topUp: (message: PaidMessage) => (published: Published) =>
    message.amountUsdCents === undefined ? published.defaultTopupUnits : unitsOfCents(message.amountUsdCents),
  esim: ({ planId }: PaidMessage) => (published: Published) => (planId === undefined ? undefined : published.planUnits(planId)),
};

const paidMethods: Record<string, { operation: string; price(message: PaidMessage): Attempt<unknown>["price"] }> = {
  [nameOf(CardService.method.purchaseCard)]: { operation: "/api/card/purchase", price: () => price.card },
  [nameOf(CardService.method.topUpCard)]: { operation: "/api/card/topup", price: price.topUp },
  [nameOf(EsimService.method.purchaseEsim)]: { operation: "/api/esim/purchase", price: price.esim },
};

/** Pays for the paid methods of the API, on any transport. Everything else passes by. */
export function payingInterceptor(payer: Payer, signer: Signer): Interceptor {
  return (next) => async (request) => {
    const attempt = request.stream ? undefined : attemptOf(payer, request, async (r) => (await next(r)) as UnaryResponse);
    if (!attempt || request.header.has(signatureHeader)) return next(request);
    return payer.pay(attempt, signer);
  };
}

/** The purchase that a request makes; undefined for methods that cost nothing. */
export function attemptOf(
  payer: Payer, request: UnaryRequest, next: (request: UnaryRequest) => Promise<UnaryResponse>,
): Attempt<UnaryResponse> | undefined {
  const paid = paidMethods[nameOf(request.method)];
  if (!paid) return undefined;
  const message = request.message as unknown as PaidMessage;
  return {
    operation: paid.operation,
    key: message.idempotencyKey,
    request: canonical(toJson(request.method.input, request.message)),
    resource: `${payer.origin}/${nameOf(request.method)}`,
    price: paid.price(message),
    signal: request.signal,
    send: async (payment, signal) => {
      const header = new Headers(request.header);
      if (payment) header.set(signatureHeader, payment);
      try {
        return { kind: "done", value: await next({ ...request, header, signal }) };
      } catch (error) {
        return replyOf(error);
      }
    },
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
  if (!error) return { kind: "unclear", error: cause };
  const terms = cause.metadata.get(requiredHeader);
  if (error.status === 402 && terms) return { kind: "terms", header: terms, error, dead: provesDead(cause.metadata) };
  if (isUnclear(error.status, error.retryable)) {
    return { kind: "unclear", error, orderId: error.orderId, waitMs: retryAfterMs(cause.metadata.get("retry-after")), answered: true };
  }
  return { kind: "refused", error };
}

/** Turns what a call rejects with into the errors of this package. */
export function failure(reason: unknown): Error {
  if (reason instanceof RoamcardError) return reason;
  const cause = ConnectError.from(reason);
  // An interceptor's own error comes wrapped.
  if (cause.cause instanceof RoamcardError) return cause.cause;
  return problemOf(cause) ?? apiError({ status: 0, code: `connect_${Code[cause.code].toLowerCase()}`, detail: cause.rawMessage, retryable: true }, { cause });
}

function problemOf(cause: ConnectError): ApiError | undefined {
  const [problem] = cause.findDetails(ProblemSchema);
  return problem && apiError({ ...problem, fields: problem.fields }, { cause });
}
