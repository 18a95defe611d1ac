// What the signed-in wallet owns: its cards and its orders, which one stream keeps current.
import { type Order, type Page, UnauthorizedError } from "roamcard";
import { noticeOf } from "../lib/notice.js";
import { isMoving } from "../lib/order.js";
import type { Shop } from "./shop.js";
import type { OrderKind } from "./state.js";

/** How long before its end a session is not used any more: a request of this page must not ask the wallet by itself. */
const margin = 90_000;
/** When what is on a new card is read again: its issue fee leaves it a moment after it is active. */
const feeAfter = 5_000;
const pageSize = 20;
/** How many orders one stream follows. */
const mostFollowed = 50;

/** What one wallet owns. */
export class Owned {
  readonly #shop: Shop;
  #following: AbortController | undefined;
  #followed = "";
  #page: Page<Order> | undefined;
  #end: ReturnType<typeof setTimeout> | undefined;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(shop: Shop) {
    this.#shop = shop;
  }

  /** Reads all, and follows it until the session ends. */
  begin(expiresAt: string | undefined): void {
    const left = expiresAt === undefined ? 0 : Date.parse(expiresAt) - Date.now() - margin;
    clearTimeout(this.#end);
    this.#end = setTimeout(() => {
      this.clear();
      this.#shop.set({ session: "over" });
    }, Math.max(0, Math.min(left, 2 ** 31 - 1)));
    void this.cards();
    void this.orders(this.#shop.state.kind);
  }

  /** Clears everything. */
  clear(): void {
    clearTimeout(this.#end);
    clearTimeout(this.#later);
    this.#following?.abort();
    this.#followed = "";
    this.#page = undefined;
    this.#shop.set({ cards: undefined, orders: undefined, hasMore: false, balances: {}, ownedNotice: undefined });
  }

  /** Looks again at what a person comes back to. */
  shown(): void {
    const { session, view } = this.#shop.state;
    if (session === "in" && view.at === "card") void this.cards();
  }

  /** Reads the cards and what is on them. */
  async cards(): Promise<void> {
    const { buyer } = this.#shop;
    await this.#read(async () => {
      const cards = await buyer.cards.list();
      this.#shop.set({ cards });
      await Promise.all(cards.map((card) => card.status === "ACTIVE" && this.balance(card.id)));
    });
  }

  /** Reads what is on a card. */
  async balance(cardId: string): Promise<void> {
    const { buyer } = this.#shop;
    const balance = await buyer.cards.balance(cardId).catch(() => undefined);
    const { balances } = this.#shop.state;
    this.#shop.set({ balances: { ...balances, [cardId]: balance } });
  }

  /** Reads the orders, newest first: of all kinds, or of one. */
  async orders(kind: OrderKind | undefined): Promise<void> {
    const { buyer } = this.#shop;
    this.#shop.set({ kind });
    await this.#read(async () => {
      const page = await buyer.orders.list({ pageSize, kind }).page();
      if (this.#shop.state.kind !== kind) return;
      this.#shown(page.items, page);
    });
  }

  /** Reads the next page of them. */
  async more(): Promise<void> {
    const before = this.#page;
    if (!before?.hasNext) return;
    await this.#read(async () => {
      const page = await before.next();
      this.#shown([...(this.#shop.state.orders ?? []), ...page.items], page);
    });
  }

  #shown(orders: Order[], page: Page<Order>): void {
    this.#page = page;
    this.#shop.set({ orders, hasMore: page.hasNext });
    this.follow();
  }

  /** Takes an order up that is new or has changed, and what it changes. */
  took(order: Order): void {
    const { orders, sale, kind, session, payments } = this.#shop.state;
    if (sale?.order?.orderId === order.orderId) this.#shop.set({ sale: { ...sale, order } });
    this.#shop.set({
      payments: payments.map((each) => (each.order?.orderId === order.orderId ? { ...each, order } : each)),
    });
    if (session !== "in") return;
    if (orders) {
      const known = orders.some(({ orderId }) => orderId === order.orderId);
      const added = known || (kind !== undefined && kind !== order.kind) ? orders : [order, ...orders];
      this.#shop.set({ orders: added.map((each) => (each.orderId === order.orderId ? { ...each, ...order } : each)) });
    }
    if (order.status === "fulfilled" && /^card/.test(order.kind)) {
      void this.cards();
      clearTimeout(this.#later);
      this.#later = setTimeout(() => void this.cards(), feeAfter);
    }
    void this.#shop.funds();
    this.follow();
  }

  /** Follows what moves by one stream: a browser has few connections to a service. */
  follow(): void {
    const { orders = [], sale, session } = this.#shop.state;
    if (session !== "in") return;
    const all = sale?.order && this.#shop.isConnected(sale.client) ? [sale.order, ...orders] : orders;
    const moves = ({ status }: Order) => isMoving(status) || status === "payment_required";
    const ids = [...new Set(all.filter(moves).map(({ orderId }) => orderId))].slice(0, mostFollowed);
    const name = [...ids].sort().join(" ");
    if (name === this.#followed) return;
    this.#following?.abort();
    this.#followed = name;
    if (ids.length > 0) void this.#follow(ids, (this.#following = new AbortController()).signal);
  }

  async #follow(ids: string[], signal: AbortSignal): Promise<void> {
    try {
      for await (const order of this.#shop.buyer.orders.watchAll(ids, { signal })) this.took(order);
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    }
  }

  async #read(read: () => Promise<void>): Promise<void> {
    const { account } = this.#shop.state;
    try {
      await read();
      if (this.#shop.state.account === account) this.#shop.set({ ownedNotice: undefined });
    } catch (error) {
      if (this.#shop.state.account === account) this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    if (error instanceof UnauthorizedError) {
      this.clear();
      return this.#shop.set({ session: "over" });
    }
    this.#shop.set({ ownedNotice: noticeOf(error) });
  }
}
