// The wallet's card: bought, topped up, read, and shown to a person.
import { until } from "./abort.js";
import { type Call, type CallOptions, type Listing, listing, type PageOptions } from "./call.js";
import { type Connection, newKey, present } from "./connection.js";
import { ApiError, RevealError, RoamcardError } from "./errors.js";
import { type Orders, type Paid, paid, PaidOrder, type PurchaseOptions, type WaitOptions } from "./orders.js";
import type { Presented, Presenter } from "./presenter.js";
import {
  type Card,
  type CardBalance,
  type CardDetails,
  type CardLimits,
  type CardTransaction,
  type Order,
  plain,
  type Revealed,
} from "./results.js";
import { schemeOf, signChallenge } from "./session.js";

/** What a wallet allows its card to be used for. */
export interface NewCardLimits {
  /** The most that one purchase may be. */
  perTransactionUsdCents?: number;
  /** The most that all purchases of a month may be, by the issuer's calendar. */
  perMonthUsdCents?: number;
  /** The merchant categories that alone may be used. Not with blockedCategories. */
  allowedCategories?: string[];
  /** The merchant categories that may not be used. */
  blockedCategories?: string[];
}

/** The wallet's cards. */
export class Cards {
  readonly #connection: Connection;
  readonly #orders: Orders;

  constructor(connection: Connection, orders: Orders) {
    this.#connection = connection;
    this.#orders = orders;
  }

  /**
   * Buys a card for 25.00. It is issued meanwhile: see waitUntilActive. Without a key one is made; keep the one that
   * comes back. After an AmbiguousPaymentError call again with the same key.
   */
  purchase({ idempotencyKey = newKey(), ...options }: PurchaseOptions = {}): Call<CardOrder> {
    return this.#connection.pay(
      options,
      async (wire, seen) =>
        new CardOrder(
          this,
          this.#orders,
          await paid(this.#connection.cards.purchaseCard({ idempotencyKey }, wire), idempotencyKey, seen),
        ),
    );
  }

