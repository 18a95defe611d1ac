// What the fake sells, and what it shows to those who bought.
import { dollarsOf, unitsOfCents } from "../money.js";
import { decodePayment, network, type Offer, sameAddress, signatureHeader } from "../x402.js";
import type { Bought, FakeCard, FakeOrder, Orders } from "./orders.js";
import { type Members, problemOf, type Said } from "./problem.js";
import { isOfAccount, type Token } from "./token.js";

/** A request as both protocols make it. */
export interface Asked {
  /** The procedure, as in CardService/PurchaseCard. */
  method: string;
  connect: boolean;
  /** The address that was called. */
  resource: string;
  headers: Headers;
  requestId: string;
  /** The members of body, path and query. */
  members: Members;
}

/** An answer in the form of REST. */
export interface Told {
  status: number;
  headers?: Record<string, string>;
  body: Members;
}

const maxTimeoutSeconds = 120;

/** The fake's shop. */
export class Shop {
  readonly #bought = new Map<string, FakeOrder>();
  readonly #paidWith = new Map<string, FakeOrder>();

  constructor(readonly said: Said, readonly orders: Orders, readonly token: Token) {}

  /** The plans of the catalogue. */
  plans({ members: { countryCode, type } }: Asked): Told {
    const fits = (codes: string[], kind: string) =>
      (!countryCode || codes.includes(String(countryCode))) && (!type || kind === type);
    return ok({ plans: this.said.plans.filter((p) => fits(p.countryCodes, p.type)) });
  }

  /** Answers a paid call: the price, or what the payment buys. */
  async sell(asked: Asked): Promise<Told> {
    const bought = this.#purchase(asked);
    if ("status" in bought) return bought;
    const header = asked.headers.get(signatureHeader);
    if (header === null) {
      return bought.open?.payment
        ? problem(asked, "order_not_payable", "The order is paid.")
        : this.#ask(asked, bought, "payment_required", "Payment required");
    }
    const payment = decodePayment(header);
    if (!payment) return problem(asked, "payment_malformed", "The PAYMENT-SIGNATURE header is no payment.");
    const { from, to, value, nonce } = payment.authorization;
    const name = `${bought.kind} ${from.toLowerCase()} ${bought.key}`;
    const known = this.#known(asked, bought, name, `${from} ${nonce}`.toLowerCase());
    if (known) return known;
    const refused = this.#refused(asked, bought, from, to, value);
    if (refused) return refused;
    const taken = await this.token.take(header);
    // What was taken meanwhile is the same purchase's.
    if ("reason" in taken && taken.reason === "invalid_exact_evm_nonce_already_used") {
      return (
        this.#known(asked, bought, name, `${from} ${nonce}`.toLowerCase()) ??
        problem(asked, "authorization_already_used", "The authorization was used.")
      );
    }
    if ("reason" in taken) {
      return taken.reason === "invalid_exact_evm_signature" && isOfAccount(header)
        ? problem(asked, "payer_kind_not_accepted", "Payments from smart accounts are not accepted.")
        : this.#ask(asked, bought, "payment_rejected", taken.reason);
    }
    const order = bought.open ?? this.orders.create(bought, from);
    this.#bought.set(name, order);
    this.#paidWith.set(`${from} ${nonce}`.toLowerCase(), order);
    this.orders.pay(order, taken.moved);
    return this.#sold(order, false);
  }

  /** An eSIM order by its delivery token; undefined when it is not asked for so. */
  delivered(asked: Asked): Told | undefined {
    const order = /^EsimService\/(GetEsim(Order|Credentials|Profile)|ListEsimTopups)$/.test(asked.method)
      ? this.orders.find(asked.members.orderId)
      : undefined;
    return order?.delivery !== undefined && order.delivery === asked.headers.get("x-esim-delivery-token")
      ? this.#esim(asked, order)
      : undefined;
  }

