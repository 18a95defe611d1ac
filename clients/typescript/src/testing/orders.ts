// The fake's orders and cards, and how they stand.
import { createHash } from "node:crypto";
import { network, sameAddress } from "../x402.js";
import type { Members, Said } from "./problem.js";
import type { Transfer } from "./token.js";

/** What is bought, as a request has it. */
export interface Bought {
  kind: "card_issue" | "card_topup" | "esim" | "esim_topup";
  description: string;
  /** The idempotency key; the id of an order that was made first. */
  key: string;
  planId?: string | undefined;
  cents: number;
  open?: FakeOrder | undefined;
  /** The eSIM that more data is for. */
  of?: FakeOrder | undefined;
}

/** An order; it is fulfilled once it was paid and looked at. */
export interface FakeOrder {
  id: string;
  operationId: string;
  kind: Bought["kind"];
  status: "payment_required" | "settled" | "fulfilled";
  planId?: string | undefined;
  cents: number;
  owner: string;
  created: Date;
  payment?: Transfer;
  card?: FakeCard;
  /** Opens the order without a session. */
  delivery?: string;
  /** Whether its eSIM was given back. */
  cancelled?: boolean;
  /** The eSIM that more data is for, and the data that was added to this one, in mebibytes. */
  of?: FakeOrder | undefined;
  addedMb?: number;
}

/** The card of a wallet. */
export interface FakeCard {
  id: string;
  cents: number;
  created: Date;
  status: "ACTIVE" | "FROZEN";
  /** Those that its owner has set. */
  limits?: Members;
}

const openMs = 30 * 60_000;
const deliveryMs = 30 * 24 * 60 * 60_000;
/** A receipt by nobody: what proves something is the service's. */
const unsigned = "e30.e30.";

/** The fake's orders and cards. */
export class Orders {
  readonly all: FakeOrder[] = [];
  readonly cards = new Map<string, FakeCard>();
  #counter = 0;

  constructor(readonly said: Said, readonly origin: string, readonly now: () => Date) {}

  /** A name that no other one has. */
  id(what: string): string {
    const h = createHash("sha256").update(`${what}${++this.#counter}`).digest("hex");
    return `${h.slice(0, 8)}-${h.slice(8, 12)}-4${h.slice(13, 16)}-8${h.slice(17, 20)}-${h.slice(20, 32)}`;
  }

  find(id: unknown): FakeOrder | undefined {
    return this.all.find((order) => order.id === id);
  }

  /** The orders of a wallet, newest first. */
  of(wallet: string): FakeOrder[] {
    return this.all.filter((order) => sameAddress(order.owner, wallet)).reverse();
  }

  card(wallet: string): FakeCard | undefined {
    return this.cards.get(wallet.toLowerCase());
  }

  create({ kind, planId, cents, of }: Bought, owner: string): FakeOrder {
    const id = `ord_${this.id("order").replaceAll("-", "")}`;
    const order: FakeOrder = {
      id,
      operationId: this.id("operation"),
      kind,
      status: "payment_required",
      planId,
      cents,
      owner,
      created: this.now(),
      of,
    };
    this.all.push(order);
    return order;
  }

  /** Gives what a payment bought: an eSIM at once, the rest by the next look. */
  pay(order: FakeOrder, payment: Transfer): void {
    const { walletPaymentUsdCents, cardIssueFeeUsdCents } = this.said.config.card;
    Object.assign(order, { payment, status: /^esim/.test(order.kind) ? "fulfilled" : "settled" });
    if (order.of) order.of.addedMb = (order.of.addedMb ?? 0) + this.#plan(order).dataMb;
    if (order.kind === "card_issue") {
      const cents = walletPaymentUsdCents - cardIssueFeeUsdCents;
      order.card = { id: this.id("card"), cents, created: this.now(), status: "ACTIVE" };
      this.cards.set(order.owner.toLowerCase(), order.card);
    }
    const card = this.card(order.owner);
    if (order.kind === "card_topup" && card) card.cents += order.cents - this.#fee(order);
  }

  /** Shows an order to who owns it; what was on its way has come. */
  look(order: FakeOrder): Members {
    if (order.status === "settled") order.status = "fulfilled";
    return this.show(order);
  }

  show(order: FakeOrder): Members {
    const { id, operationId, kind, status, cents, created, payment } = order;
    return {
      orderId: id,
      operationId,
      kind,
      status,
      amountUsdCents: cents,
      createdAt: created.toISOString(),
      updatedAt: (payment?.at ?? created).toISOString(),
      ...(payment
        ? { payment: this.#payment(payment) }
        : { payable_url: `${this.origin}/pay/${id}`, expiresAt: new Date(created.getTime() + openMs).toISOString() }),
      ...this.#goods(order),
      ...(payment && status === "fulfilled" ? { receipt: unsigned } : {}),
    };
  }

  /** A delivery that can be opened by a token of its own. */
  deliver(order: FakeOrder): Members {
    order.delivery = this.id("delivery");
    const tokenExpiresAt = new Date(this.now().getTime() + deliveryMs).toISOString();
    return { status: "fulfilled", ...this.#planned(order), token: order.delivery, tokenExpiresAt };
  }

  #payment({ payer, amount, transaction, at }: Transfer): Members {
    return {
      payer,
      network,
      asset: this.said.config.network.asset,
      amount: String(amount),
      transaction,
      settledAt: at.toISOString(),
    };
  }

  #goods(order: FakeOrder): Members {
    const { kind, status, cents, card } = order;
    const { walletPaymentUsdCents, cardIssueFeeUsdCents } = this.said.config.card;
    const done = (as: string) => ({ payment_required: "unpaid", settled: "queued", fulfilled: as })[status];
    if (kind === "esim") return { delivery: { status: done("fulfilled"), ...this.#planned(order) } };
    if (kind === "esim_topup") {
      const { dataMb, validityDays } = this.#plan(order);
      const plan = this.#planned(order);
      const esimTopup = { status: done("fulfilled"), orderId: order.of?.id, ...plan, dataMb, unlimited: false };
      return { esimTopup: { ...esimTopup, validityDays } };
    }
    if (kind === "card_topup") {
      const fee = this.#fee(order);
      return {
        topup: {
          status: done("credited"),
          grossUsdCents: cents,
          loadFeeUsdCents: fee,
          cardCreditUsdCents: cents - fee,
        },
      };
    }
    return {
      issuance: {
        status: done("active"),
        cardIssueFeeUsdCents,
        expectedAvailableAfterIssueUsdCents: walletPaymentUsdCents - cardIssueFeeUsdCents,
        ...(status === "fulfilled" && { cardId: card?.id }),
      },
    };
  }

  #planned({ planId }: FakeOrder): { planId: string | undefined; planName: unknown } {
    return { planId, planName: this.said.plans.find((plan) => plan.planId === planId)?.name };
  }

  #plan({ planId }: FakeOrder): { dataMb: number; validityDays: number } {
    const { dataMb, validityDays } = this.said.plans.find((plan) => plan.planId === planId)!;
    return { dataMb: Number(dataMb), validityDays: Number(validityDays) };
  }

  #fee({ cents }: FakeOrder): number {
    return Math.floor((cents * this.said.config.card.loadFeeBps) / 10_000);
  }
}
