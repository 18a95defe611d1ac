// A Cloudflare Worker that buys eSIMs for callers of its own, who have a token and no wallet. It pays from its wallet,
// within a cap; a caller that repeats a request gets the same eSIM, and nothing is paid again.
import {
  AmbiguousPaymentError, ApiError, Buyer, type EsimCredentials, MemoryStore, RoamcardError, unitsOfDollars,
} from "roamcard";
import { privateKeyToAccount } from "viem/accounts";

/** The part of a KV namespace that is used. */
interface KV {
  get(key: string): Promise<string | null>;
  put(key: string, value: string): Promise<void>;
}

export interface Env {
  /** The wallet's private key: a secret of the Worker. */
  WALLET_KEY: string;
  ROAMCARD_URL: string;
  /** The most that one eSIM may cost, in US dollars. */
  MAX_USD: string;
  /** The most that one isolate signs for in 24 hours. */
  MAX_DAY_USD: string;
  /** The names of the callers, by the SHA-256 of their tokens, as a JSON object. */
  CALLERS: string;
  PURCHASES: KV;
}

/** What KV keeps of a purchase. */
interface Purchase {
  countryCode: string;
  planId: string;
  idempotencyKey: string;
}

/** A refusal, as the caller gets it. */
class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

// An isolate may end at any time, and its journal with it. That costs no money: what names a payment on chain, its
// nonce, is derived from the wallet and the idempotency key. A payment that is signed again has the same nonce, and the
// token takes a nonce once.
const journal = new MemoryStore();

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    try {
      const { pathname } = new URL(request.url);
      if (request.method !== "POST" || pathname !== "/esims") throw new Refusal(404, "there is only POST /esims");
      return await buy(request, env);
    } catch (error) {
      return failed(error);
    }
  },
};

async function buy(request: Request, env: Env): Promise<Response> {
  const name = await caller(request, env);
  const key = request.headers.get("idempotency-key") ?? "";
  if (!/^[\w.-]{1,100}$/.test(key)) throw new Refusal(400, "send an Idempotency-Key");
  const { countryCode } = (await request.json().catch(() => ({}))) as { countryCode?: unknown };
  if (typeof countryCode !== "string" || !/^[A-Z]{2}$/.test(countryCode))
    throw new Refusal(400, 'send {"countryCode": "FR"}');

  // Made for each request: a Worker may not use the connections of another one.
  const buyer = new Buyer({
    baseUrl: env.ROAMCARD_URL,
    signer: privateKeyToAccount(env.WALLET_KEY as `0x${string}`),
    store: journal,
    policy: { mode: "autonomous", maxPerPaymentUsd: env.MAX_USD, maxPerDayUsd: env.MAX_DAY_USD },
  });
  const { planId, idempotencyKey } = await decided(buyer, env, name, key, countryCode);
  const order = await buyer.esim.purchase({ planId, idempotencyKey });

  let esim: EsimCredentials | undefined;
  const present = async (secret: { reveal(): EsimCredentials }) => ((esim = secret.reveal()), { presented: true });
  await buyer.esim.install(order, { present: { presentEsim: present } });
  const { orderId, replayed } = order;
  return json(200, { orderId, replayed, lpa: esim?.lpa, installUrls: esim?.installUrls });
}

// decided gives what is bought under a caller's key, and keeps it before anything is paid: a repeat asks for the same.
// KV is not a lock, and need not be one. Of two requests with one key that arrive at once, both have one idempotency
// key; if they chose different plans, the service refuses the second.
async function decided(buyer: Buyer, env: Env, name: string, key: string, countryCode: string): Promise<Purchase> {
  const kept = await env.PURCHASES.get(`${name}/${key}`);
  const known = kept === null ? undefined : (JSON.parse(kept) as Purchase);
  if (known && known.countryCode !== countryCode) throw new Refusal(409, "this key belongs to another request");
  if (known) return known;
  const cap = unitsOfDollars(env.MAX_USD);
  const { items } = await buyer.plans.list({ countryCode }).page();
  const [cheapest] = items; // the catalogue is sorted by price
  if (!cheapest || BigInt(cheapest.amount) > cap)
    throw new Refusal(422, `nothing is sold for ${countryCode} at up to ${env.MAX_USD} USD`);
  const purchase = { countryCode, planId: cheapest.planId, idempotencyKey: `worker-${await sha256(`${name}/${key}`)}` };
  await env.PURCHASES.put(`${name}/${key}`, JSON.stringify(purchase));
  return purchase;
}

// caller looks a token up by its hash: neither the settings nor the time it takes tell a token.
async function caller(request: Request, env: Env): Promise<string> {
  const [, token = ""] = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
  const callers = new Map(Object.entries(JSON.parse(env.CALLERS) as Record<string, string>));
  const name = callers.get(await sha256(token));
  if (name === undefined) throw new Refusal(401, "this token is not known");
  return name;
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// failed says what the caller can do. Nothing of the wallet is in it.
function failed(error: unknown): Response {
  if (error instanceof Refusal) return json(error.status, { error: error.message });
  const again = { error: "not ready yet; send the same request again" };
  if (error instanceof AmbiguousPaymentError) return json(503, again, { "retry-after": "5" });
  if (error instanceof ApiError && error.code === "order_not_fulfilled")
    return json(202, again, { "retry-after": "5" });
  if (error instanceof RoamcardError) return json(502, { error: error.message });
  throw error;
}

// What an answer holds is the eSIM itself: no cache may keep it.
function json(status: number, body: object, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store", ...headers } });
}
