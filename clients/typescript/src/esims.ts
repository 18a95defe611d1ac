// Travel eSIMs: the catalogue, and what the wallet bought of it.
import { type Call, type CallOptions, type Listing, listing } from "./call.js";
import { type Connection, deliveryHeader, newKey, present } from "./connection.js";
import { type Orders, type Paid, paid, PaidOrder, type PurchaseOptions } from "./orders.js";
import type { EsimPresenter, Presented } from "./presenter.js";
import {
  type EsimCancellation, type EsimCredentials, type EsimPlan, type EsimProfile, type Order, plain,
} from "./results.js";
import { Secret } from "./secret.js";

/** Which plans are listed. */
export interface PlanFilter {
  /** An ISO 3166-1 code of two letters, in either case. */
  countryCode?: string;
  type?: EsimPlan["type"];
}

/** The catalogue of eSIM plans. */
export class Plans {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Lists the plans that are sold, the cheapest first: one by one, or by page(). The service has all on one page. */
  list({ countryCode, type, ...options }: PlanFilter & CallOptions = {}): Listing<EsimPlan> {
    const request = { ...(countryCode !== undefined && { countryCode }), ...(type !== undefined && { type }) };
    return listing({}, () => this.#connection.call(options, async (wire) =>
      ({ items: plain((await this.#connection.esims.listEsimPlans(request, wire)).plans) })));
  }
}

/** What may stand for the wallet's session where an eSIM order is read. */
export interface DeliveryOptions extends CallOptions {
  deliveryToken?: Secret<string> | undefined;
}

/** A delivery token, and when it ends. */
export interface DeliveryToken {
  token: Secret<string>;
  /** In ISO 8601. */
  expiresAt: string | undefined;
}

/** The wallet's eSIMs. */
export class Esims {
  readonly #connection: Connection;
  readonly #orders: Orders;

  constructor(connection: Connection, orders: Orders) {
    this.#connection = connection;
    this.#orders = orders;
  }

  /**
   * Buys an eSIM: a plan at its published price, or the cheapest that can be had, at any price within the caps. It is
   * often there with the answer; otherwise waitUntilFulfilled tells when install can show it. Without a key one is
   * made; after an AmbiguousPaymentError call again with the same key.
   */
  purchase({
    planId,
    idempotencyKey = newKey(),
    ...options
  }: PurchaseOptions & { planId?: string | undefined } = {}): Call<EsimOrder> {
    const request = { idempotencyKey, ...(planId !== undefined && { planId }) };
    return this.#connection.pay(
      options,
      async (wire, seen) =>
        new EsimOrder(
          this.#orders,
          await paid(this.#connection.esims.purchaseEsim(request, wire), idempotencyKey, seen),
        ),
    );
  }

  /** Reads an eSIM order, without its secrets. */
  status(orderId: string, { deliveryToken, ...options }: DeliveryOptions = {}): Call<Order> {
    return this.#connection.call(
      options,
      async (wire) => present((await this.#connection.esims.getEsimOrder({ orderId }, wire)).order),
      opening(deliveryToken),
    );
  }

  /**
   * Reads how the eSIM of a fulfilled order stands at its supplier: whether it is installed, how much data is used and
   * when it expires. The service asks the supplier once a minute at most; readAt says when it did.
   */
  profile(orderId: string, { deliveryToken, ...options }: DeliveryOptions = {}): Call<EsimProfile> {
    return this.#connection.call(
      options,
      async (wire) => plain(present((await this.#connection.esims.getEsimProfile({ orderId }, wire)).profile)),
      opening(deliveryToken),
    );
  }

  /**
   * Makes a new delivery token for an eSIM that the wallet owns; earlier ones become invalid. It needs the
   * wallet's session.
   */
  rotateToken(orderId: string, options: CallOptions = {}): Call<DeliveryToken> {
    return this.#connection.call(options, async (wire) => {
      const { delivery } = await this.#connection.esims.rotateEsimToken({ orderId }, wire);
      const { token, tokenExpiresAt } = plain(present(delivery));
      return { token: new Secret(present(token)), expiresAt: tokenExpiresAt };
    });
  }

  /**
   * Gives an eSIM that was never installed back, for the refund that its supplier grants: it goes back on chain to who
   * paid, once the supplier has taken the eSIM back. It needs the wallet's session; profile tells how far it is. Asked
   * again it answers with how far it is, and nothing is refunded twice.
   */
  cancel(orderId: string, options: CallOptions = {}): Call<EsimCancellation> {
    return this.#connection.call(
      options,
      async (wire) => plain(present((await this.#connection.esims.cancelEsim({ orderId }, wire)).cancellation)),
    );
  }

  /**
   * Lists the plans that can be added to the eSIM of a fulfilled order, the cheapest first: by its delivery token, or
   * by the wallet's session.
   */
  topUps(orderId: string, { deliveryToken, ...options }: DeliveryOptions = {}): Listing<EsimPlan> {
    return listing({}, () => this.#connection.call(options, async (wire) =>
      ({ items: plain((await this.#connection.esims.listEsimTopups({ orderId }, wire)).plans) }),
    opening(deliveryToken)));
  }

  /**
   * Buys more data for an eSIM that the wallet owns, by the id of its order: a plan of topUps, or the cheapest. Its
   * price is published to the owner only, so the caps decide. The key is as in purchase; profile shows the data once
   * the order is fulfilled.
   */
  topUp(
    orderId: string,
    { planId, idempotencyKey = newKey(), ...options }: PurchaseOptions & { planId?: string | undefined } = {},
  ): Call<PaidOrder> {
    const request = { orderId, idempotencyKey, ...(planId !== undefined && { planId }) };
    return this.#connection.pay(options, async (wire, seen) =>
      new PaidOrder(this.#orders, await paid(this.#connection.esims.topUpEsim(request, wire), idempotencyKey, seen)));
  }

  /**
   * Shows the eSIM of a fulfilled order to a person: of one that was just bought, by its delivery token, or by the
   * wallet's session. The caller learns whether it was seen, and nothing else.
   */
  async install(
    order: EsimOrder | string,
    { present: presenter, ...options }: DeliveryOptions & { present: EsimPresenter },
  ): Promise<Presented> {
    const known = typeof order === "string" ? undefined : order;
    const credentials =
      known?.credentials ??
      (await this.#credentials(typeof order === "string" ? order : order.orderId, {
        deliveryToken: known?.deliveryToken,
        ...options,
      }));
    return presenter.presentEsim(credentials, options.signal);
  }

  #credentials(orderId: string, { deliveryToken, ...options }: DeliveryOptions): Promise<Secret<EsimCredentials>> {
    return this.#connection.call(options, async (wire) => {
      const { credentials } = await this.#connection.esims.getEsimCredentials({ orderId }, wire);
      return new Secret(plain(present(credentials)));
    }, opening(deliveryToken));
  }
}

/** A paid eSIM. Its secrets are not in the order. */
export class EsimOrder extends PaidOrder {
  /**
   * Opens this one order for 30 days, for whoever holds it. A repeat may come without; the wallet's session does as
   * well.
   */
  readonly deliveryToken: Secret<string> | undefined;
  /** The eSIM itself, when it was ready in time: see install. */
  readonly credentials: Secret<EsimCredentials> | undefined;

  constructor(orders: Orders, answer: Paid) {
    const { credentials, delivery, ...order } = answer.order;
    const { token, ...shown } = delivery ?? {};
    super(orders, {
      ...answer,
      order: { ...order, ...(delivery && { delivery: shown as NonNullable<Order["delivery"]> }) },
    });
    this.deliveryToken = token ? new Secret(token) : undefined;
    this.credentials = credentials && new Secret(credentials);
  }
}

function opening(deliveryToken: Secret<string> | undefined): Record<string, string> {
  return deliveryToken !== undefined ? { [deliveryHeader]: deliveryToken.reveal() } : {};
}