  /**
   * Tops the wallet's card up by 25.00 to 250.00, of which a fee of 2 % is kept; undefined leaves the amount to the
   * service, which then asks for what it publishes. Otherwise like purchase.
   */
  topUp(
    { amountUsdCents, idempotencyKey = newKey(), ...options }: PurchaseOptions & { amountUsdCents: number | undefined },
  ): Call<PaidOrder> {
    const request = { idempotencyKey, ...(amountUsdCents !== undefined && { amountUsdCents }) };
    return this.#connection.pay(options, async (wire, seen) =>
      new PaidOrder(this.#orders, await paid(this.#connection.cards.topUpCard(request, wire), idempotencyKey, seen)));
  }

  /**
   * Waits until the card of an order is ACTIVE, and returns it. It rejects when no card comes of the order by itself.
   */
  async waitUntilActive(order: Order | string, options: WaitOptions = {}): Promise<Card> {
    const { timeoutMs: _, onUpdate: __, intervalMs: ___, ...reading } = options;
    for await (const { issuance, orderId } of this.#orders.waiting(order, options)) {
      if (issuance?.status !== "active" || !issuance.cardId) continue;
      const card = (await this.list(reading)).find((c) => c.id === issuance.cardId);
      if (card?.status === "ACTIVE") return card;
      throw new RoamcardError(`the card of order ${orderId} is ${card?.status ?? "gone"}`);
    }
    throw new RoamcardError("no card comes of the order by itself; look at its status");
  }

  /** Lists the wallet's cards. */
  list(options: CallOptions = {}): Call<Card[]> {
    return this.#connection.call(options, async (wire) => (await this.#connection.cards.listCards({}, wire)).cards);
  }

  /** Reads what is on a card, from its issuer. */
  balance(cardId: string, options: CallOptions = {}): Call<CardBalance> {
    return this.#connection.call(options, (wire) => this.#connection.cards.getCardBalance({ id: cardId }, wire));
  }

  /**
   * Freezes a card until it is unfrozen: purchases are declined, and it cannot be topped up. A card that is frozen
   * stays as it is.
   */
  freeze(cardId: string, options: CallOptions = {}): Call<Card> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.cards.freezeCard({ id: cardId }, wire)).card),
    );
  }

  /** Lets a card that its owner has frozen be used again. What the issuer has locked stays locked. */
  unfreeze(cardId: string, options: CallOptions = {}): Call<Card> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.cards.unfreezeCard({ id: cardId }, wire)).card),
    );
  }

  /** Reads the billing address of a card and how its 3-D Secure challenges are answered, as far as its issuer tells. */
  details(cardId: string, options: CallOptions = {}): Call<CardDetails> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.cards.getCardDetails({ id: cardId }, wire)).details),
    );
  }

  /** Reads the limits of a card, from its issuer. */
  limits(cardId: string, options: CallOptions = {}): Call<CardLimits> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.cards.getCardLimits({ id: cardId }, wire)).limits),
    );
  }

  /**
   * Replaces the limits of a card, and returns those that it has then: what is absent is not limited. The categories
   * are merchant category codes, four digits (ISO 18245). The discovery's controls say which limits the issuer has;
   * another is card_control_missing.
   */
  setLimits(cardId: string, limits: NewCardLimits, options: CallOptions = {}): Call<CardLimits> {
    return this.#connection.call(options, async (wire) =>
      present((await this.#connection.cards.setCardLimits({ ...limits, id: cardId }, wire)).limits),
    );
  }

  /**
   * Reads what a card was used for, newest first: one by one, which asks for pages as they are needed, or by page().
   * The merchants' names are text of strangers.
   */
  transactions(
    cardId: string,
    { pageSize, pageToken, ...options }: CallOptions & PageOptions = {},
  ): Listing<CardTransaction> {
    return listing({ pageSize, pageToken }, (page) =>
      this.#connection.call(options, async (wire) => {
        const request = { id: cardId, ...page };
        const { transactions, nextPageToken } = await this.#connection.cards.listCardTransactions(request, wire);
        return { items: plain(transactions), nextPageToken };
      }),
    );
  }

  /**
   * Shows a card's number and code to a person. The service seals them to a key that the presenter makes for this once;
   * the caller learns whether they were seen, and nothing else. Where the issuer shows cards on a page only, the
   * presenter opens that page of the service's in a browser.
   */
  async reveal(
    cardId: string,
    { present: presenter, ...options }: CallOptions & { present: Presenter },
  ): Promise<Presented> {
    const showing = await presenter.prepare();
    const { recipientKey } = showing;
    const key = recipientKey.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
    let answer: Revealed;
    try {
      answer = await this.#revealed({ id: cardId, recipientKey }, options, {
        members: { cardId, recipientKey: key }, resources: [`urn:roamcard:recipient-key:${key}`],
      });
    } catch (error) {
      if (error instanceof ApiError && error.code === "sealing_missing")
        return this.#onPage(cardId, presenter, options);
      throw error;
    }
    if (!answer.sealed) throw new RevealError("the card came unsealed; it was thrown away");
    return showing.show(cardId, answer.sealed, options.signal);
  }

  // What is signed says that it is for a page: it is of no use to what lies between and only claims that the service
  // does not seal.
  async #onPage(id: string, presenter: Presenter, options: CallOptions): Promise<Presented> {
    if (!presenter.openPage) throw new RevealError("the issuer of this service's cards shows them in a browser only");
    const { embed } = await this.#revealed({ id }, options, {
      members: { cardId: id, recipientKey: "", statement: `Reveal card ${id} once, on a page of this service.` },
      resources: ["urn:roamcard:reveal:page"],
    });
    // The address is a secret: nothing here quotes it.
    const page = URL.canParse(embed?.url ?? "") ? new URL(embed?.url ?? "") : undefined;
    if (!page || page.origin !== new URL(this.#connection.origin).origin || page.username || page.password)
      throw new RevealError("the page of the card is not the service's; it was not opened");
    return presenter.openPage(page.href, options.signal);
  }

  #revealed(
    request: { id: string; recipientKey?: string },
    options: CallOptions,
    { members, resources }: { members: Record<string, string>; resources: string[] },
  ): Promise<Revealed> {
    const { cards, signer, origin } = this.#connection;
    return this.#connection.call(options, async (wire) => {
      const challenge = await cards.createRevealChallenge(
        { ...request, preferredMessageSchemes: [schemeOf(signer)] },
        wire,
      );
      const signed = signChallenge(signer, challenge, {
        origin, primaryType: "RevealCard", members, resources: [`urn:roamcard:card:${request.id}`, ...resources],
      });
      const signature = await until(options.signal, signed);
      const { intentId, messageScheme } = challenge;
      return cards.revealCard({ ...request, intentId, signature, messageScheme }, wire);
    });
  }
}

/** A paid card. */
export class CardOrder extends PaidOrder {
  readonly #cards: Cards;

  constructor(cards: Cards, orders: Orders, answer: Paid) {
    super(orders, answer);
    this.#cards = cards;
  }

  /** Waits until the card is ACTIVE, and returns it. */
  waitUntilActive(options?: WaitOptions): Promise<Card> {
    return this.#cards.waitUntilActive(this.order, options);
  }
}
