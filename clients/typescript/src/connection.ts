// What the parts of a client share: the calls, the wallet's session, and the payments.
import { MethodOptions_IdempotencyLevel as Idempotency } from "@bufbuild/protobuf/wkt";
import {
  type Client,
  type ContextValues,
  createClient,
  createContextKey,
  createContextValues,
  type Interceptor,
  type Transport,
  type UnaryResponse,
} from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { bounded } from "./bounded.js";
import { type Call, callOf, type CallOptions, type Seen } from "./call.js";
import { attemptOf, nameOf } from "./connect.js";
import { ApiError, RoamcardError, UnauthorizedError } from "./errors.js";
import { failure, failureOf } from "./failures.js";
import { AuthService } from "./gen/roamcard/v1/auth_pb.js";
import { CardService } from "./gen/roamcard/v1/card_pb.js";
import { EsimService } from "./gen/roamcard/v1/esim_pb.js";
import { OrderService } from "./gen/roamcard/v1/order_pb.js";
import { RuntimeService } from "./gen/roamcard/v1/service_pb.js";
import { given } from "./given.js";
import type { Store } from "./journal.js";
import { type Logger, logging, unfailing } from "./logger.js";
import { unitsOfCents } from "./money.js";
import { Payer, type PaymentEvents, type Quotation } from "./payer.js";
import type { Policy } from "./policy.js";
import { type Fetch, publishedOf, trimmed } from "./rest.js";
import { type Plain, plain } from "./results.js";
import { retrying, defaultRetries } from "./retry.js";
import { Secret } from "./secret.js";
import { Session } from "./session.js";
import type { Change, Followed } from "./watch.js";
import type { Signer } from "./signers.js";
import { userAgent, userAgentHeader } from "./version.js";
import { signatureHeader } from "./x402.js";

/** How a client is made. */
export interface RoamcardOptions {
  /** Where the service is, such as http://127.0.0.1:8402. */
  baseUrl: string;
  /** The wallet that pays and owns. Without it only what is public can be read, and an operator's work be done. */
  signer?: Signer | undefined;
  /** What may be paid; nothing when absent. */
  policy?: Policy | undefined;
  /** Keeps what was signed. Memory when absent: use a FileStore or an IndexedDbStore to survive a restart. */
  store?: Store | undefined;
  /** The service's public origin, when `baseUrl` is a gateway before it: what its terms and messages name. */
  origin?: string | undefined;
  /**
   * A node of the chain that the caller trusts. With it, a payment that the chain shows to be void gives its budget
   * back at once; without it, time alone does.
   */
  rpcUrl?: string | undefined;
  /** Another HTTP client, with fetch's signature: for proxies, certificates, tests. */
  fetch?: Fetch | undefined;
  /** Another transport, such as gRPC from @connectrpc/connect-node; Connect over fetch when absent. */
  transport?: ((options: { baseUrl: string; interceptors: Interceptor[] }) => Transport) | undefined;
  /** How long one request may take; 30 s when absent, which is longer than the service waits for anything. */
  timeoutMs?: number | undefined;
  /** How often the same signed bytes go out again after an unclear answer; 4 when absent. */
  maxReplays?: number | undefined;
  /** How often a read is made again after no answer, 429, 502, 503 or 504; 2 when absent. */
  maxRetries?: number | undefined;
  events?: PaymentEvents | undefined;
  logger?: Logger | undefined;
  /** For `admin`: the token of an operator. */
  operatorToken?: Secret<string> | string | undefined;
}

/** What the generated clients are given for one call. */
export interface WireOptions {
  headers: Headers;
  signal?: AbortSignal | undefined;
  contextValues: ContextValues;
  onHeader(headers: Headers): void;
  onTrailer(headers: Headers): void;
}

/** Makes the requests of one call. */
type Run<T> = (options: WireOptions, seen: Seen) => Promise<T>;

