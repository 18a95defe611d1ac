// What a buyer of cards and eSIMs does, in the words a person would use.
import type { Call, CallOptions } from "./call.js";
import { Cards } from "./cards.js";
import { Connection, type RoamcardOptions } from "./connection.js";
import { Discovery, Quotes } from "./discovery.js";
import { Esims, Plans } from "./esims.js";
import { notEmpty } from "./given.js";
import type { Entry } from "./journal.js";
import { RoamcardError } from "./errors.js";
import { Orders, type PaidOrder } from "./orders.js";
import { productAt } from "./products.js";
import type { SessionInfo } from "./results.js";
import { sameAddress } from "./x402.js";

/**
 * A client of one service for one wallet, without what operators do: what a buyer's page loads. Elsewhere take
 * Roamcard.
 */
export class Buyer {
  /** What the service says of itself. */
  readonly discovery: Discovery;
  /** What things cost, and whether the policy lets them be paid. */
  readonly quote: Quotes;
  /** The catalogue of eSIM plans. */
  readonly plans: Plans;
  readonly cards: Cards;
  readonly esim: Esims;
  readonly orders: Orders;
  readonly auth: Auth;
  readonly #connection: Connection;

  /** `connection` is one that is there already. */
  constructor(options: RoamcardOptions, connection = new Connection(options)) {
    this.#connection = connection;
    this.discovery = new Discovery(this.#connection);
    this.quote = new Quotes(this.#connection);
    this.plans = new Plans(this.#connection);
    this.orders = new Orders(this.#connection);
    this.cards = new Cards(this.#connection, this.orders);
    this.esim = new Esims(this.#connection, this.orders);
    this.auth = new Auth(this.#connection);
  }

  /** The wallet that pays and owns. */
  get address(): string {
    return this.#connection.signer.address;
  }

  /** Purchases of this wallet in the store whose outcome is not known, oldest first: see resume. */
  async pending(): Promise<Pending[]> {
    const entries = await this.#pending();
    return entries.map(({ operation, key, amount, at }) => ({
      operation,
      key,
      amount,
      at: new Date(at * 1000).toISOString(),
    }));
  }

  /**
   * Takes up a purchase with the request that the store has and the same signed bytes. It is one whose outcome is not
   * known, or that was paid and whose caller may not have heard of it: its order comes again.
   */
  async resume(idempotencyKey: string, options: CallOptions = {}): Promise<PaidOrder> {
    notEmpty("idempotencyKey", idempotencyKey);
    const { purchases } = await this.#connection.payer.journal.store.read();
    const settled = Object.values(purchases).filter((e) => e.state === "settled" && e.header !== undefined);
    const entry = [...(await this.#pending()), ...settled.filter((e) => this.#isMine(e))].find(
      (e) => e.key === idempotencyKey,
    );
    if (!entry) throw new RoamcardError(`the store has no payment under ${idempotencyKey} that could be sent again`);
    return this.#resume(entry, options);
  }

  /** Takes up all purchases whose outcome is not known, one after the other. */
  async resumeAll(options: CallOptions = {}): Promise<Resumed[]> {
    const all: Resumed[] = [];
    for (const entry of await this.#pending()) {
      const { operation, key: idempotencyKey } = entry;
      all.push(
        await this.#resume(entry, options).then(
          (order) => ({ operation, idempotencyKey, order }),
          (error: unknown) => ({ operation, idempotencyKey, error }),
        ),
      );
    }
    return all;
  }

  async #pending(): Promise<Entry[]> {
    const entries = await this.#connection.payer.journal.pending();
    return entries.filter((e) => this.#isMine(e));
  }

  #isMine({ payer, origin }: Entry): boolean {
    return sameAddress(payer, this.address) && origin === this.#connection.origin;
  }

  async #resume({ operation, key: idempotencyKey, request }: Entry, options: CallOptions): Promise<PaidOrder> {
    const item = request as { planId?: string; amountUsdCents?: number; orderId?: string };
    const product = productAt(operation);
    if (!product) return this.orders.pay(idempotencyKey, options);
    return product.purchase(this, { idempotencyKey, ...options }, item);
  }
}

/** A purchase whose outcome is not known. */
export interface Pending {
  /** The documented route of what is bought; /pay for an order that was made first. */
  operation: string;
  /** Its idempotency key: see resume. */
  key: string;
  /** In USDC's smallest unit, a decimal string. */
  amount: string;
  /** When it was signed, in ISO 8601. */
  at: string;
}

/** A purchase that was taken up again: its order, or why its outcome is still not known or that no money moved. */
export interface Resumed {
  operation: string;
  idempotencyKey: string;
  order?: PaidOrder;
  error?: unknown;
}

/** The wallet's session. Whatever needs one signs in by itself. */
export class Auth {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Signs in, unless there is a session, and says whose it is, what it may do and until when. */
  signIn(options: CallOptions = {}): Call<SessionInfo> {
    return this.#connection.call(options, (wire) => this.#connection.auth.getSession({}, wire));
  }

  /** Ends the session. */
  signOut(options: CallOptions = {}): Promise<void> {
    return this.#connection.call(options, async (wire) => {
      const header = await this.#connection.session.header();
      await this.#connection.auth.logout({}, wire);
      await this.#connection.session.clear(header);
    });
  }
}
