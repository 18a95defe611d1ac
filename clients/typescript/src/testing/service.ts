// The fake of the service: what is asked over both protocols, and who may ask it.
import { createHash } from "node:crypto";
import type { Fetch } from "../rest.js";
import { sameAddress } from "../x402.js";
import { Faults } from "./faults.js";
import { listen, type Listening } from "./listening.js";
import { Orders } from "./orders.js";
import { connectErrorOf, type Members, type Said, saidBy } from "./problem.js";
import { type Asked, ok, problem, Shop, type Told } from "./shop.js";
import { Token, type Verify, verify } from "./token.js";

/** How a fake is made. */
export interface FakeServiceOptions {
  /** What every wallet has at first, in USDC's smallest unit; 1000.00 when absent. */
  balance?: bigint;
  /** The clock. */
  now?: () => Date;
  /** Verifies signatures; by viem when absent, where it is installed. */
  verify?: Verify;
}

const challengeSeconds = 300;
const sessionSeconds = 3600;
const scopes = ["cards", "orders"];

/** A fake of the service. */
export class FakeService {
  /** What goes wrong for those who come by `fetch` or `listen`. */
  readonly faults = new Faults();
  readonly token: Token;
  /** Reaches the fake in this process: for the `fetch` of a client. */
  readonly fetch: Fetch;
  readonly #now: () => Date;
  readonly #verify: Verify;
  #url = "http://roamcard.test";
  #said: Said;
  #orders: Orders;
  #shop: Shop;
  #listening: Listening | undefined;
  readonly #challenges = new Map<string, { wallet: string; message: string; until: number }>();
  readonly #sessions = new Map<string, { wallet: string; until: number }>();

  constructor(options: FakeServiceOptions = {}) {
    this.#now = options.now ?? (() => new Date());
    this.#verify = options.verify ?? verify;
    this.token = new Token(options.balance ?? 1_000_000_000n, this.#now, this.#verify);
    this.#said = saidBy(this.#url);
    this.#orders = new Orders(this.#said, this.#url, this.#now);
    this.#shop = new Shop(this.#said, this.#orders, this.token);
    this.fetch = this.faults.fetch((input, init) => this.#answer(new Request(input, init)));
  }

  /** The fake's origin, for the `baseUrl` of a client. */
  get url(): string {
    return this.#url;
  }

  /** Whom purchases pay. */
  get payTo(): string {
    return this.#said.config.network.payTo;
  }

  /** Serves the fake on a free port of this machine as well, until `close`. Call it before anything is bought. */
  async listen(): Promise<void> {
    this.#listening = await listen(this.fetch);
    this.#url = this.#listening.url;
    this.#said = saidBy(this.#url);
    this.#orders = new Orders(this.#said, this.#url, this.#now);
    this.#shop = new Shop(this.#said, this.#orders, this.token);
  }

  /** Ends `listen`. */
  async close(): Promise<void> {
    await this.#listening?.close();
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const found = this.#find(request.method, pathname);
    const asked: Asked = {
      method: found?.method ?? "",
      connect: pathname.startsWith("/roamcard.v1."),
      resource: this.#url + pathname,
      headers: request.headers,
      requestId: this.#orders.id("request"),
      members: {},
    };
    const text = await request.text();
    const body = text === "" ? {} : objectOf(text);
    Object.assign(asked.members, Object.fromEntries(searchParams), found?.named, body);
    let told: Told;
    if (!found) told = problem(asked, "route_not_found", "There is nothing here.");
    else if (!body) told = problem(asked, "schema_invalid", "The body is no JSON object.");
    else told = await this.#serve(asked);
    return this.#encode(asked, told, found?.body);
  }

  #encode({ connect, requestId }: Asked, { status, headers = {}, body }: Told, inBody: string | undefined): Response {
    const failed = status >= 400;
    const type = failed && !connect ? "application/problem+json" : "application/json";
    const said = failed
      ? connect
        ? connectErrorOf(body)
        : body
      : inBody !== undefined && !connect
        ? body[inBody]
        : body;
    return new Response(JSON.stringify(said), {
      status, headers: { ...headers, "content-type": type, "x-request-id": requestId, date: this.#now().toUTCString() },
    });
  }

  // find names the procedure that is called, and the member of its answer that is the body over REST.
  #find(method: string, path: string): { method: string; body?: string; named: Members } | undefined {
    if (path.startsWith("/roamcard.v1.") && method === "POST") {
      const route = this.#said.routes.find((r) => `/roamcard.v1.${r.method}` === path);
      return route && { ...route, named: {} };
    }
    for (const route of this.#said.routes) {
      const [verb, pattern] = route.route.split(" ") as [string, string];
      const named = verb === method ? matched(pattern.split("/"), path.split("/")) : undefined;
      if (named) return { ...route, named };
    }
    return undefined;
  }

  #serve(asked: Asked): Told | Promise<Told> {
    const { config, discovery } = this.#said;
    switch (asked.method) {
      case "RuntimeService/GetHealth":
        return ok({ status: "ok" });
      case "RuntimeService/GetConfig":
        return ok(config);
      case "CardService/GetCardDiscovery":
        return ok(discovery.card);
      case "CardService/GetTopupDiscovery":
        return ok(discovery.topup);
      case "EsimService/GetEsimDiscovery":
        return ok(discovery.esim);
      case "EsimService/ListEsimPlans":
        return this.#shop.plans(asked);
      case "AuthService/CreateChallenge":
        return this.#challenge(asked);
      case "AuthService/VerifyChallenge":
        return this.#signIn(asked);
      case "CardService/PurchaseCard":
      case "CardService/TopUpCard":
      case "EsimService/PurchaseEsim":
      case "EsimService/TopUpEsim":
      case "OrderService/PayOrder":
        return this.#shop.sell(asked);
      default: return this.#serveOwner(asked);
    }
  }

