// What the service tells everybody: its terms and what it sells. It needs no wallet, and loads nothing that pays.
import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { bounded } from "./bounded.js";
import { failure } from "./failures.js";
import { CardService } from "./gen/roamcard/v1/card_pb.js";
import { EsimService } from "./gen/roamcard/v1/esim_pb.js";
import { RuntimeService } from "./gen/roamcard/v1/service_pb.js";
import { type Fetch, trimmed } from "./rest.js";
import { type CardDiscovery, type Config, type EsimDiscovery, type EsimPlan, plain } from "./results.js";
import { defaultRetries, retrying } from "./retry.js";

/** How a storefront is made. */
export interface StorefrontOptions {
  /** Where the service is. */
  baseUrl: string;
  fetch?: Fetch | undefined;
  /** How long one request may take; 30 s when absent. */
  timeoutMs?: number | undefined;
  /** How often a read is made again that fails in passing; 2 when absent. */
  maxRetries?: number | undefined;
}

/** The shop window: for pages that show what is sold before anybody has a wallet. Roamcard has all of it, too. */
export class Storefront {
  readonly #options: StorefrontOptions;
  readonly #cards: Client<typeof CardService>;
  readonly #esims: Client<typeof EsimService>;
  readonly #runtime: Client<typeof RuntimeService>;

  constructor(options: StorefrontOptions) {
    this.#options = options;
    const send = bounded(options.fetch ?? ((input, init) => fetch(input, init)));
    const transport = createConnectTransport({ baseUrl: trimmed(options.baseUrl), fetch: send });
    this.#cards = createClient(CardService, transport);
    this.#esims = createClient(EsimService, transport);
    this.#runtime = createClient(RuntimeService, transport);
  }

  /** Reads the network, the payee, the fees and the limits, and which sales are paused. */
  async config(): Promise<Config> {
    return plain(await this.#reading((wire) => this.#runtime.getConfig({}, wire)));
  }

  /** Reads the contract of a card's purchase. */
  async card(): Promise<CardDiscovery> {
    return plain(await this.#reading((wire) => this.#cards.getCardDiscovery({}, wire)));
  }

  /** Reads the contract of an eSIM's purchase. */
  async esim(): Promise<EsimDiscovery> {
    return plain(await this.#reading((wire) => this.#esims.getEsimDiscovery({}, wire)));
  }

  /** Lists the plans that are sold, the cheapest first. */
  async plans(): Promise<EsimPlan[]> {
    return plain((await this.#reading((wire) => this.#esims.listEsimPlans({}, wire))).plans);
  }

  // reading makes a read, and again when it fails in passing.
  #reading<T>(read: (wire: { signal: AbortSignal }) => Promise<T>): Promise<T> {
    const { timeoutMs = 30_000, maxRetries = defaultRetries } = this.#options;
    const once = () =>
      read({ signal: AbortSignal.timeout(timeoutMs) }).catch((error: unknown) => {
        throw failure(error);
      });
    return retrying(once, maxRetries);
  }
}
