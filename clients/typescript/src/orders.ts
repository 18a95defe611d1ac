// The wallet's orders: read, watched, created first and paid later.
import { type Call, type CallOptions, type Listing, listing, type PageOptions, requestIdOf } from "./call.js";
import { type Connection, keyHeader, newKey, present } from "./connection.js";
import { RoamcardError, TermsMismatchError } from "./errors.js";
import type { Order as OrderMessage } from "./gen/roamcard/v1/order_pb.js";
import { notEmpty } from "./given.js";
import { type Order, type OrderKind, type OrderStatus, plain } from "./results.js";
import { type Source, type Sources, watch, watchAll } from "./watch.js";
import { decodeReceipt, type Receipt, responseHeader } from "./x402.js";

/** How an order is waited for. */
export interface WaitOptions extends CallOptions {
  /** How long to wait, two minutes when absent; then the wait rejects with a TimeoutError, and the order goes on. */
  timeoutMs?: number | undefined;
  /** How often the order is asked for where streams do not get through; 2 s when absent. */
  intervalMs?: number | undefined;
  /** Called with the order now and at every change. */
  onUpdate?: ((order: Order) => void) | undefined;
}

/** What a paid call is given. */
export interface PurchaseOptions extends CallOptions {
  /**
   * Names the purchase: the same key is the same order. One is made when absent, and comes back with the order. Calls
   * with one key at the same time are one, with the signal of the first.
   */
  idempotencyKey?: string | undefined;
}

/** How often a moving order is looked at, where streams do not get through. */
const defaultInterval = 2_000;
const defaultWait = 120_000;

/** The wallet's orders. */
export class Orders {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Reads one order of this wallet. */
  get(orderId: string, options: CallOptions = {}): Call<Order> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.orders.getOrder({ orderId }, wire)).order),
    );
  }

  /**
   * Reads the wallet's orders, newest first: one by one, which asks for pages as they are needed, or by page().
   * `active` leaves out those that are final, `kind` those of other kinds.
   */
  list({
    active,
    kind,
    pageSize,
    pageToken,
    ...options
  }: CallOptions & PageOptions & { active?: boolean; kind?: OrderKind | undefined } = {}): Listing<Order> {
    return listing({ pageSize, pageToken }, (page) =>
      this.#connection.call(options, async (wire) => {
        const request = { ...page, ...(active && { status: "active" }), ...(kind !== undefined && { kind }) };
        const { orders, nextPageToken } = await this.#connection.orders.listOrders(request, wire);
        return { items: plain(orders), nextPageToken };
      }),
    );
  }

  /**
   * Yields an order now and whenever its status changes, until it moves no more by itself. It follows the service's
   * stream, and asks again every `intervalMs` where streams do not get through; what may pass by itself is waited out.
   */
  watch(
    orderId: string,
    options: Pick<WaitOptions, "signal" | "headers" | "intervalMs"> = {},
  ): AsyncGenerator<Order, void> {
    const { signal, headers, intervalMs = defaultInterval } = options;
    notEmpty("orderId", orderId);
    const source: Source = {
      stream: (after, until) => this.#connection.following(orderId, after, { headers, signal: until }),
      // What fails in passing is waited out by who watches.
      read: (until) => this.get(orderId, { headers, signal: until, maxRetries: 0 }),
    };
    return watch(source, intervalMs, signal);
  }

  /**
   * Yields each of several orders of this wallet, 50 at most, as watch does one of them, over one stream for all: a
   * browser opens few connections to a service. It ends when none of them moves any more by itself.
   */
  watchAll(
    orderIds: Iterable<string>,
    options: Pick<WaitOptions, "signal" | "headers" | "intervalMs"> = {},
  ): AsyncGenerator<Order, void> {
    const { signal, headers, intervalMs = defaultInterval } = options;
    const ids = [...orderIds].map((orderId) => notEmpty("orderId", orderId));
    const sources: Sources = {
      stream: (orders, until) => this.#connection.followingAll(orders, { headers, signal: until }),
      read: (orderId, until) => this.get(orderId, { headers, signal: until, maxRetries: 0 }),
    };
    return watchAll(sources, ids, intervalMs, signal);
  }

  /** Waits until an order is fulfilled. It rejects when it ends otherwise, or needs an operator. */
  async waitUntilFulfilled(order: Order | string, options: WaitOptions = {}): Promise<Order> {
    for await (const now of this.waiting(order, options)) if (now.status === "fulfilled") return now;
    throw new RoamcardError(`order ${idOf(order)} is not fulfilled by itself; look at its status`);
  }

  /** Follows an order for so long as somebody waits. */
  async *waiting(order: Order | string, options: WaitOptions): AsyncGenerator<Order, void> {
    const { signal, headers, timeoutMs = defaultWait, onUpdate, intervalMs } = options;
    const limit = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]);
    for await (const now of this.watch(idOf(order), { signal: limit, headers, intervalMs })) {
      onUpdate?.(now);
      yield now;
    }
  }

  /**
   * Creates an order for a card that is paid later, by this wallet: see pay. Without a key the wallet's open order
   * comes back.
   */
  createCard({ idempotencyKey, ...options }: PurchaseOptions = {}): Call<Order> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.cards.createCardOrder({}, wire)).order),
      keyed(idempotencyKey),
    );
  }

  /** Creates an order that funds the wallet's card and is paid later. */
  createTopUp({
    amountUsdCents,
    idempotencyKey,
    ...options
  }: PurchaseOptions & { amountUsdCents: number }): Call<Order> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.orders.createOrder({ amountUsdCents }, wire)).order),
      keyed(idempotencyKey),
    );
  }

  /** Creates an order for an eSIM that is paid later: a plan, or the cheapest. */
  createEsim({
    planId,
    idempotencyKey = newKey(),
    ...options
  }: PurchaseOptions & { planId?: string | undefined } = {}): Call<Order> {
    const request = planId === undefined ? {} : { planId };
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.esims.createEsimOrder(request, wire)).order),
      keyed(idempotencyKey),
    );
  }

  /** Pays an order that exists: itself, its id or its payable_url. It is safe to repeat; the order's id is its key. */
  pay(order: Order | string, options: CallOptions = {}): Call<PaidOrder> {
    return this.#connection.pay(options, async (wire, seen) => {
      const orderId = payableOf(this.#connection.origin, order);
      return new PaidOrder(this, await paid(this.#connection.orders.payOrder({ orderId }, wire), orderId, seen));
    });
  }
}

