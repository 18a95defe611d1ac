// What the service says of itself, and what its products would cost.
import type { JsonObject } from "@bufbuild/protobuf";
import type { Call, CallOptions } from "./call.js";
import { type Connection, newKey } from "./connection.js";
import { apiError, type ProblemFields } from "./errors.js";
import type { GetCardDiscoveryResponse, GetTopupDiscoveryResponse } from "./gen/roamcard/v1/card_pb.js";
import type { GetEsimDiscoveryResponse } from "./gen/roamcard/v1/esim_pb.js";
import type { GetConfigResponse } from "./gen/roamcard/v1/service_pb.js";
import type { Quotation } from "./payer.js";
import { objectOf } from "./rest.js";

/** The service's public documents. */
export class Discovery {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Reads the contract for agents, GET /api/agent, which is plain JSON. */
  agent(options: CallOptions = {}): Call<JsonObject> {
    const { baseUrl, fetch } = this.#connection;
    return this.#connection.call(options, async ({ signal, onHeader }) => {
      const response = await fetch(`${baseUrl}/api/agent`, { signal: this.#connection.limited(signal) });
      onHeader?.(response.headers);
      const body = objectOf(await response.text());
      const problem = (body ?? {}) as Partial<ProblemFields>;
      if (!response.ok || !body) throw apiError({ ...problem, status: response.status, code: problem.code ?? `http_${response.status}` });
      return body as JsonObject;
    });
  }

  /** Reads the network, the payee, the fees and the limits. */
  config(options: CallOptions = {}): Call<GetConfigResponse> {
    return this.#connection.call(options, (wire) => this.#connection.runtime.getConfig({}, wire));
  }

  /** Reads the contract of a card's purchase. */
  card(options: CallOptions = {}): Call<GetCardDiscoveryResponse> {
    return this.#connection.call(options, (wire) => this.#connection.cards.getCardDiscovery({}, wire));
  }

  /** Reads the contract of a top-up. */
  topup(options: CallOptions = {}): Call<GetTopupDiscoveryResponse> {
    return this.#connection.call(options, (wire) => this.#connection.cards.getTopupDiscovery({}, wire));
  }

  /** Reads the contract of an eSIM's purchase. */
  esim(options: CallOptions = {}): Call<GetEsimDiscoveryResponse> {
    return this.#connection.call(options, (wire) => this.#connection.esims.getEsimDiscovery({}, wire));
  }
}

/** Prices: asked for, checked and judged by the policy. Nothing is signed. */
export class Quotes {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Asks what a card costs. */
  card(options: CallOptions = {}): Promise<Quotation> {
    return this.#connection.quote(options, (wire) => this.#connection.cards.purchaseCard({ idempotencyKey: newKey() }, wire));
  }

  /** Asks what a top-up costs. */
  topup({ amountUsdCents, ...options }: CallOptions & { amountUsdCents: number }): Promise<Quotation> {
    return this.#connection.quote(options, (wire) => this.#connection.cards.topUpCard({ amountUsdCents, idempotencyKey: newKey() }, wire));
  }

  /** Asks what an eSIM costs: a plan, or the cheapest that can be had. */
  esim({ planId, ...options }: CallOptions & { planId?: string | undefined } = {}): Promise<Quotation> {
    const request = { idempotencyKey: newKey(), ...(planId !== undefined && { planId }) };
    return this.#connection.quote(options, (wire) => this.#connection.esims.purchaseEsim(request, wire));
  }
}
