// An order at its link, for who has the link and the wallet of its owner: read, paid and followed without a session.
import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { bounded } from "./bounded.js";
import { replyOf } from "./connect.js";
import { RoamcardError, TermsMismatchError } from "./errors.js";
import { failure } from "./failures.js";
import { OrderService, type PayOrderResponse } from "./gen/roamcard/v1/order_pb.js";
import { RuntimeService } from "./gen/roamcard/v1/service_pb.js";
import type { Entry, Store } from "./journal.js";
import { unitsOfCents } from "./money.js";
import { type Attempt, Payer, type PaymentEvents } from "./payer.js";
import { paymentOf, payRoute } from "./products.js";
import { type Fetch, publishedOf, trimmed } from "./rest.js";
import { type Config, type Order, type PayableOrder, plain } from "./results.js";
import { defaultRetries, retrying } from "./retry.js";
import { Secret } from "./secret.js";
import type { Signer } from "./signers.js";
import { type Source, watch } from "./watch.js";
import { signatureHeader } from "./x402.js";

/** How a link is taken up. */
export interface PayLinkOptions {
  /** Where the service is. */
  baseUrl: string;
  /** The order. */
  orderId: string;
  /** The service's public origin, when `baseUrl` is a gateway before it. */
  origin?: string | undefined;
  /** Keeps what was signed; memory when absent. With an IndexedDbStore the tabs of a browser pay once together. */
  store?: Store | undefined;
  events?: PaymentEvents | undefined;
  fetch?: Fetch | undefined;
  /** How long one request may take; 30 s when absent, which is longer than the service waits for anything. */
  timeoutMs?: number | undefined;
  /** How often the same signed bytes go out again after an unclear answer; 4 when absent. */
  maxReplays?: number | undefined;
}

/** An order that was paid at its link. */
export interface LinkPayment {
  /** The order as it was when it was paid. */
  order: Order;
  /** Follows the order without a session; see PayLink.watch. */
  watchToken: Secret<string>;
}

const watchHeader = "x-order-watch-token";
/** How often a moving order is looked at, where streams do not get through. */
const defaultInterval = 2_000;

/** One order at its link. */
export class PayLink {
  readonly orderId: string;
  readonly #options: PayLinkOptions;
  readonly #origin: string;
  readonly #orders: Client<typeof OrderService>;
  readonly #runtime: Client<typeof RuntimeService>;
  #config: Promise<Config> | undefined;
  #payer: Promise<Payer> | undefined;

  constructor(options: PayLinkOptions) {
    this.orderId = options.orderId;
    this.#options = options;
    const baseUrl = trimmed(options.baseUrl);
    this.#origin = trimmed(options.origin ?? baseUrl);
    const send = bounded(options.fetch ?? ((input, init) => fetch(input, init)));
    const transport = createConnectTransport({ baseUrl, fetch: send });
    this.#orders = createClient(OrderService, transport);
    this.#runtime = createClient(RuntimeService, transport);
  }

