// The client: what a buyer of cards and eSIMs does, in the words a person would use.
import { clone } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor, type Transport, type UnaryResponse } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { attemptOf, failure, nameOf } from "./connect.js";
import { RevealError, RoamcardError, UnauthorizedError } from "./errors.js";
import { AuthService } from "./gen/roamcard/v1/auth_pb.js";
import { type Card, CardService, type GetCardBalanceResponse, type SealedCredentials } from "./gen/roamcard/v1/card_pb.js";
import { type EsimCredentials, type Order, OrderSchema, OrderService } from "./gen/roamcard/v1/order_pb.js";
import { type EsimPlan, EsimService } from "./gen/roamcard/v1/esim_pb.js";
import { RuntimeService } from "./gen/roamcard/v1/service_pb.js";
import { type Entry, type Store } from "./journal.js";
import { Payer, type PaymentEvents } from "./payer.js";
import type { Policy, Quote } from "./policy.js";
import { publishedOf, trimmed } from "./rest.js";
import { Secret } from "./secret.js";
import { schemeOf, Session, signChallenge } from "./session.js";
import type { Signer } from "./signers.js";
import { type Source, watch } from "./watch.js";
import { decodeReceipt, type Receipt, responseHeader } from "./x402.js";

/** How a client is made. */
export interface RoamcardOptions {
  /** Where the service is, such as http://127.0.0.1:8402. */
  baseUrl: string;
  /** The wallet that pays and owns. */
  signer: Signer;
  /** What may be paid. */
  policy: Policy;
  /** Keeps what was signed. Memory when absent: use a FileStore from roamcard/node to survive a restart. */
  store?: Store;
  /** The service's public origin, when `baseUrl` is a gateway before it: what its terms and messages name. */
  origin?: string;
  /** Another transport, such as gRPC from @connectrpc/connect-node; Connect over fetch when absent. */
  transport?: (options: { baseUrl: string; interceptors: Interceptor[] }) => Transport;
  /** How long one request may take; 30 s when absent, which is longer than the service waits for anything. */
  timeoutMs?: number;
  /** How often the same signed bytes go out again after an unclear answer; 4 when absent. */
  maxReplays?: number;
  events?: PaymentEvents;
}

/** What a call may be given besides its arguments. */
export interface CallOptions {
  signal?: AbortSignal;
}

/** A paid purchase. Keep the key: the same call with it returns the same order. */
export interface Purchase {
  order: Order;
  idempotencyKey: string;
  /** Whether the order was paid by an earlier request. */
  replayed: boolean;
  receipt: Receipt | undefined;
}

/** A paid eSIM. Its secrets are not in the order. */
export interface EsimPurchase extends Purchase {
  /** Opens this one order for 30 days, for whoever holds it. A repeat may come without; the wallet's session does as well. */
  deliveryToken: Secret<string> | undefined;
  /** The eSIM itself, when it was ready in time: otherwise see installEsim. */
  credentials: Secret<EsimCredentials> | undefined;
}

/** What may stand for the wallet's session where an eSIM order is read. */
export interface DeliveryOptions extends CallOptions {
  deliveryToken?: Secret<string> | undefined;
}

/** Shows an eSIM to a person, and keeps it from everybody else. */
export interface EsimPresenter {
  presentEsim(esim: Secret<EsimCredentials>, signal?: AbortSignal): Promise<Presented>;
}

/** Shows a card to a person, and keeps it from everybody else, this package included. */
export interface Presenter {
  /** Makes the key pair that this one card is sealed to. */
  prepare(): Promise<Showing>;
}

/** One card about to be shown. */
export interface Showing {
  /** The X25519 public key: 32 bytes, base64. */
  readonly recipientKey: string;
  /** Opens the card where the person sees it, and resolves when that is over. */
  show(cardId: string, sealed: SealedCredentials, signal?: AbortSignal): Promise<Presented>;
}

/** Whether a card was seen. It never says what was on it. */
export interface Presented {
  presented: boolean;
  reason?: "timeout" | "closed" | "no_terminal";
}

/** How often a moving order is looked at, where streams do not get through. */
const standardInterval = 2_000;

/** A client of one service for one wallet. */
export class Roamcard {
  readonly #options: RoamcardOptions;
  readonly #origin: string;
  readonly #payer: Payer;
  readonly #session: Session;
  readonly #cards: Client<typeof CardService>;
  readonly #orders: Client<typeof OrderService>;
  readonly #esims: Client<typeof EsimService>;
  readonly #runtime: Client<typeof RuntimeService>;

