// Auto-pay over the documented REST routes: a fetch that answers 402. It works under the official x402 clients too.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { bounded } from "./bounded.js";
import { apiError, type ProblemFields, RoamcardError, TermsMismatchError } from "./errors.js";
import { failure, retryAfterMs } from "./failures.js";
import { AuthService } from "./gen/roamcard/v1/auth_pb.js";
import { OrderService } from "./gen/roamcard/v1/order_pb.js";
import { unitsOfCents } from "./money.js";
import {
  type Attempt,
  isUnclear,
  Payer,
  type PayerOptions,
  type Published,
  type Reply,
} from "./payer.js";
import { matched, paymentOf, payRoute, productAt, type Purchase, purchaseOf } from "./products.js";
import { retrying, defaultRetries } from "./retry.js";
import { Session } from "./session.js";
import type { Signer } from "./signers.js";
import { userAgent, userAgentHeader } from "./version.js";
import { formerSignatureHeader, provesDead, requiredHeader, signatureHeader } from "./x402.js";

/** What fetch does here. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** How a paying fetch is made. */
export interface FetchOptions extends Omit<PayerOptions, "published" | "origin"> {
  /** Where the service is. */
  baseUrl: string;
  /** The service's public origin, when `baseUrl` is a gateway before it. */
  origin?: string;
  /**
   * Answers 402. Without it the fetch signs nothing: put an official x402 client on top and name its wallet as `payer`.
   */
  signer?: Signer;
  /** The address of the wallet with which the client on top of this fetch signs. */
  payer?: string;
  /** How often what the service publishes is read again when that fails in passing; 2 when absent. */
  maxRetries?: number;
  fetch?: Fetch;
}

/**
 * A fetch that pays for the service's paid routes and passes everything else through. Under an official x402 client,
 * which signs by itself, it lets no terms through that are not as published, keeps what was signed and sends it again
 * until the answer is clear; when a purchase has a payment already, that one goes out at once and the client on top
 * sees 200 instead of 402. What buys nothing at the service can then not be paid for: a 402 to it, or a payment with
 * it, is a TermsMismatchError.
 */
export function payingFetch(options: FetchOptions): Fetch {
  const send = bounded(named(options.fetch ?? ((input, init) => fetch(input, init))));
  const base = trimmed(options.baseUrl);
  const origin = trimmed(options.origin ?? base);
  const { signer } = options;
  const orderUnits = async (orderId: string) =>
    signer && unitsOf(orderId, { baseUrl: base, fetch: send }, origin, signer);
  const read = () => retrying(() => publishedBy(send, base, orderUnits), options.maxRetries ?? defaultRetries);
  const payer = new Payer({ ...options, origin, published: read });
  const wallet = options.payer ?? options.signer?.address;
  if (!wallet) throw new TypeError("payingFetch needs a signer, or the address of the payer that signs");
  return async (input, init) => {
    const request = new Request(input, init);
    const attempt = await attemptOf(payer, request, base, send, wallet);
    if (!attempt) return options.signer ? send(request) : unpaid(request, base, send);
    const signed = request.headers.get(signatureHeader);
    if (options.signer && !signed) return responseOf(await payer.pay(attempt, options.signer));
    const reply = signed
      ? await payer.submit(attempt, wallet, signed)
      : ((await payer.resume(attempt, wallet)) ?? (await payer.ask(attempt, wallet)));
    if (reply.kind === "done") return responseOf(reply.value);
    if (!reply.answer) throw reply.error;
    return responseOf(reply.answer);
  };
}

// unpaid sends what buys nothing, under a client that signs by itself: nothing would hold what it signs to the policy.
async function unpaid(request: Request, base: string, send: Fetch): Promise<Response> {
  const at = new URL(request.url);
  if (at.origin !== new URL(base).origin) return send(request);
  if (request.headers.has(signatureHeader) || request.headers.has(formerSignatureHeader))
    throw new TermsMismatchError(`${request.method} ${at.pathname} buys nothing; the payment with it was not sent`);
  const response = await send(request);
  if (response.status === 402)
    throw new TermsMismatchError(
      `${request.method} ${at.pathname} buys nothing, and a payment is asked for; none was signed`,
    );
  return response;
}