  /** What the service publishes: network, asset, payee. */
  config(): Promise<Config> {
    const read = async () => plain(await this.#reading(undefined, (wire) => this.#runtime.getConfig({}, wire)));
    this.#config ??= read().catch((error: unknown) => {
      this.#config = undefined;
      throw error;
    });
    return this.#config;
  }

  /** Reads what is paid for, and how the order stands. */
  async read(signal?: AbortSignal): Promise<PayableOrder> {
    const { orderId } = this;
    const { order } = await this.#reading(signal, (wire) => this.#orders.getPayableOrder({ orderId }, wire));
    return plain(present(order));
  }

  /** Asks whether the order can be paid now. It rejects with the service's reason why not, and signs nothing. */
  async ask(signal?: AbortSignal): Promise<void> {
    const payer = await this.#paying();
    await payer.quote(this.#attempt(signal)).catch(rethrown);
  }

  /** The payment that the store has of this order, if there is one. */
  async kept(): Promise<Entry | undefined> {
    const { purchases } = await (await this.#paying()).journal.store.read();
    return Object.values(purchases).find((entry) => {
      const { operation, key, origin, header } = entry;
      return operation === payRoute && key === this.orderId && origin === this.#origin && header !== undefined;
    });
  }

  /**
   * Pays the order with one signature, or sends what the store has of it already: calls in several tabs, and after a
   * reload, are one payment. After an AmbiguousPaymentError call again.
   */
  async pay(signer: Signer, signal?: AbortSignal): Promise<LinkPayment> {
    const { owner } = await this.read(signal);
    if (!isMasked(owner, signer.address))
      throw new TermsMismatchError(`the order belongs to ${owner}, not to ${signer.address}; nothing was signed`);
    const payer = await this.#paying();
    return paidOf(await payer.pay(this.#attempt(signal), signer).catch(rethrown));
  }

  /** Sends the payment that the store has once more, which needs no wallet: the answer is the paid order. */
  async resume(signal?: AbortSignal): Promise<LinkPayment> {
    const [payer, kept] = [await this.#paying(), await this.kept()];
    const reply = kept && (await payer.resume(this.#attempt(signal), kept.payer).catch(rethrown));
    if (!reply) throw new RoamcardError("the store has no payment of this order that could be sent again");
    if (reply.kind !== "done") throw reply.error;
    return paidOf(reply.value);
  }

  /**
   * Yields the order now and whenever its status changes, until it moves no more by itself. It follows the service's
   * stream, and asks again every `intervalMs` where streams do not get through; what may pass by itself is waited out.
   */
  watch(
    { order, watchToken }: LinkPayment,
    { signal, intervalMs = defaultInterval }: { signal?: AbortSignal; intervalMs?: number } = {},
  ): AsyncGenerator<Order, void> {
    const [{ orderId }, orders] = [this, this.#orders];
    const headers = { [watchHeader]: watchToken.reveal() };
    const source: Source = {
      stream: async function* (after, until) {
        const request = { orderId, ...(after !== undefined && { after }) };
        for await (const { order: now, cursor } of orders.watchOrder(request, { headers, signal: until }))
          yield { order: now && plain(now), cursor };
      },
      // The link tells how the order stands, and not what it delivered.
      read: async (until) => {
        const { status } = await this.read(until);
        return { ...order, status };
      },
    };
    return watch(source, intervalMs, signal);
  }

  // reading makes a read, and again when it fails in passing.
  #reading<T>(signal: AbortSignal | undefined, read: (wire: { signal: AbortSignal }) => Promise<T>): Promise<T> {
    const limited = () => AbortSignal.timeout(this.#options.timeoutMs ?? 30_000);
    const wire = () => ({ signal: AbortSignal.any([limited(), ...(signal ? [signal] : [])]) });
    return retrying(() => read(wire()).catch(rethrown), defaultRetries, signal);
  }

  // paying makes the payer, for the network and the asset that the service publishes. The payer confirms each payment
  // before it is asked for.
  #paying(): Promise<Payer> {
    const make = async () => {
      const { network } = await this.config();
      if (!network) throw new RoamcardError("the service publishes no terms");
      const allow = { network: network.network, asset: network.asset, payTo: network.payTo };
      return new Payer({
        ...this.#options,
        origin: this.#origin,
        policy: { mode: "human_approval", approve: () => true, allow },
        published: async () => ({
          ...publishedOf(await this.config(), async () => []),
          orderUnits: async () => unitsOfCents((await this.read()).amountUsdCents),
        }),
      });
    };
    this.#payer ??= make().catch((error: unknown) => {
      this.#payer = undefined;
      throw error;
    });
    return this.#payer;
  }

  #attempt(signal: AbortSignal | undefined): Attempt<PayOrderResponse> {
    const [{ orderId }, orders] = [this, this.#orders];
    return {
      ...paymentOf(orderId),
      request: { orderId },
      resource: undefined,
      signal,
      send: async (payment, until) => {
        const headers = new Headers(payment === undefined ? [] : [[signatureHeader, payment]]);
        try {
          return { kind: "done", value: await orders.payOrder({ orderId }, { headers, signal: until }) };
        } catch (error) {
          return replyOf(error);
        }
      },
      order: (answer) => answer.order,
    };
  }
}

/** Whether an address may be the one that a link shows without its middle. */
export function isMasked(masked: string, address: string): boolean {
  const [start = "", end = ""] = masked.toLowerCase().split("…");
  const whole = address.toLowerCase();
  return start.length + end.length > 2 && whole.startsWith(start) && whole.endsWith(end);
}

function paidOf({ order, watchToken }: PayOrderResponse): LinkPayment {
  return { order: plain(present(order)), watchToken: new Secret(watchToken) };
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new RoamcardError("the service answered without what was asked for");
  return value;
}

function rethrown(error: unknown): never {
  throw failure(error);
}