  constructor(options: RoamcardOptions) {
    this.#options = options;
    const baseUrl = trimmed(options.baseUrl);
    this.#origin = trimmed(options.origin ?? baseUrl);
    const interceptors = [this.#paying(), this.#owning(), timeouts(options.timeoutMs ?? 30_000)];
    const transport = (options.transport ?? createConnectTransport)({ baseUrl, interceptors });
    this.#cards = createClient(CardService, transport);
    this.#orders = createClient(OrderService, transport);
    this.#esims = createClient(EsimService, transport);
    this.#runtime = createClient(RuntimeService, transport);
    this.#session = new Session(createClient(AuthService, transport), options.signer, this.#origin);
    this.#payer = new Payer({ ...options, origin: this.#origin, published: async () => publishedOf(await this.#runtime.getConfig({}), () => this.plans()) });
  }

  /** The wallet that pays and owns. */
  get address(): string {
    return this.#options.signer.address;
  }

  /**
   * Buys a card for 25.00. It is issued meanwhile: see waitUntilActive. Without a key one is made; keep the one that comes
   * back. After an AmbiguousPaymentError call again with the same key.
   */
  buyCard({ idempotencyKey = newKey(), signal }: CallOptions & { idempotencyKey?: string } = {}): Promise<Purchase> {
    return this.#buy(idempotencyKey, (watch) => this.#cards.purchaseCard({ idempotencyKey }, { ...watch, signal }));
  }

  /** Tops the wallet's card up by 25.00 to 250.00, of which a fee of 2 % is kept. Otherwise like buyCard. */
  topUp(options: CallOptions & { amountUsdCents: number; idempotencyKey?: string }): Promise<Purchase> {
    const { amountUsdCents, idempotencyKey = newKey(), signal } = options;
    return this.#buy(idempotencyKey, (watch) => this.#cards.topUpCard({ amountUsdCents, idempotencyKey }, { ...watch, signal }));
  }

  /** Lists the eSIM plans that are sold, the cheapest first. */
  plans({ countryCode, type, ...options }: CallOptions & { countryCode?: string; type?: "country" | "region" } = {}): Promise<EsimPlan[]> {
    const request = { ...(countryCode && { countryCode }), ...(type && { type }) };
    return this.#call(async () => (await this.#esims.listEsimPlans(request, options)).plans);
  }

  /**
   * Buys an eSIM: a plan at its published price, or the cheapest that can be had, at any price within the caps. It is often
   * there with the answer; otherwise watchOrder tells when installEsim can show it. Otherwise like buyCard.
   */
  async buyEsim({ planId, idempotencyKey = newKey(), signal }: CallOptions & { planId?: string; idempotencyKey?: string } = {}): Promise<EsimPurchase> {
    const request = { idempotencyKey, ...(planId !== undefined && { planId }) };
    const bought = await this.#buy(idempotencyKey, (watch) => this.#esims.purchaseEsim(request, { ...watch, signal }));
    const { delivery, credentials } = bought.order;
    // Calls of one purchase share their answer: each takes the secrets out of a copy.
    const order = clone(OrderSchema, bought.order);
    order.credentials = undefined;
    if (order.delivery) order.delivery.token = undefined;
    return { ...bought, order, deliveryToken: delivery?.token ? new Secret(delivery.token) : undefined, credentials: credentials && new Secret(credentials) };
  }

  /** Reads an eSIM order, without its secrets. */
  esimStatus(orderId: string, options: DeliveryOptions = {}): Promise<Order> {
    return this.#call(async () => present((await this.#esims.getEsimOrder({ orderId }, delivery(options))).order));
  }

  /** Shows the eSIM of a fulfilled order to a person. The caller learns whether it was seen, and nothing else. */
  async installEsim(orderId: string, { presenter, ...options }: DeliveryOptions & { presenter: EsimPresenter }): Promise<Presented> {
    const credentials = await this.#call(async () => present((await this.#esims.getEsimCredentials({ orderId }, delivery(options))).credentials));
    return presenter.presentEsim(new Secret(credentials), options.signal);
  }

  /** Purchases of this store whose outcome is not known: call again with their keys. */
  async pending(): Promise<Pick<Entry, "operation" | "key" | "amount" | "at">[]> {
    const entries = await this.#payer.journal.pending();
    const mine = entries.filter((e) => e.payer.toLowerCase() === this.address.toLowerCase());
    return mine.map(({ operation, key, amount, at }) => ({ operation, key, amount, at }));
  }

  /** Reads one order of this wallet. */
  order(orderId: string, options: CallOptions = {}): Promise<Order> {
    return this.#call(async () => present((await this.#orders.getOrder({ orderId }, options)).order));
  }

  /** Reads the wallet's orders, newest first, page by page as they are taken. */
  async *orders({ active, signal }: CallOptions & { active?: boolean } = {}): AsyncGenerator<Order, void> {
    for (let pageToken: string | undefined; ; ) {
      const request = { ...(active && { status: "active" }), ...(pageToken && { pageToken }) };
      const page = await this.#call(() => this.#orders.listOrders(request, { signal }));
      yield* page.orders;
      if (!page.nextPageToken) return;
      pageToken = page.nextPageToken;
    }
  }

  /**
   * Yields an order now and whenever its status changes, until it moves no more by itself. It follows the service's stream, and
   * asks again every `intervalMs` where streams do not get through.
   */
  watchOrder(orderId: string, { signal, intervalMs = standardInterval }: CallOptions & { intervalMs?: number } = {}): AsyncGenerator<Order, void> {
    const source: Source = {
      stream: (after, until) => this.#orders.watchOrder({ orderId, after }, { signal: until }),
      read: (until) => this.order(orderId, { signal: until }),
    };
    return watch(source, intervalMs, signal);
  }

  /**
   * Waits until the card of an order is ACTIVE, and returns it. It rejects when no card comes of the order by itself, or not
   * within `timeoutMs` (two minutes when absent); the order goes on all the same.
   */
  async waitUntilActive(
    order: Order | string,
    { signal, timeoutMs = 120_000, onUpdate, intervalMs }: CallOptions & { timeoutMs?: number; intervalMs?: number; onUpdate?: (order: Order) => void } = {},
  ): Promise<Card> {
    const limit = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]);
    const orderId = typeof order === "string" ? order : order.orderId;
    for await (const now of this.watchOrder(orderId, { signal: limit, intervalMs })) {
      onUpdate?.(now);
      const { cardId, status } = now.issuance ?? {};
      if (status !== "active" || !cardId) continue;
      const card = (await this.cards({ signal: limit })).find((c) => c.id === cardId);
      if (card?.status === "ACTIVE") return card;
    }
    throw new RoamcardError(`no card comes of order ${orderId} by itself; look at its status`);
  }

  /** Lists the wallet's cards. */
  cards(options: CallOptions = {}): Promise<Card[]> {
    return this.#call(async () => (await this.#cards.listCards({}, options)).cards);
  }

  /** Reads what is on a card, from its issuer. */
  balance(cardId: string, options: CallOptions = {}): Promise<GetCardBalanceResponse> {
    return this.#call(() => this.#cards.getCardBalance({ id: cardId }, options));
  }

  /**
   * Shows a card's number and code to a person. The service seals them to a key that the presenter makes for this once; the
   * caller learns whether they were seen, and nothing else.
   */
  async reveal(cardId: string, { presenter, signal }: CallOptions & { presenter: Presenter }): Promise<Presented> {
    const showing = await presenter.prepare();
    const sealed = await this.#call(() => this.#sealed(cardId, showing.recipientKey, signal));
    return showing.show(cardId, sealed, signal);
  }

  /** Asks what a card costs, checks the terms, and signs nothing. */
  quoteCard(): Promise<{ quote: Quote; allowed: boolean; reason?: string; asks: boolean }> {
    return this.#quote((watch) => this.#cards.purchaseCard({ idempotencyKey: newKey() }, watch));
  }

  /** Asks what a top-up costs, checks the terms, and signs nothing. */
  quoteTopUp(amountUsdCents: number): Promise<{ quote: Quote; allowed: boolean; reason?: string; asks: boolean }> {
    return this.#quote((watch) => this.#cards.topUpCard({ amountUsdCents, idempotencyKey: newKey() }, watch));
  }

  /** Asks what an eSIM costs, checks the terms, and signs nothing. */
  quoteEsim(planId?: string): Promise<{ quote: Quote; allowed: boolean; reason?: string; asks: boolean }> {
    return this.#quote((watch) => this.#esims.purchaseEsim({ idempotencyKey: newKey(), ...(planId !== undefined && { planId }) }, watch));
  }

  async #sealed(id: string, recipientKey: string, signal: AbortSignal | undefined): Promise<SealedCredentials> {
    const { signer } = this.#options;
    const options = { signal };
    const challenge = await this.#cards.createRevealChallenge({ id, recipientKey, preferredMessageSchemes: [schemeOf(signer)] }, options);
    const key = recipientKey.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
    const signature = await signChallenge(signer, challenge, {
      origin: this.#origin, primaryType: "RevealCard", members: { cardId: id, recipientKey: key },
      resources: [`urn:roamcard:card:${id}`, `urn:roamcard:recipient-key:${key}`],
    });
    const { intentId, messageScheme } = challenge;
    const answer = await this.#cards.revealCard({ id, intentId, signature, messageScheme, recipientKey }, options);
    if (!answer.sealed) throw new RevealError("the card came unsealed; it was thrown away");
    return answer.sealed;
  }

  async #buy(idempotencyKey: string, call: (watch: Watch) => Promise<{ order?: Order | undefined }>): Promise<Purchase> {
    let receipt: Receipt | undefined;
    const keep = (headers: Headers) => void (receipt ??= decodeReceipt(headers.get(responseHeader)));
    const answer = await this.#call(() => call({ onHeader: keep, onTrailer: keep }));
    const order = present(answer.order);
    return { order, idempotencyKey, replayed: order.replayed ?? false, receipt };
  }

  async #quote(call: (watch: Watch) => Promise<unknown>): Promise<Awaited<ReturnType<Payer["quote"]>>> {
    let quoted: Awaited<ReturnType<Payer["quote"]>> | undefined;
    await this.#call(() => call({ headers: { [quoteHeader]: "1" }, onHeader: () => undefined })).catch((error: unknown) => {
      if (!(error instanceof Quoted)) throw error;
      quoted = error.quote;
    });
    return present(quoted);
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      throw failure(error);
    }
  }

  // paying answers 402.
  #paying(): Interceptor {
    return (next) => async (request) => {
      const attempt = request.stream ? undefined : attemptOf(this.#payer, request, async (r) => (await next(r)) as UnaryResponse);
      if (!attempt) return next(request);
      if (request.header.has(quoteHeader)) {
        request.header.delete(quoteHeader);
        throw new Quoted(await this.#payer.quote(attempt));
      }
      return this.#payer.pay(attempt, this.#options.signer);
    };
  }

  // owning signs in for what belongs to an owner, and once more when the session was revoked meanwhile.
  #owning(): Interceptor {
    return (next) => async (request) => {
      if (!ownerMethods.has(nameOf(request.method)) || request.header.has(deliveryHeader)) return next(request);
      const header = await this.#session.header();
      request.header.set("authorization", header);
      try {
        return await next(request);
      } catch (error) {
        const cause = failure(error);
        if (!(cause instanceof UnauthorizedError) || cause.code !== "session_invalid") throw error;
        await this.#session.forget(header);
        request.header.set("authorization", await this.#session.header());
        return next(request);
      }
    };
  }
}