/** The calls of one client. */
export class Connection {
  readonly baseUrl: string;
  readonly origin: string;
  readonly payer: Payer;
  readonly fetch: Fetch;
  readonly cards: Client<typeof CardService>;
  readonly orders: Client<typeof OrderService>;
  readonly esims: Client<typeof EsimService>;
  readonly runtime: Client<typeof RuntimeService>;
  readonly auth: Client<typeof AuthService>;
  /** For the services that only some clients have. */
  readonly transport: Transport;
  readonly #signer: Signer | undefined;
  readonly #operatorToken: Secret<string> | undefined;
  readonly #timeoutMs: number;
  readonly #maxRetries: number;
  /** The HTTP statuses of answers, by the headers of their requests. */
  readonly #statuses = new WeakMap<object, number>();
  #session: Session | undefined;

  constructor(options: RoamcardOptions) {
    const { signer, operatorToken, logger } = options;
    this.baseUrl = trimmed(options.baseUrl);
    this.origin = trimmed(options.origin ?? this.baseUrl);
    this.fetch = bounded(options.fetch ?? ((input, init) => fetch(input, init)));
    this.#signer = signer;
    this.#operatorToken = typeof operatorToken === "string" ? new Secret(operatorToken) : operatorToken;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#maxRetries = options.maxRetries ?? defaultRetries;
    const logged = logger ? [logging(unfailing(logger))] : [];
    const interceptors = [given(), this.#paying(), this.#authorized(), this.#repeating(), this.#sending(), ...logged];
    const noting: Fetch = async (input, init) => {
      const response = await this.fetch(input, init);
      if (init?.headers instanceof Headers) this.#statuses.set(init.headers, response.status);
      return response;
    };
    const where = { baseUrl: this.baseUrl, interceptors };
    const transport = options.transport?.(where) ?? createConnectTransport({ ...where, fetch: noting });
    this.transport = transport;
    this.cards = createClient(CardService, transport);
    this.orders = createClient(OrderService, transport);
    this.esims = createClient(EsimService, transport);
    this.runtime = createClient(RuntimeService, transport);
    this.auth = createClient(AuthService, transport);
    this.payer = new Payer({
      ...options,
      policy: options.policy ?? { mode: "human_approval" },
      origin: this.origin,
      published: () => this.#published(),
    });
  }

  /** The wallet; throws when the client has none. */
  get signer(): Signer {
    if (!this.#signer) throw new RoamcardError("the client has no signer");
    return this.#signer;
  }

  /** The wallet's session. */
  get session(): Session {
    return (this.#session ??= new Session(this.auth, this.signer, this.origin));
  }

  /**
   * Makes a paid call. Its signal goes past the generated client, which would put the signal's reason in the place of
   * an AmbiguousPaymentError.
   */
  pay<T>(options: CallOptions, run: (options: WireOptions, seen: Headers) => Promise<T>): Call<T> {
    return this.#made(options, {}, (wire, { headers }) => {
      wire.contextValues.set(givingUp, options.signal);
      return run(wire, headers);
    });
  }

  /** Makes a call and gives its result as plain data. */
  call<T>(options: CallOptions, run: Run<T>, headers: Record<string, string> = {}): Call<Plain<T>> {
    const { signal } = options;
    return this.#made(options, headers, (wire, seen) =>
      run({ ...wire, signal }, seen).then((result) => plain<T>(result)),
    );
  }

