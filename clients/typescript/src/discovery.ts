// What the service says of itself, and what its products would cost.
import type { JsonObject } from "@bufbuild/protobuf";
import type { Call, CallOptions } from "./call.js";
import { type Connection, newKey } from "./connection.js";
import { apiError, type ProblemFields } from "./errors.js";
import { retryAfterMs } from "./failures.js";
import type { Quotation } from "./payer.js";
import { objectOf } from "./rest.js";
import type { CardDiscovery, Config, EsimDiscovery, Status, TopupDiscovery } from "./results.js";
import { userAgent, userAgentHeader } from "./version.js";

/** The service's public documents. */
export class Discovery {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Reads the contract for agents, GET /api/agent, which is plain JSON. */
  agent(options: CallOptions = {}): Call<JsonObject> {
    const connection = this.#connection;
    return connection.call(options, ({ headers, signal, onHeader }, seen) => connection.retrying(options, async () => {
      if (userAgent !== undefined) headers.set(userAgentHeader, userAgent);
      const { baseUrl, fetch } = connection;
      const response = await fetch(`${baseUrl}/api/agent`, { headers, signal: connection.limited(options, signal) });
      onHeader(response.headers);
      const { status } = response;
      seen.status = status;
      const body = objectOf(await response.text());
      if (response.ok && body) return body as JsonObject;
      const problem = (body ?? {}) as Partial<ProblemFields>;
      const wait = retryAfterMs(response.headers.get("retry-after"));
      throw apiError({ ...problem, status, code: problem.code ?? `http_${status}`, retryAfterMs: wait });
    }, signal));
  }

  /** Reads the network, the payee, the fees and the limits. */
  config(options: CallOptions = {}): Call<Config> {
    return this.#connection.call(options, (wire) => this.#connection.runtime.getConfig({}, wire));
  }

  /** Reads how each product stands, since when, and how long recent deliveries took. */
  status(options: CallOptions = {}): Call<Status> {
    return this.#connection.call(options, (wire) => this.#connection.runtime.getStatus({}, wire));
  }

  /** Reads the contract of a card's purchase. */
  card(options: CallOptions = {}): Call<CardDiscovery> {
    return this.#connection.call(options, (wire) => this.#connection.cards.getCardDiscovery({}, wire));
  }

  /** Reads the contract of a top-up. */
  topup(options: CallOptions = {}): Call<TopupDiscovery> {
    return this.#connection.call(options, (wire) => this.#connection.cards.getTopupDiscovery({}, wire));
  }

  /** Reads the contract of an eSIM's purchase. */
  esim(options: CallOptions = {}): Call<EsimDiscovery> {
    return this.#connection.call(options, (wire) => this.#connection.esims.getEsimDiscovery({}, wire));
  }
}

/** Prices: asked for, checked, and held against the policy. Nothing is signed. */
export class Quotes {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Asks what a card costs. */
  card(options: CallOptions = {}): Promise<Quotation> {
    return this.#connection.quote(options, (wire) =>
      this.#connection.cards.purchaseCard({ idempotencyKey: newKey() }, wire),
    );
  }

  /** Asks what a top-up costs. */
  topup({ amountUsdCents, ...options }: CallOptions & { amountUsdCents: number }): Promise<Quotation> {
    return this.#connection.quote(options, (wire) =>
      this.#connection.cards.topUpCard({ amountUsdCents, idempotencyKey: newKey() }, wire),
    );
  }

  /** Asks what an eSIM costs: a plan, or the cheapest that can be had. */
  esim({ planId, ...options }: CallOptions & { planId?: string | undefined } = {}): Promise<Quotation> {
    const request = { idempotencyKey: newKey(), ...(planId !== undefined && { planId }) };
    return this.#connection.quote(options, (wire) => this.#connection.esims.purchaseEsim(request, wire));
  }

  /** Asks what more data for the eSIM of an order costs: a plan that it takes, or the cheapest. */
  esimTopUp(
    orderId: string, { planId, ...options }: CallOptions & { planId?: string | undefined } = {},
  ): Promise<Quotation> {
    const request = { orderId, idempotencyKey: newKey(), ...(planId !== undefined && { planId }) };
    return this.#connection.quote(options, (wire) => this.#connection.esims.topUpEsim(request, wire));
  }
}