  #serveOwner(asked: Asked): Told {
    const delivered = this.#shop.delivered(asked);
    if (delivered) return delivered;
    const token = (asked.headers.get("authorization") ?? "").replace("Bearer ", "");
    const session = this.#sessions.get(token);
    if (!session || session.until <= this.#now().getTime()) {
      return { ...problem(asked, "session_invalid", "Sign in first."), headers: { "www-authenticate": "Bearer" } };
    }
    const { wallet, until } = session;
    if (asked.method === "AuthService/GetSession")
      return ok({ wallet, scopes, expiresAt: new Date(until).toISOString() });
    if (asked.method === "AuthService/Logout") return (this.#sessions.delete(token), ok({ revoked: true }));
    return this.#shop.owned(asked, wallet);
  }

  // challenge gives a text to sign in with (EIP-4361).
  #challenge(asked: Asked): Told {
    const wallet = String(asked.members.address);
    if (!/^0x[0-9a-fA-F]{40}$/.test(wallet)) return problem(asked, "schema_invalid", "The address is none.");
    const [intentId, now] = [this.#orders.id("intent"), this.#now()];
    const until = now.getTime() + challengeSeconds * 1000;
    const expiresAt = new Date(until).toISOString();
    const nonce = createHash("sha256").update(intentId).digest("hex").slice(0, 24);
    const message =
      `${new URL(this.#url).host} wants you to sign in with your Ethereum account:\n${wallet}\n\n` +
      `Sign in to roamcard. This moves no money and reveals no card.\n\n` +
      `URI: ${this.#url}\nVersion: 1\nChain ID: 8453\nNonce: ${nonce}\n` +
      `Issued At: ${now.toISOString()}\nExpiration Time: ${expiresAt}\nRequest ID: ${intentId}`;
    this.#challenges.set(intentId, { wallet, message, until });
    return ok({ intentId, messageScheme: "eip191", message, expiresAt });
  }

  async #signIn(asked: Asked): Promise<Told> {
    const intentId = String(asked.members.intentId);
    const challenge = this.#challenges.get(intentId);
    this.#challenges.delete(intentId);
    const signed =
      challenge &&
      (await this.#verify(challenge.wallet, { message: challenge.message }, String(asked.members.signature)));
    if (
      !signed ||
      !sameAddress(challenge.wallet, String(asked.members.address)) ||
      challenge.until <= this.#now().getTime()
    ) {
      return problem(asked, "challenge_invalid", "The challenge is not signed by its wallet.");
    }
    const accessToken = `rcs_${this.#orders.id("session")}`;
    const until = this.#now().getTime() + sessionSeconds * 1000;
    this.#sessions.set(accessToken, { wallet: challenge.wallet, until });
    return ok({
      accessToken,
      tokenType: "Bearer",
      wallet: challenge.wallet,
      scopes,
      expiresAt: new Date(until).toISOString(),
    });
  }
}

function matched(pattern: string[], path: string[]): Members | undefined {
  if (pattern.length !== path.length) return undefined;
  const named: Members = {};
  for (const [i, part] of pattern.entries()) {
    if (part.startsWith("{") && path[i] !== "") named[part.slice(1, -1)] = decodeURIComponent(path[i]!);
    else if (part !== path[i]) return undefined;
  }
  return named;
}

function objectOf(text: string): Members | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return value && typeof value === "object" && !Array.isArray(value) ? (value as Members) : undefined;
  } catch {
    return undefined;
  }
}