  /** What belongs to a wallet. */
  owned(asked: Asked, wallet: string): Told {
    const { method, members } = asked;
    const card = this.orders.card(wallet);
    switch (method) {
      case "OrderService/ListOrders": {
        const orders = this.orders.of(wallet).filter((o) => members.status !== "active" || o.status !== "fulfilled");
        const ofKind = orders.filter((o) => members.kind === undefined || members.kind === o.kind);
        return ok({ orders: ofKind.map((o) => this.orders.look(o)) });
      }
      case "OrderService/GetOrder": case "EsimService/GetEsimOrder": case "EsimService/GetEsimCredentials":
      case "EsimService/GetEsimProfile": case "EsimService/CancelEsim": case "EsimService/ListEsimTopups":
      case "EsimService/RotateEsimToken": {
        const order = this.orders.of(wallet).find((o) => o.id === members.orderId);
        return order ? this.#esim(asked, order) : problem(asked, "order_not_found", "There is no such order.");
      }
      case "CardService/ListCards":
        return ok({ cards: card ? [shown(card)] : [] });
      case "CardService/GetCardBalance":
      case "CardService/FreezeCard":
      case "CardService/UnfreezeCard":
      case "CardService/GetCardDetails":
      case "CardService/GetCardLimits":
      case "CardService/SetCardLimits":
      case "CardService/ListCardTransactions":
        return card && card.id === members.id
          ? this.#card(asked, card)
          : problem(asked, "card_not_found", "There is no such card.");
      case "CardService/CreateCardOrder":
      case "OrderService/CreateOrder":
      case "EsimService/CreateEsimOrder":
        return this.#createUnpaid(asked, wallet);
      default:
        return problem(asked, "route_not_found", "The fake does not serve it.");
    }
  }