type Watch = { onHeader: (headers: Headers) => void; onTrailer?: (headers: Headers) => void; headers?: Record<string, string> };

const { listCards, getCardBalance, createRevealChallenge, revealCard } = CardService.method;
const { getOrder, listOrders, watchOrder } = OrderService.method;
const { getEsimOrder, getEsimCredentials } = EsimService.method;
const ownerMethods = new Set(
  [listCards, getCardBalance, createRevealChallenge, revealCard, getOrder, listOrders, watchOrder, getEsimOrder, getEsimCredentials].map(nameOf),
);

/** The header that stands for a session where an eSIM order is read. */
const deliveryHeader = "x-esim-delivery-token";

function delivery({ deliveryToken, signal }: DeliveryOptions): { signal?: AbortSignal | undefined; headers?: Record<string, string> } {
  return { signal, ...(deliveryToken && { headers: { [deliveryHeader]: deliveryToken.reveal() } }) };
}

/** Marks a call, within this process, that only asks for the price. */
const quoteHeader = "x-roamcard-quote";

// Quoted carries a quote past the generated client, which knows no such answer.
class Quoted extends RoamcardError {
  constructor(readonly quote: Awaited<ReturnType<Payer["quote"]>>) {
    super("quoted");
  }
}

// timeouts limits each request. Those of a payment are limited one by one, before.
function timeouts(ms: number): Interceptor {
  return (next) => (request) => next(request.stream ? request : { ...request, signal: AbortSignal.any([request.signal, AbortSignal.timeout(ms)]) });
}

function newKey(): string {
  return `roamcard-${crypto.randomUUID()}`;
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new RoamcardError("the service answered without what was asked for");
  return value;
}