/** An origin without the slash that people put at its end. One with a user or a password is refused, and not shown. */
export function trimmed(url: string): string {
  if (/^[a-z]+:\/\/[^/?#]*@/i.test(url))
    throw new TypeError("the service's URL has a user or a password: no request can have them");
  return url.replace(/\/+$/, "");
}

// named tells the service which package asks, unless the caller has a name already.
function named(send: Fetch): Fetch {
  const name = userAgent;
  if (name === undefined) return send;
  return (input, init) => {
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    if (!headers.has(userAgentHeader)) headers.set(userAgentHeader, name);
    return send(input, { ...init, headers });
  };
}

interface Answer {
  status: number;
  headers: [string, string][];
  body: ArrayBuffer;
}

async function attemptOf(
  payer: Payer, request: Request, base: string, send: Fetch, wallet: string,
): Promise<Attempt<Answer> | undefined> {
  const path = request.url.startsWith(base) ? request.url.slice(base.length) : "";
  let text = request.method === "POST" ? await request.clone().text() : "";
  let bought = boughtBy(request.method, path, text);
  if (!bought) return undefined;
  // A purchase of any eSIM becomes one of a plan, which has a price to be held to.
  if (productAt(bought.operation)?.hasPlans && (bought.request.planId ?? "") === "") {
    text = JSON.stringify({ ...bought.request, planId: await payer.planFor(bought.path, bought.key, wallet) });
    bought = boughtBy(request.method, path, text)!;
  }
  return {
    ...bought, signal: request.signal, resource: bought.operation === payRoute ? undefined : payer.origin + path,
    send: async (payment, signal) => {
      const headers = new Headers(request.headers);
      if (payment) headers.set(signatureHeader, payment);
      else headers.delete(signatureHeader);
      return replyOf(
        await send(
          new Request(request.url, { method: request.method, headers, signal, ...(text !== "" && { body: text }) }),
        ),
      );
    },
    order: ({ body }) => objectOf(new TextDecoder().decode(body)),
  };
}

// boughtBy says what a request buys; of one that is wrong the service will say what is wrong.
function boughtBy(
  method: string,
  path: string,
  text: string,
): (Purchase & { request: Record<string, unknown> }) | undefined {
  const [, orderId] = /^(?:\/api\/x402)?\/pay\/([^/?#]+)$/.exec(path) ?? [];
  if (orderId && ["GET", "POST"].includes(method)) return { ...paymentOf(orderId), request: { orderId } };
  const product = method === "POST" ? productAt(path) : undefined;
  const body = product && objectOf(text);
  if (!body || typeof body.idempotencyKey !== "string") return undefined;
  const item = {
    ...(typeof body.amountUsdCents === "number" && { amountUsdCents: body.amountUsdCents }),
    planId: String(body.planId ?? ""),
  };
  const of = matched(product!.path, path);
  const request = of === undefined ? body : { ...body, orderId: of };
  return { ...purchaseOf(product!, body.idempotencyKey, item), request };
}

// replyOf reads an answer to its end: one that breaks off says nothing.
async function replyOf(response: Response): Promise<Reply<Answer>> {
  const body = await response.arrayBuffer();
  const { status } = response;
  // What fetch decoded has neither its encoding nor its length any more.
  const headers = [...response.headers].filter(([name]) => !["content-encoding", "content-length"].includes(name));
  const answer = { status, headers, body };
  const text = new TextDecoder().decode(body);
  if (status === 200 && objectOf(text)) return { kind: "done", value: answer };
  if (response.ok) {
    return { kind: "unclear", error: new RoamcardError(`the service answered ${status} without an order`), answer };
  }
  const problem = (objectOf(text) ?? {}) as Partial<ProblemFields>;
  const error = apiError({
    ...problem,
    status,
    code: problem.code ?? `http_${status}`,
    retryAfterMs: retryAfterMs(response.headers.get("retry-after")),
  });
  const terms = response.headers.get(requiredHeader);
  if (status === 402 && terms)
    return {
      kind: "terms",
      header: terms,
      error,
      answer,
      dead: provesDead(response.headers),
      date: response.headers.get("date"),
    };
  if (isUnclear(status, error.retryable)) {
    return { kind: "unclear", error, orderId: error.orderId, waitMs: error.retryAfterMs, answered: true, answer };
  }
  return { kind: "refused", error, answer };
}

function responseOf({ status, headers, body }: Answer): Response {
  return new Response(body.byteLength > 0 ? body.slice(0) : null, { status, headers });
}

// unitsOf is what an order of the wallet costs, by what it was told when the order was made.
async function unitsOf(
  orderId: string, where: { baseUrl: string; fetch: Fetch }, origin: string, signer: Signer,
): Promise<bigint> {
  const transport = createConnectTransport(where);
  try {
    const authorization = await new Session(createClient(AuthService, transport), signer, origin).header();
    const { order } = await createClient(OrderService, transport).getOrder({ orderId }, { headers: { authorization } });
    return unitsOfCents(order?.amountUsdCents ?? 0);
  } catch (error) {
    throw failure(error);
  }
}

async function publishedBy(send: Fetch, base: string, orderUnits: Published["orderUnits"]): Promise<Published> {
  const response = await send(`${base}/api/config`);
  const config = objectOf(await response.text()) as PublicConfig | undefined;
  if (!response.ok || !config?.network || !config.card) {
    const { status, headers } = response;
    const wait = retryAfterMs(headers.get("retry-after"));
    throw apiError({
      status,
      code: `http_${status}`,
      detail: "the service's terms cannot be read",
      retryAfterMs: wait,
    });
  }
  const plans = async () => {
    const catalogue = objectOf(await (await send(`${base}/api/esim/plans`)).text());
    return Array.isArray(catalogue?.plans) ? (catalogue.plans as Plan[]) : [];
  };
  return { ...publishedOf(config, plans), orderUnits };
}

/** The part of GET /api/config that payments need. */
export interface PublicConfig {
  network?: { payTo: string; asset: string; assetName: string; assetVersion: string };
  card?: { walletPaymentUsdCents: number; defaultOrderUsdCents: number };
}

/** The part of a plan that payments need. */
export type Plan = { planId: string; amount: string };

/** What a configuration, and the catalogue of plans as it is now, publish about payments. */
export function publishedOf(
  { network, card }: PublicConfig, plans: () => Promise<Plan[]>,
): Omit<Published, "orderUnits"> {
  if (!network || !card) throw new RoamcardError("the service publishes no terms");
  const { payTo, asset, assetName, assetVersion } = network;
  const cheapestPlan = async (): Promise<string> => {
    const [cheapest] = (await plans()).sort(
      (a, b) => Number(BigInt(a.amount) - BigInt(b.amount)) || (a.planId < b.planId ? -1 : 1),
    );
    if (!cheapest) throw new TermsMismatchError("no plan is published; nothing was signed");
    return cheapest.planId;
  };
  const planUnits = async (planId: string): Promise<bigint> => {
    const plan = (await plans()).find((p) => p.planId === planId);
    if (!plan) throw new TermsMismatchError(`no plan ${planId} is published; nothing was signed`);
    return BigInt(plan.amount);
  };
  const [cardUnits, defaultTopupUnits] = [
    unitsOfCents(card.walletPaymentUsdCents),
    unitsOfCents(card.defaultOrderUsdCents),
  ];
  return { payTo, asset, assetName, assetVersion, cardUnits, defaultTopupUnits, cheapestPlan, planUnits };
}

/** The JSON object that a text is; undefined when it is none. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return value && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