/** What a paid call answered. */
export interface Paid {
  order: Order;
  idempotencyKey: string;
  replayed: boolean;
  receipt: Receipt | undefined;
  requestId: string | undefined;
}

/** Reads the answer of a paid call. */
export async function paid(
  answer: Promise<{ order?: OrderMessage | undefined }>, idempotencyKey: string, seen: Headers,
): Promise<Paid> {
  // Calls of one purchase share their answer: each has its own order.
  const order = plain(present((await answer).order));
  return {
    order,
    idempotencyKey,
    replayed: order.replayed ?? false,
    receipt: decodeReceipt(seen.get(responseHeader)),
    requestId: requestIdOf(seen),
  };
}

/**
 * A paid order. Keep the key: the same call with it gives the same order. JSON.stringify writes all of it but secrets.
 */
export class PaidOrder implements Paid {
  readonly orderId: string;
  readonly operationId: string;
  readonly status: OrderStatus;
  /** The order as it was when it was paid. */
  readonly order: Order;
  readonly idempotencyKey: string;
  /** Whether the order was paid by an earlier request. */
  readonly replayed: boolean;
  readonly receipt: Receipt | undefined;
  /** Names the request in the service's logs. */
  readonly requestId: string | undefined;
  readonly #orders: Orders;

  constructor(orders: Orders, { order, idempotencyKey, replayed, receipt, requestId }: Paid) {
    this.#orders = orders;
    this.orderId = order.orderId;
    this.operationId = order.operationId;
    this.status = order.status;
    this.order = order;
    this.idempotencyKey = idempotencyKey;
    this.replayed = replayed;
    this.receipt = receipt;
    this.requestId = requestId;
  }

  /** Waits until what was paid for is delivered. */
  waitUntilFulfilled(options?: WaitOptions): Promise<Order> {
    return this.#orders.waitUntilFulfilled(this.order, options);
  }
}

function idOf(order: Order | string): string {
  return typeof order === "string" ? order : order.orderId;
}

function keyed(idempotencyKey: string | undefined): Record<string, string> {
  return idempotencyKey === undefined ? {} : { [keyHeader]: idempotencyKey };
}

// payableOf takes the id out of a payable_url, which has to be one of this service.
function payableOf(origin: string, order: Order | string): string {
  const id = idOf(order);
  if (!id.includes("/")) return id;
  const [, named] =
    URL.canParse(id) && new URL(id).origin === origin
      ? (/^(?:\/api\/x402)?\/pay\/([^/]+)$/.exec(new URL(id).pathname) ?? [])
      : [];
  if (!named) throw new TermsMismatchError(`${id} is no payable_url of ${origin}; nothing was signed`);
  return decodeURIComponent(named);
}
