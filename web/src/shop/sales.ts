// Purchases: one signature each, sent until the answer is clear, also after the tab was closed.
import type { Buyer, Entry, Order } from "roamcard";
import { type Notice, noticeOf } from "../lib/notice.js";
import { notOn } from "../lib/wallet.js";
import type { Paid } from "./paying.js";
import type { Shop } from "./shop.js";
import type { Delivered, Item, Resumption, Sale } from "./state.js";

const askAgain = 3_000;
const lookAgain = 2_000;

/** What is bought in one visit of the shop. */
export class Sales {
  readonly #shop: Shop;
  #signing: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(shop: Shop) {
    this.#shop = shop;
  }

  get #sale(): Sale | undefined {
    return this.#shop.state.sale;
  }

  #set(change: Partial<Sale>): void {
    if (this.#sale) this.#shop.set({ sale: { ...this.#sale, ...change } });
  }

  /** Shows what is bought and under which terms. */
  open(item: Item): void {
    clearTimeout(this.#timer);
    this.#shop.set({ sale: { item, key: `shop-${crypto.randomUUID()}`, step: "asking" } });
    void this.#shop.funds();
  }

  /** Puts a purchase away. One that is signed goes on, and is found among the orders. */
  close(): void {
    this.#signing?.abort(new DOMException("cancelled", "AbortError"));
    if (this.#sale?.step === "sending") return;
    clearTimeout(this.#timer);
    this.#shop.set({ sale: undefined });
    this.#shop.owned.follow();
  }

  /** The wallet has signed: from now on only the outcome is of interest. */
  signed(): void {
    this.#set({ step: "sending", notice: undefined });
  }

  /** Asks the wallet for the one signature, and sends it. */
  async pay(): Promise<void> {
    const { wallet, chain } = this.#shop.state;
    const sale = this.#sale;
    if (!sale || !wallet || !chain || sale.step !== "asking") return;
    const { signal } = (this.#signing = new AbortController());
    this.#set({ step: "signing", notice: undefined });
    const elsewhere = await notOn(wallet, chain);
    if (elsewhere) return this.#set({ step: "asking", notice: { kind: elsewhere } });
    const { buy } = await this.#shop.paying();
    await this.#send(() => buy(this.#shop.buyer, sale, signal));
  }

  /** Gives up waiting for the wallet; what it signs later is not sent. */
  cancel(): void {
    if (this.#sale?.step !== "signing") return;
    this.#signing?.abort(new DOMException("cancelled", "AbortError"));
    this.#set({ step: "asking" });
  }

  async #send(buy: () => Promise<Paid>): Promise<void> {
    const key = this.#sale?.key;
    const mine = () => this.#sale?.key === key;
    try {
      const paid = await buy();
      const { deliveredBy } = await this.#shop.paying();
      if (mine()) this.#paid(paid, deliveredBy(paid));
    } catch (error) {
      if (!mine()) return;
      if (error instanceof DOMException && error.name === "AbortError") return this.#set({ step: "asking" });
      this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    const notice = noticeOf(error);
    if (this.#sale?.step === "sending" && isUnclear(notice)) {
      this.#set({ notice: { ...notice, kind: "unknown" } });
      const key = this.#sale.key;
      this.#timer = setTimeout(() => void this.#send(() => this.#shop.buyer.resume(key)), askAgain);
      return;
    }
    this.#set({ step: "asking", notice });
    void this.#shop.look();
  }

  #paid(paid: Paid, delivered: Delivered | undefined): void {
    this.#set({ step: "paid", notice: undefined, order: paid.order, delivered });
    this.#shop.owned.took(paid.order);
    void this.#arrives(this.#shop.buyer, paid.order, delivered, (change) => {
      if (this.#sale?.order?.orderId === paid.orderId) this.#set(change);
    });
  }

  // arrives waits for an eSIM that was not ready in time, by its token: nobody has to sign in for it.
  async #arrives(
    client: Buyer, order: Order, delivered: Delivered | undefined, tell: (change: { order: Order }) => void,
  ): Promise<void> {
    if (order.kind !== "esim" || !delivered?.deliveryToken || delivered.credentials) return;
    for (let now = order; ["settling", "settled", "provisioning"].includes(now.status); ) {
      await new Promise((done) => setTimeout(done, lookAgain));
      const { deliveryToken } = delivered;
      now = await client.esim.status(order.orderId, { deliveryToken }).catch(() => now);
      tell({ order: now });
    }
  }

  /** Takes up the payments that were signed in an earlier visit: the same bytes go out, which needs no wallet. */
  async resume(): Promise<void> {
    // Whoever has never paid here has no journal, and does not load what reads it.
    const names = (await indexedDB.databases?.().catch(() => undefined))?.map(({ name }) => name);
    if (names && !names.includes("roamcard")) return;
    const entries = await (await this.#shop.paying()).unanswered().catch((): Entry[] => []);
    for (const entry of entries) void this.#resume(entry);
  }

  async #resume(entry: Entry): Promise<void> {
    const { key } = entry;
    const { senderOf, kindAt, deliveredBy } = await this.#shop.paying();
    const { config } = this.#shop.state;
    if (!config) return;
    const tell = (change: Partial<Resumption>) => {
      const { resumptions } = this.#shop.state;
      const [known = { key, kind: kindAt(entry), at: "sending" as const }] = resumptions.filter((r) => r.key === key);
      const others = resumptions.filter((r) => r.key !== key);
      this.#shop.set({ resumptions: [...others, { ...known, ...change }] });
    };
    tell({ at: "sending" });
    const client = senderOf(config, entry);
    for (;;) {
      try {
        const paid = await client.resume(key);
        const delivered = deliveredBy(paid);
        tell({ at: "paid", client, order: paid.order, delivered });
        return void this.#arrives(client, paid.order, delivered, tell);
      } catch (error) {
        if (!isUnclear(noticeOf(error))) return tell({ at: "refused" });
        tell({ at: "unknown" });
        await new Promise((done) => setTimeout(done, askAgain));
      }
    }
  }

  /** Puts away what is told of an earlier visit. */
  dismiss(key: string): void {
    this.#shop.set({ resumptions: this.#shop.state.resumptions.filter((r) => r.key !== key) });
  }
}

function isUnclear({ kind }: Notice): boolean {
  return ["unknown", "unavailable", "offline"].includes(kind);
}