  #card(asked: Asked, card: FakeCard): Told {
    switch (asked.method) {
      case "CardService/FreezeCard":
        card.status = "FROZEN";
        return ok({ card: shown(card) });
      case "CardService/UnfreezeCard":
        card.status = "ACTIVE";
        return ok({ card: shown(card) });
      case "CardService/ListCardTransactions":
        return ok({ cardId: card.id, currency: "USD", transactions: [] });
      case "CardService/SetCardLimits": {
        const { perTransactionUsdCents, perMonthUsdCents, allowedCategories, blockedCategories } = asked.members;
        const some = (list: unknown) => Array.isArray(list) && list.length > 0;
        if (some(allowedCategories) && some(blockedCategories))
          return problem(asked, "schema_invalid", "allowedCategories and blockedCategories cannot be given both.");
        card.limits = {
          ...(perTransactionUsdCents ? { perTransactionUsdCents } : {}),
          ...(perMonthUsdCents ? { perMonthUsdCents } : {}),
          ...(allowedCategories ? { allowedCategories } : {}),
          ...(blockedCategories ? { blockedCategories } : {}),
        };
        return ok({ limits: limitsOf(card) });
      }
      case "CardService/GetCardDetails":
        return ok({ details: detailsOf(card) });
      case "CardService/GetCardLimits":
        return ok({ limits: limitsOf(card) });
    }
    if (card.status === "FROZEN") {
      const { status, body } = problem(asked, "card_not_active", "The card is FROZEN. Unfreeze it first.");
      return { status, body: { ...body, retryable: false, nextAction: "fix_request" } };
    }
    const asOf = this.orders.now().toISOString();
    return ok({ cardId: card.id, availableUsdCents: card.cents, currency: "USD", asOf });
  }

  #esim(asked: Asked, order: FakeOrder): Told {
    if (/GetOrder$|GetEsimOrder$/.test(asked.method)) return ok({ order: this.orders.look(order) });
    if (order.kind !== "esim" || order.status !== "fulfilled")
      return problem(asked, "order_not_fulfilled", "The order has no eSIM.");
    switch (asked.method) {
      case "EsimService/GetEsimProfile":
        return ok({ profile: this.#profile(order) });
      case "EsimService/RotateEsimToken":
        return ok({ delivery: this.orders.deliver(order) });
      case "EsimService/CancelEsim": {
        if (order.addedMb) return problem(asked, "esim_topped_up", "More data was bought for the eSIM.", order);
        const cancellation = this.#cancellation(order);
        order.cancelled = true;
        return ok({ cancellation });
      }
    }
    if (order.cancelled) return problem(asked, "esim_cancelled", "The eSIM was cancelled.");
    return asked.method === "EsimService/ListEsimTopups"
      ? ok({ plans: this.#taken() })
      : ok({ credentials: this.said.esim });
  }

  // taken are the plans that an eSIM takes: those of the catalogue with a size, the cheapest first.
  #taken(): Said["plans"] {
    return this.said.plans.filter((p) => p.dataMb).toSorted((a, b) => a.priceUsdCents - b.priceUsdCents);
  }

  // profile is the eSIM of an order, which nobody installs.
  #profile(order: FakeOrder): Members {
    const { id } = order;
    const now = this.orders.now();
    const readAt = now.toISOString();
    if (order.cancelled) {
      return { orderId: id, status: "cancelled", readAt, cancellation: this.#cancellation(order) };
    }
    const expiresAt = new Date(now.getTime() + 180 * 24 * 3_600_000).toISOString();
    const totalBytes = String((500 + (order.addedMb ?? 0)) * 1_048_576);
    const usage = { usedBytes: "0", totalBytes, measuredAt: readAt };
    return { orderId: id, status: "not_installed", readAt, expiresAt, usage };
  }

  // cancellation of an order's eSIM is done by the second look. The supplier grants all that was paid.
  #cancellation({ id, cancelled, payment }: FakeOrder): Members {
    const since = this.orders.now().toISOString();
    return cancelled
      ? {
          orderId: id,
          status: "refunded",
          since,
          refundAmount: String(payment?.amount),
          transaction: `0x${"f".repeat(64)}`,
        }
      : { orderId: id, status: "cancelling", since };
  }

  // createUnpaid creates an order that is paid later; the same key gives the same one.
  #createUnpaid(asked: Asked, wallet: string): Told {
    const bought = this.#priced(asked, "");
    if ("status" in bought) return bought;
    const wrong = this.#needsCard(asked, bought, wallet);
    if (wrong) return wrong;
    const name = `open ${bought.kind} ${wallet.toLowerCase()} ${asked.headers.get("idempotency-key")}`;
    const known = this.#bought.get(name);
    if (known && !same(known, bought))
      return problem(asked, "idempotency_key_reused", "The key belongs to another request.");
    const order = known ?? this.orders.create(bought, wallet);
    this.#bought.set(name, order);
    const { extra: _, ...terms } = this.#offer(bought);
    const paymentRequirements = { x402Version: 2, ...terms, resource: `${this.orders.origin}/pay/${order.id}` };
    return ok({ order: { ...this.orders.look(order), ...(bought.kind === "esim" && { paymentRequirements }) } });
  }

  #purchase(asked: Asked): Bought | Told {
    if (asked.method === "OrderService/PayOrder") {
      const open = this.orders.find(asked.members.orderId);
      if (!open) return problem(asked, "order_not_found", "There is no such order.");
      return { kind: open.kind, description: "An order", key: open.id, planId: open.planId, cents: open.cents, open };
    }
    const { idempotencyKey: key } = asked.members;
    if (typeof key === "string" && key !== "" && key.length <= 200 && !key.includes("\0"))
      return this.#priced(asked, key);
    const told = problem(asked, "schema_invalid", "The request has members that are wrong, see fields.");
    told.body.fields = [{ path: "idempotencyKey", rule: "string", message: "must have 1 to 200 characters" }];
    return told;
  }

  #priced(asked: Asked, key: string): Bought | Told {
    const { walletPaymentUsdCents, defaultOrderUsdCents, minOrderUsdCents, maxOrderUsdCents } = this.said.config.card;
    if (/Card(Order)?$/.test(asked.method) && !asked.method.endsWith("TopUpCard")) {
      return { kind: "card_issue", description: "Virtual card", key, cents: walletPaymentUsdCents };
    }
    if (/TopUpCard$|CreateOrder$/.test(asked.method)) {
      const cents = Number(asked.members.amountUsdCents ?? defaultOrderUsdCents);
      const fits = cents >= minOrderUsdCents && cents <= maxOrderUsdCents;
      return fits
        ? { kind: "card_topup", description: "Top-up of a card", key, cents }
        : problem(asked, "schema_invalid", "The amount is not one that can be paid.");
    }
    if (asked.method.endsWith("TopUpEsim")) return this.#more(asked, key);
    const { planId } = asked.members;
    const [cheapest] = this.said.plans.toSorted((a, b) => a.priceUsdCents - b.priceUsdCents);
    const plan = planId === undefined ? cheapest : this.said.plans.find((p) => p.planId === planId);
    if (!plan) return problem(asked, "schema_invalid", "There is no such plan.");
    return {
      kind: "esim",
      description: `Travel eSIM: ${plan.name}`,
      key,
      planId: plan.planId,
      cents: plan.priceUsdCents,
    };
  }

  // more prices data for an eSIM.
  #more(asked: Asked, key: string): Bought | Told {
    const { planId, orderId } = asked.members;
    const of = this.orders.find(orderId);
    if (of?.kind !== "esim")
      return problem(asked, "order_not_found", "The paying wallet has no eSIM order with this id.");
    if (of.status !== "fulfilled") return problem(asked, "order_not_fulfilled", "The order has no eSIM.", of);
    if (of.cancelled) return problem(asked, "esim_cancelled", "The eSIM was cancelled.", of);
    const plans = this.#taken();
    const plan = planId === undefined ? plans[0] : plans.find((p) => p.planId === planId);
    if (!plan) return problem(asked, "terms_changed", "The eSIM does not take this plan.");
    const description = `More data for a travel eSIM: ${plan.name}`;
    return { kind: "esim_topup", description, key, planId: plan.planId, cents: plan.priceUsdCents, of };
  }

  #offer({ cents, open }: Bought): Offer {
    const { asset, payTo } = this.said.config.network;
    // An order that was made first needs no quote.
    const extra = { name: "USD Coin", version: "2", paymentFlow: "upfront", ...(!open && { quoteId: "fake" }) };
    return { scheme: "exact", network, amount: String(unitsOfCents(cents)), asset, payTo, maxTimeoutSeconds, extra };
  }

  #ask(asked: Asked, bought: Bought, code: string, reason: string): Told {
    const resource = {
      url: asked.resource,
      description: bought.description,
      mimeType: "application/json",
      serviceName: "roamcard",
    };
    const required = { x402Version: 2, error: reason, resource, accepts: [this.#offer(bought)] };
    const dollars = dollarsOf(unitsOfCents(bought.cents));
    const price = `Pay ${dollars} USD in USDC and repeat the request with PAYMENT-SIGNATURE.`;
    return {
      ...problem(asked, code, code === "payment_required" ? price : reason),
      headers: { "payment-required": base64(required) },
    };
  }

  // known answers a payment, or a key, that has bought already.
  #known(asked: Asked, bought: Bought, name: string, nonce: string): Told | undefined {
    const [byNonce, byKey] = [this.#paidWith.get(nonce), this.#bought.get(name)];
    if (byNonce && byNonce !== byKey)
      return problem(asked, "authorization_already_used", "The payment bought another order.");
    if (!byKey) return undefined;
    return same(byKey, bought)
      ? this.#sold(byKey, true)
      : problem(asked, "idempotency_key_reused", "The key belongs to another request.");
  }

  #refused(asked: Asked, bought: Bought, from: string, to: string, value: string): Told | undefined {
    const rejected = (reason: string) => this.#ask(asked, bought, "payment_rejected", reason);
    if (bought.open && !sameAddress(bought.open.owner, from))
      return this.#ask(asked, bought, "wrong_payer", "the order is another wallet's");
    const wrong = this.#needsCard(asked, bought, from);
    if (wrong) return wrong;
    if (!sameAddress(to, this.said.config.network.payTo)) return rejected("invalid_exact_evm_recipient_mismatch");
    return value === String(unitsOfCents(bought.cents))
      ? undefined
      : rejected("invalid_exact_evm_payload_authorization_value_mismatch");
  }

  #needsCard(asked: Asked, { kind, of }: Bought, wallet: string): Told | undefined {
    if (of && !sameAddress(of.owner, wallet))
      return problem(asked, "order_not_found", "The paying wallet has no eSIM order with this id.");
    const card = this.orders.card(wallet);
    if (kind === "card_issue" && card) return problem(asked, "card_already_exists", "The wallet already has a card.");
    return kind === "card_topup" && card?.status !== "ACTIVE"
      ? problem(asked, "active_card_missing", "The wallet has no active card.")
      : undefined;
  }

  #sold(order: FakeOrder, replayed: boolean): Told {
    const { payer, amount, transaction } = order.payment!;
    const receipt = { success: true, transaction, network, payer, amount: String(amount) };
    const fresh = order.kind === "esim" &&
      !replayed && { credentials: this.said.esim, delivery: this.orders.deliver(order) };
    return {
      ...ok({ order: { ...this.orders.show(order), ...(replayed && { replayed }), ...fresh } }),
      headers: { "payment-response": base64(receipt) },
    };
  }
}

/** Those of the service's sandbox. */
function detailsOf({ id }: FakeCard): Members {
  const where = { line1: "1 Example Street", line2: "Suite 100", city: "Dover", region: "DE", postalCode: "19901" };
  return {
    cardId: id,
    billingAddress: { name: "Sandbox Programme", ...where, country: "US" },
    threeDSecure: { method: "automatic" },
  };
}

function limitsOf({ id, limits }: FakeCard): Members {
  return { cardId: id, currency: "USD", allowedCategories: [], blockedCategories: [], ...limits };
}

function shown({ id, status, created }: FakeCard): Members {
  return { id, status, last4: "4242", createdAt: created.toISOString() };
}

function same(order: FakeOrder, { kind, cents, planId, of }: Bought): boolean {
  return order.kind === kind && order.cents === cents && order.planId === planId && order.of === of;
}

/** What is said with 200. */
export function ok(body: Members): Told {
  return { status: 200, body };
}

/** A failure of the service. */
export function problem({ requestId }: Asked, code: string, detail: string, order?: FakeOrder): Told {
  const body = { ...problemOf(code, detail, requestId), ...(order && { orderId: order.id }) };
  return { status: body.status, body };
}

function base64(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}