  #made<T>(options: CallOptions, own: Record<string, string>, run: Run<T>): Call<T> {
    const { signal } = options;
    const seen: Seen = { status: 200, headers: new Headers() };
    const keep = (answered: Headers) => answered.forEach((value, name) => seen.headers.set(name, value));
    const made = async () => {
      try {
        signal?.throwIfAborted();
        const contextValues = createContextValues().set(perCall, options).set(answer, seen);
        return await run({ headers: headersOf(options, own), contextValues, onHeader: keep, onTrailer: keep }, seen);
      } catch (error) {
        const cause = failure(error);
        throw signal?.aborted && cause instanceof ApiError && cause.status === 0 ? signal.reason : cause;
      }
    };
    return callOf(made(), seen);
  }

  /** Follows an order over the service's stream. */
  async *following(orderId: string, after: number | undefined, options: CallOptions): AsyncGenerator<Change, void> {
    const wire = { headers: headersOf(options, {}), signal: options.signal };
    const request = { orderId, ...(after !== undefined && { after }) };
    for await (const { order, cursor } of this.orders.watchOrder(request, wire))
      yield { order: order && plain(order), cursor };
  }

  /** Follows several orders over one stream of the service's. */
  async *followingAll(orders: Followed[], options: CallOptions): AsyncGenerator<Change, void> {
    const wire = { headers: headersOf(options, {}), signal: options.signal };
    const followed = ({ orderId, after }: Followed) => ({ orderId, ...(after !== undefined && { after }) });
    const request = { orders: orders.map(followed) };
    for await (const { order, cursor } of this.orders.watchOrders(request, wire))
      yield { order: order && plain(order), cursor };
  }

  /** Asks for the price of a paid call and signs nothing. */
  quote(options: CallOptions, run: (options: WireOptions) => Promise<unknown>): Promise<Quotation> {
    return this.call(options, async (wire) => {
      try {
        wire.contextValues.set(quoting, true);
        await run(wire);
      } catch (error) {
        const cause = failure(error);
        if (cause instanceof Quoted) return cause.quotation;
        throw cause;
      }
      throw new RoamcardError("the service asked for no payment");
    });
  }

  async #published() {
    const plans = async () => (await this.esims.listEsimPlans({})).plans;
    // A wallet may read its orders: what one of them costs is what it was told when the order was made.
    const orderUnits = async (orderId: string) =>
      unitsOfCents((await this.orders.getOrder({ orderId })).order?.amountUsdCents ?? 0);
    return { ...publishedOf(await this.runtime.getConfig({}), plans), orderUnits };
  }

  // paying answers 402.
  #paying(): Interceptor {
    return (next) => async (request) => {
      const attempt = request.stream
        ? undefined
        : await attemptOf(this.payer, request, async (r) => (await next(r)) as UnaryResponse, this.#signer?.address);
      if (!attempt) return next(request);
      if (request.contextValues.get(quoting)) throw new Quoted(await this.payer.quote(attempt));
      const { timeoutMs } = request.contextValues.get(perCall);
      const signal = request.contextValues.get(givingUp) ?? request.signal;
      return this.payer.pay({ ...attempt, timeoutMs, signal }, this.signer);
    };
  }

  // authorized signs in for what belongs to an owner, once more when the session was revoked meanwhile, and shows the
  // operator's token where one is asked for.
  #authorized(): Interceptor {
    return (next) => async (request) => {
      if (request.service.typeName === operatorService) {
        if (!this.#operatorToken) throw new RoamcardError("the client has no operatorToken");
        request.header.set("authorization", `Bearer ${this.#operatorToken.reveal()}`);
        return next(request);
      }
      if (!ownerMethods.has(nameOf(request.method)) || request.header.has(deliveryHeader)) return next(request);
      const header = await this.session.header(request.signal);
      request.header.set("authorization", header);
      try {
        return await next(request);
      } catch (error) {
        const cause = failure(error);
        if (!(cause instanceof UnauthorizedError) || cause.code !== "session_invalid") throw error;
        await this.session.clear(header);
        request.header.set("authorization", await this.session.header(request.signal));
        return next(request);
      }
    };
  }

  // repeating makes reads again that fail in passing. Whoever follows a stream goes on by other means.
  #repeating(): Interceptor {
    return (next) => (request) => {
      if (request.stream || request.method.idempotency !== Idempotency.NO_SIDE_EFFECTS) return next(request);
      return this.retrying(request.contextValues.get(perCall), () => next(request), request.signal);
    };
  }

  /** Makes a read of a call, and again when it fails in passing. */
  retrying<T>({ maxRetries }: CallOptions, read: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    return retrying(read, maxRetries ?? this.#maxRetries, signal);
  }

  // sending names this package, and limits each request, those of a payment one by one. A stream has limits of its own.
  #sending(): Interceptor {
    return (next) => async (request) => {
      if (userAgent !== undefined) request.header.set(userAgentHeader, userAgent);
      if (request.stream) return next(request);
      const { contextValues, header } = request;
      const seen = contextValues.get(answer);
      this.#statuses.delete(header); // a read that is made again has the same headers
      try {
        const response = await next({ ...request, signal: this.limited(contextValues.get(perCall), request.signal) });
        if (seen) seen.status = this.#statuses.get(header) ?? seen.status;
        return response;
      } catch (error) {
        throw failureOf(error, this.#statuses.get(header));
      }
    };
  }

  /** A signal for one request: the caller's, if there is one, and the limit of the call's requests. */
  limited({ timeoutMs }: CallOptions, signal: AbortSignal | undefined): AbortSignal {
    return AbortSignal.any([AbortSignal.timeout(timeoutMs ?? this.#timeoutMs), ...(signal ? [signal] : [])]);
  }
}

// headersOf are the caller's headers and our own. What was signed is sent by its payer and by nobody else.
function headersOf({ headers }: CallOptions, own: Record<string, string>): Headers {
  const all = new Headers(headers);
  for (const name of [signatureHeader, "authorization", keyHeader, deliveryHeader]) {
    if (all.has(name)) throw new RoamcardError(`the header ${name} is set by the client itself`);
  }
  for (const [name, value] of Object.entries(own)) all.set(name, value);
  return all;
}

const {
  listCards,
  ensureCard,
  getCardBalance,
  freezeCard,
  unfreezeCard,
  getCardDetails,
  getCardLimits,
  setCardLimits,
  listCardTransactions,
  createRevealChallenge,
  revealCard,
  createCardOrder,
} = CardService.method;
const { getOrder, listOrders, watchOrder, watchOrders, createOrder } = OrderService.method;
const {
  getEsimOrder, getEsimCredentials, getEsimProfile, listEsimTopups, cancelEsim, createEsimOrder, rotateEsimToken,
} = EsimService.method;
const { getSession, logout } = AuthService.method;
// These services are named and not loaded: a buyer's page has no use for them.
const operatorService = "roamcard.v1.OperatorService";
const activityMethods = ["GetActivity", "PruneActivity"].map((name) => `roamcard.v1.ActivityService/${name}`);
const ownerMethods = new Set([
  ...activityMethods,
  ...[
    listCards,
    ensureCard,
    getCardBalance,
    freezeCard,
    unfreezeCard,
    getCardDetails,
    getCardLimits,
    setCardLimits,
    listCardTransactions,
    createRevealChallenge,
    revealCard,
    createCardOrder,
    getOrder,
    listOrders,
    watchOrder,
    watchOrders,
    createOrder,
    getEsimOrder,
    getEsimCredentials,
    createEsimOrder,
    rotateEsimToken,
    getEsimProfile,
    listEsimTopups,
    cancelEsim,
    getSession,
    logout,
  ].map(nameOf),
]);

/** The header that stands for a session where an eSIM order is read. */
export const deliveryHeader = "x-esim-delivery-token";

/** The header that makes a repeated request the same one. */
export const keyHeader = "idempotency-key";

/** A new idempotency key. */
export function newKey(): string {
  return `roamcard-${crypto.randomUUID()}`;
}

/** What an answer has to have. */
export function present<T>(value: T | undefined): T {
  if (value === undefined) throw new RoamcardError("the service answered without what was asked for");
  return value;
}

/** Marks a call that only asks for the price. */
const quoting = createContextKey(false);
/** The signal of a paid call. */
const givingUp = createContextKey<AbortSignal | undefined>(undefined);
/** What the caller wants of this call. */
const perCall = createContextKey<CallOptions>({});
/** Where a call's answer is noted. */
const answer = createContextKey<Seen | undefined>(undefined);

// Quoted takes a price past the generated client, which knows no such answer.
class Quoted extends RoamcardError {
  constructor(readonly quotation: Quotation) {
    super("quoted");
  }
}
