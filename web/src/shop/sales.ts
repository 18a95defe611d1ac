// Purchases: one signature each, sent until the answer is clear, also after the tab was closed.
import {
  AmbiguousPaymentError, ApprovalDeniedError, type Buyer, type Entry, JournalError, type Order, type Quote,
  UnavailableError,
} from "roamcard";
import { noticeOf } from "../lib/notice.js";
import { notOn } from "../lib/wallet.js";
import type { Shop } from "./shop.js";
import type { Delivered, Item, Payment, Sale } from "./state.js";

const askAgain = 3_000;
const lookAgain = 2_000;

/** What is bought in one visit of the shop. */
export class Sales {
  readonly #shop: Shop;
  #signing: AbortController | undefined;

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
    this.close();
    this.#shop.set({ sale: { item, key: `shop-${crypto.randomUUID()}`, step: "asking" } });
    void this.#shop.funds();
  }

  /** Puts a purchase away. One that is signed goes on, and is told of among the earlier payments. */
  close(): void {
    const { sale, payments } = this.#shop.state;
    if (sale?.step === "signing") this.#signing?.abort(new DOMException("cancelled", "AbortError"));
    this.#shop.set({ sale: undefined });
    if (sale?.step === "sending" && sale.client) {
      const { key, client, notice, item: { kind } } = sale;
      this.#shop.set({ payments: [...payments, { key, kind, client, notice, step: "sending" }] });
    }
    this.#shop.owned.follow();
  }

  /** Asks the wallet for the one signature, and sends it. */
  async pay(): Promise<void> {
    const { wallet, account, chain, config } = this.#shop.state;
    const sale = this.#sale;
    if (!sale || !wallet || !account || !chain || !config || sale.step !== "asking") return;
    const { signal } = (this.#signing = new AbortController());
    this.#set({ step: "signing", notice: undefined });
    const elsewhere = await notOn(wallet, chain);
    if (signal.aborted) return;
    if (elsewhere) return this.#set({ step: "asking", notice: { kind: elsewhere } });
    const { buy, buyerOf } = await this.#shop.paying();
    let isSigned = false;
    // Whatever the wallet shows from here on, what it has signed is of the account that began.
    const signed = () => {
      if (!isSigned) void this.#send(client, sale);
      isSigned = true;
    };
    const approve = (quote: Quote) => this.#approves(quote);
    const client = await buyerOf(config, wallet, account, { approve, signed });
    try {
      await buy(client, sale, signal);
      signed();
    } catch (error) {
      if (error instanceof AmbiguousPaymentError) signed();
      if (isSigned || signal.aborted || error instanceof ApprovalDeniedError) return;
      this.#set({ step: "asking", notice: noticeOf(error) });
      void this.#shop.look();
    }
  }

  // approves lets the wallet be asked for the amount that the person has seen. Another one is shown first.
  #approves({ idempotencyKey, amount }: Quote): boolean {
    const sale = this.#sale;
    if (sale?.step !== "signing" || sale.key !== idempotencyKey) return false;
    if (BigInt(amount) === BigInt(sale.item.cents) * 10_000n) return true;
    const cents = Number(BigInt(amount) / 10_000n);
    this.#set({ step: "asking", item: { ...sale.item, cents }, notice: { kind: "price" } });
    this.#shop.set({ plans: undefined });
    void this.#shop.look();
    return false;
  }

  /** Gives up waiting for the wallet; what it signs later is not sent. */
  cancel(): void {
    if (this.#sale?.step !== "signing") return;
    this.#signing?.abort(new DOMException("cancelled", "AbortError"));
    this.#set({ step: "asking" });
  }

  // send goes on with what was signed, on its sheet while that is open, and among the earlier payments otherwise.
  #send(client: Buyer, { key, item: { kind } }: Sale): Promise<void> {
    const [payment, { payments }] = [{ key, kind, client, step: "sending" as const }, this.#shop.state];
    if (this.#sale?.key === key) this.#set({ client, step: "sending", notice: undefined });
    else this.#shop.set({ payments: [...payments, payment] });
    return this.#finish(payment);
  }

  // finish sends the same bytes until the answer is clear, which needs no wallet: a call that is on its way is shared.
  async #finish({ key, client }: Payment): Promise<void> {
    const { deliveredBy } = await this.#shop.paying();
    for (;;) {
      try {
        const paid = await client.resume(key);
        const delivered = deliveredBy(paid);
        this.#tell(key, { step: "paid", notice: undefined, order: paid.order, delivered });
        if (this.#shop.isConnected(client)) this.#shop.owned.took(paid.order);
        return await this.#arrives(client, paid.order, delivered, (order) => this.#tell(key, { order }));
      } catch (error) {
        const notice = noticeOf(error);
        if (!isUnclear(error)) return this.#tell(key, { step: "refused", notice });
        this.#tell(key, { notice: { ...notice, kind: notice.kind === "paused" ? "paused" : "unknown" } });
        await new Promise((done) => setTimeout(done, askAgain));
      }
    }
  }

  #tell(key: string, change: Partial<Payment>): void {
    const { sale, payments } = this.#shop.state;
    this.#shop.set({ payments: payments.map((each) => (each.key === key ? { ...each, ...change } : each)) });
    if (sale?.key !== key) return;
    const { step = sale.step, notice, order, delivered } = { ...sale, ...change };
    this.#set(step === "refused" ? { step: "asking", client: undefined, notice } : { step, notice, order, delivered });
    if (step === "refused") void this.#shop.look();
  }

  // arrives waits for an eSIM that was not ready in time, by its token: nobody has to sign in for it.
  async #arrives(
    client: Buyer, order: Order, delivered: Delivered | undefined, tell: (order: Order) => void,
  ): Promise<void> {
    if (order.kind !== "esim" || !delivered?.deliveryToken || delivered.credentials) return;
    for (let now = order; ["settling", "settled", "provisioning"].includes(now.status); ) {
      await new Promise((done) => setTimeout(done, lookAgain));
      const { deliveryToken } = delivered;
      now = await client.esim.status(order.orderId, { deliveryToken }).catch(() => now);
      tell(now);
    }
  }

  /** Takes up the payments that were signed in an earlier visit: the same bytes go out, which needs no wallet. */
  async resume(): Promise<void> {
    // Whoever has never paid here has no journal, and does not load what reads it.
    const names = (await globalThis.indexedDB?.databases?.().catch(() => undefined))?.map(({ name }) => name);
    const { config } = this.#shop.state;
    if (!config || (names && !names.includes("roamcard"))) return;
    const { unanswered, senderOf, kindAt } = await this.#shop.paying();
    for (const entry of await unanswered().catch((): Entry[] => [])) {
      const [client, kind] = [senderOf(config, entry), kindAt(entry)];
      const payment: Payment = { key: entry.key, kind, client, step: "sending" };
      this.#shop.set({ payments: [...this.#shop.state.payments, payment] });
      void this.#finish(payment);
    }
  }

  /** Puts away what is told of an earlier payment. */
  dismiss(key: string): void {
    this.#shop.set({ payments: this.#shop.state.payments.filter((each) => each.key !== key) });
  }
}

// isUnclear says that a payment may have been taken.
function isUnclear(error: unknown): boolean {
  return [AmbiguousPaymentError, UnavailableError, JournalError].some((each) => error instanceof each);
}
