// The payment algorithm: ask, check, sign once, keep, send; and send the same bytes until the answer is clear.
import { until } from "./abort.js";
import { type AnsweredOrder, AnotherOrderError, faultOf } from "./answer.js";
import { Chain } from "./chain.js";
import {
  AmbiguousPaymentError,
  type ApiError,
  ClockError,
  InsufficientFundsError,
  NotDeployedError,
  PaymentError,
  RoamcardError,
  TermsMismatchError,
} from "./errors.js";
import {
  canonical, clockDifference, type Entry, Journal, MemoryStore, type SignedAuthorization, type Store,
} from "./journal.js";
import { type Logger, unfailing } from "./logger.js";
import { dollarsOf } from "./money.js";
import { type Policy, type Quote, Rules } from "./policy.js";
import { bounded } from "./bounded.js";
import type { Fetch } from "./rest.js";
import type { Signer } from "./signers.js";
import { isOfAccount, namesCreation } from "./smart-account.js";
import {
  type Authorization,
  authorizationTypedData,
  decodePayment,
  decodeTerms,
  encodePayment,
  nonceOf,
  type Offer,
  sameAddress,
  type Terms,
} from "./x402.js";

/** What became of one request. */
export type Reply<T> =
  | { kind: "done"; value: T }
  /**
   * 402: `header` is PAYMENT-REQUIRED. `dead` says that PAYMENT-RESPONSE calls a payment dead that was taken up before.
   * `date` is the service's clock.
   * `answer` is the answer itself, for those who pass it on.
   */
  | { kind: "terms"; header: string; error: ApiError; answer?: T; dead: boolean; date?: string | null }
  /** A final answer that is no success. */
  | { kind: "refused"; error: ApiError; answer?: T }
  /** No answer, or one that says nothing about the money. */
  | Unclear<T>;

/** A reply that says nothing about the money. */
export interface Unclear<T> {
  kind: "unclear";
  error: unknown;
  orderId?: string | undefined;
  waitMs?: number | undefined;
  answered?: boolean;
  answer?: T;
}

/** One purchase. */
export interface Attempt<T> {
  /** The documented route of what is bought, as policies name it. */
  operation: string;
  /** The documented path, which names the purchase whatever the protocol. */
  path: string;
  key: string;
  /** The request in the documented JSON; a key belongs to it for good. */
  request: Record<string, unknown>;
  /**
   * The URL that the challenge has to name; undefined for any of the origin, which an order that was made first may
   * name.
   */
  resource: string | undefined;
  /** The price in USDC's smallest unit, from what the service publishes; undefined when only the caps decide. */
  price(published: Published): bigint | undefined | Promise<bigint | undefined>;
  /** Sends the request, with a PAYMENT-SIGNATURE header when there is one. It may reject; that is an unclear reply. */
  send(payment: string | undefined, signal: AbortSignal): Promise<Reply<T>>;
  /** The order that an answer holds. */
  order(answer: T): AnsweredOrder | undefined;
  signal?: AbortSignal | undefined;
  /** How long each of its requests may take; the payer's own limit when absent. */
  timeoutMs?: number | undefined;
}

/** What the service publishes about payments. */
export interface Published {
  payTo: string;
  asset: string;
  assetName: string;
  assetVersion: string;
  cardUnits: bigint;
  defaultTopupUnits: bigint;
  /** The plan of the catalogue that is the cheapest now. */
  cheapestPlan(): Promise<string>;
  /** Reads what a plan of the catalogue costs now. */
  planUnits(planId: string): Promise<bigint>;
  /** Reads what an order costs that was made first; undefined when it cannot be read, and only the caps decide. */
  orderUnits(orderId: string): Promise<bigint | undefined>;
}

/** What happens during a payment, for logs and progress. What a handler throws is logged and changes nothing. */
export interface PaymentEvents {
  /** The terms were checked; nothing is signed yet. */
  onQuote?(quote: Quote): void;
  /** A person, or the function in their place, said yes. */
  onApproval?(quote: Quote): void;
  /** The payment is signed and kept; it was not sent yet. */
  onSigned?(quote: Quote): void;
  /** The same bytes go out again, `replay` counting from 1. */
  onReplay?(event: { idempotencyKey: string; replay: number; error: unknown }): void;
  onSettled?(event: { idempotencyKey: string }): void;
}

/** How a payer is made. */
export interface PayerOptions {
  /** The service's public origin: what its terms and messages name. */
  origin: string;
  policy: Policy;
  /** Keeps what was signed; memory when absent. */
  store?: Store | undefined;
  events?: PaymentEvents | undefined;
  logger?: Logger | undefined;
  /** How long one request may take. */
  timeoutMs?: number | undefined;
  /** How often the same bytes are sent again after an unclear answer. */
  maxReplays?: number | undefined;
  /** Reads what the service publishes. */
  published(): Promise<Published>;
  /**
   * A node of the chain that the caller trusts. With it, an authorization that the chain shows to be void gives its
   * budget back at once; without it, time alone does.
   */
  rpcUrl?: string | undefined;
  /** Another HTTP client for that node. */
  fetch?: Fetch | undefined;
}

/** A price as it was asked for and checked, and what the policy says about it. */
export interface Quotation {
  quote: Quote;
  /** The challenge itself, decoded. */
  terms: Terms;
  /** Whether the policy would let it be paid now. */
  allowed: boolean;
  /** Why not. */
  reason?: string;
  /** Whether somebody would be asked first. */
  asks: boolean;
}

/** What a log says of an event. */
const messages: Record<keyof PaymentEvents, string> = {
  onQuote: "payment quoted",
  onApproval: "payment approved",
  onSigned: "payment signed",
  onReplay: "payment sent again",
  onSettled: "payment settled",
};

const backdate = 600;
/** How many seconds a payment is signed for, unless the offer allows less. */
const validity = 120;
/** Half the order of secp256k1: the token takes no signature with a larger s (EIP-2). */
const halfOrder = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;
const firstPause = 250;
const lastPause = 4_000;
const longestPause = 30_000;
/** How often a turn to sign is held on to, while a person or a wallet takes their time. */
const holdEvery = 3_000;

/** Pays for purchases, each at most once. */
export class Payer {
  readonly origin: string;
  readonly journal: Journal;
  readonly #rules: Rules;
  readonly #options: PayerOptions;
  readonly #chain: Chain | undefined;
  readonly #running = new Map<string, Promise<unknown>>();
  #published: Promise<Published> | undefined;

  constructor(options: PayerOptions) {
    this.origin = options.origin;
    this.journal = new Journal(options.store ?? new MemoryStore());
    this.#rules = new Rules(options.policy);
    this.#options = { ...options, logger: options.logger && unfailing(options.logger) };
    const send = options.fetch ?? ((input: string | URL | Request, init?: RequestInit) => fetch(input, init));
    this.#chain =
      options.rpcUrl === undefined ? undefined : new Chain(options.rpcUrl, this.#rules.asset, bounded(send));
  }

  /**
   * Makes a purchase and returns its answer. Calls with one key at the same time are one purchase. After
   * AmbiguousPaymentError call again with the same key.
   */
  pay<T>(attempt: Attempt<T>, signer: Signer): Promise<T> {
    return this.#once(attempt, signer.address, async (id) => {
      const known = await this.journal.find(id, attempt.key, attempt.request);
      const reply = known && (await this.#present(attempt, id, known));
      if (reply?.kind === "done") return reply.value;
      // Until the chain can no longer take a payment, there is no other one of its purchase.
      if (reply && (reply.kind !== "terms" || (await this.#isLive(id))))
        throw await this.#failure(attempt.key, id, reply);
      const terms = reply ? termsOf(reply) : await this.#ask(attempt);
      const entry = await this.#sign(attempt, id, terms, signer);
      const answer = await this.#present(attempt, id, entry);
      if (answer.kind === "done") return answer.value;
      throw await this.#failure(attempt.key, id, answer);
    });
  }

  /** The plan that a purchase of any eSIM is of: the one that the journal has for its key, or the cheapest. */
  async planFor(path: string, key: string, payer: string | undefined): Promise<string> {
    const cheapest = async () => (await this.#terms()).cheapestPlan();
    if (payer === undefined) return cheapest();
    const id = await nonceOf(this.origin, path, payer, key);
    const known = async () => (await this.journal.entry(id))?.request.planId;
    const plan = async () => known().then((planId) => (typeof planId === "string" ? planId : cheapest()));
    return plan().catch((error: unknown) => this.#keyed(key, id, error));
  }

  /**
   * Asks for the price once, for somebody else to sign: terms that are not as published are not passed on. Whether the
   * policy lets them be paid is held when the payment comes.
   */
  async ask<T>(attempt: Attempt<T>, payer: string): Promise<Reply<T>> {
    const reply = await this.#send(attempt, undefined);
    const checked = async () => {
      if (reply.kind === "done") throw unpaid();
      if (reply.kind === "terms") await this.#checked(attempt, termsOf(reply));
      return reply;
    };
    const id = await this.#identity(attempt, payer);
    return checked().catch((error: unknown) => this.#keyed(attempt.key, id, error));
  }

  /** Asks for the price, checks it, and signs nothing. It says too whether the policy would let it be paid. */
  async quote(attempt: Attempt<unknown>): Promise<Quotation> {
    const terms = await this.#ask(attempt);
    const { quote } = await this.#check(attempt, terms);
    const amount = BigInt(quote.amount);
    const reason = this.#rules.reason(quote) ?? (await this.journal.overBudget(amount, this.#rules.perDay));
    const verdict = {
      allowed: reason === undefined,
      ...(reason !== undefined && { reason }),
      asks: this.#rules.asks(amount),
    };
    return { quote, terms, ...verdict };
  }

  /**
   * Takes over a payment that somebody else signed, such as the official x402 client: it is held to the policy, kept,
   * and sent until the answer is clear. When the purchase has a payment already, that one is sent instead.
   */
  submit<T>(attempt: Attempt<T>, payer: string, header: string): Promise<Reply<T>> {
    return this.#once(attempt, payer, async (id) => {
      const known = await this.journal.find(id, attempt.key, attempt.request);
      return this.#present(attempt, id, known ?? (await this.#adopt(attempt, id, payer, header)));
    });
  }

  /** Sends the payment that a purchase has already; undefined when it has none. */
  async resume<T>(attempt: Attempt<T>, payer: string): Promise<Reply<T> | undefined> {
    const id = await this.#identity(attempt, payer);
    const named = (error: unknown) => this.#keyed(attempt.key, id, error);
    const known = await this.journal.find(id, attempt.key, attempt.request).catch(named);
    return known && this.#once(attempt, payer, () => this.#present(attempt, id, known));
  }

  #identity(attempt: Attempt<unknown>, payer: string): Promise<string> {
    return nonceOf(this.origin, attempt.path, payer, attempt.key);
  }

  // once lets calls of one purchase share one run. Its map is consulted before anything is awaited.
  #once<R>(attempt: Attempt<unknown>, payer: string, run: (id: string) => Promise<R>): Promise<R> {
    const name = JSON.stringify([attempt.path, payer.toLowerCase(), attempt.key, canonical(attempt.request)]);
    const running = this.#running.get(name);
    if (running) return running as Promise<R>;
    const named = (id: string) => (error: unknown) => this.#keyed(attempt.key, id, error);
    const reply = this.#identity(attempt, payer).then((id) => run(id).catch(named(id)));
    const done = () => void this.#running.delete(name);
    this.#running.set(name, reply);
    reply.then(done, done);
    return reply;
  }

  // keyed lets what fails after a payment was signed, or where nobody knows, say what to call again with.
  async #keyed(key: string, id: string, error: unknown): Promise<never> {
    const unread = { authorizations: ["?"], orderId: undefined };
    const known = await this.journal.entry(id).catch(() => unread);
    if (!known?.authorizations.length) throw error;
    if (!(error instanceof RoamcardError)) throw new AmbiguousPaymentError(key, known.orderId, { cause: error });
    error.idempotencyKey ??= key;
    throw error;
  }

  // isLive says whether the chain could still take the last payment of a purchase, after it was asked where there is a
  // node.
  async #isLive(id: string): Promise<boolean> {
    await this.#prove(id);
    const entry = await this.journal.entry(id).catch(() => undefined);
    return entry?.state !== "refused" || this.journal.liveUntil(entry) !== undefined;
  }

  // prove keeps what the chain says of the payments of a purchase, or of all of them. What cannot be asked or kept
  // stays as it is.
  async #prove(id?: string): Promise<void> {
    if (!this.#chain) return;
    const book = await this.journal.store.read().catch(() => undefined);
    for (const [at, entry] of Object.entries(book?.purchases ?? {})) {
      if ((id !== undefined && at !== id) || !["refused", "signed"].includes(entry.state)) continue;
      const voids = await this.#chain.voids(entry);
      if (voids.size > 0) await this.#noted(this.journal.void(at, voids));
    }
  }

  // failure is a refusal as an error, with what to call again with and when.
  async #failure(key: string, id: string, reply: Refusal): Promise<Error> {
    const entry = await this.journal.entry(id).catch(() => undefined);
    const until = entry && this.journal.liveUntil(entry);
    reply.error.idempotencyKey = key;
    // Another signature of an account of a kind that is not accepted is none, too.
    if (until !== undefined && reply.error.code !== "payer_kind_not_accepted") {
      Object.assign(reply.error, { retryAt: new Date(until * 1000).toISOString(), retryable: true });
    }
    return failureOf(reply);
  }

  // ask gets the terms. Losing an answer here costs nothing, so it asks again.
  async #ask(attempt: Attempt<unknown>): Promise<Terms> {
    for (let replay = 0; ; replay++) {
      const reply = await this.#send(attempt, undefined);
      if (reply.kind === "terms") return termsOf(reply);
      if (reply.kind === "done") throw unpaid();
      if (reply.kind === "refused" || reply.answered || replay >= this.#maxReplays || attempt.signal?.aborted)
        throw reply.error;
      await pause(firstPause * 2 ** replay, attempt.signal);
    }
  }

  async #check(attempt: Attempt<unknown>, terms: Terms): Promise<{ quote: Quote; offer: Offer }> {
    const { quote, offer } = await this.#checked(attempt, terms);
    this.#tell("onQuote", quote, { operation: quote.operation, amountUsd: quote.amountUsd });
    return { quote, offer };
  }

  // checked holds terms to what is published and pinned.
  async #checked(attempt: Attempt<unknown>, terms: Terms): Promise<{ quote: Quote; offer: Offer }> {
    const published = await this.#terms();
    const pinned = this.#options.policy.allow?.payTo;
    const offer = this.#rules.check(terms, {
      origin: this.origin, resource: attempt.resource, payTo: pinned ?? published.payTo,
      domain: { name: published.assetName, version: published.assetVersion }, amount: await attempt.price(published),
    });
    if (!pinned) await this.journal.pinPayee(this.origin, offer.payTo);
    const quote: Quote = {
      operation: attempt.operation,
      idempotencyKey: attempt.key,
      resource: terms.resource.url,
      amount: offer.amount,
      amountUsd: dollarsOf(BigInt(offer.amount)),
      payTo: offer.payTo,
      asset: offer.asset,
      network: offer.network,
    };
    return { quote, offer };
  }

  // What is published is read once; a failure to read it is not kept.
  #terms(): Promise<Published> {
    this.#published ??= this.#options.published().catch((error: unknown) => {
      this.#published = undefined;
      throw error;
    });
    return this.#published;
  }

  // sign checks, asks, signs once and keeps the payment.
  async #sign(attempt: Attempt<unknown>, id: string, terms: Terms, signer: Signer): Promise<Entry> {
    const { quote, offer } = await this.#check(attempt, terms);
    return this.#inTurn(attempt, id, quote, signer.address, async (holder, attempts) => {
      const now = Math.floor(Date.now() / 1000);
      const validBefore = now + Math.min(offer.maxTimeoutSeconds, validity);
      const nonce = await nonceOf(this.origin, attempt.path, signer.address, attempt.key, attempts);
      const authorization: Authorization = {
        from: signer.address,
        to: offer.payTo,
        value: offer.amount,
        validAfter: String(now - backdate),
        validBefore: String(validBefore),
        nonce,
      };
      const signature = await until(attempt.signal, this.#signature(signer, offer, authorization));
      const entry = await this.#kept(attempt.key, id, holder, encodePayment(terms, offer, authorization, signature), {
        nonce, amount: offer.amount, signedAt: now, validBefore,
      });
      this.#tell("onSigned", quote, { operation: quote.operation, amountUsd: quote.amountUsd });
      return entry;
    });
  }

  // signature has the wallet sign. A smart account is looked for on the chain when there is a node to ask, unless its
  // signature says how it is made: without code, nobody could move its money by the signature.
  async #signature(signer: Signer, offer: Offer, authorization: Authorization): Promise<string> {
    const signature = await signatureOf(signer, offer, authorization);
    if ((isOfAccount(signature) || signer.deployed) && (await this.#chain?.lacksCode(signer.address)))
      throw new NotDeployedError(
        `the smart account ${signer.address} has no code; deploy it first. Nothing was sent`,
      );
    return signature;
  }

  // kept keeps a signed payment. One that cannot be kept is not sent, and its error says what was signed.
  #kept(key: string, id: string, holder: string, header: string, authorization: SignedAuthorization): Promise<Entry> {
    return this.journal.sign(id, holder, header, authorization).catch((error: unknown) => {
      if (error instanceof RoamcardError) error.idempotencyKey = key;
      throw error;
    });
  }

  // adopt holds a payment of another signer to the terms and the policy, and keeps it.
  async #adopt(attempt: Attempt<unknown>, id: string, payer: string, header: string): Promise<Entry> {
    const payment = decodePayment(header);
    if (!payment) throw new TermsMismatchError("the PAYMENT-SIGNATURE header cannot be read; it was not sent");
    const { accepted, authorization } = payment;
    const { quote } = await this.#check(attempt, {
      x402Version: 2,
      accepts: [accepted],
      resource: { url: attempt.resource ?? this.origin },
    });
    if (
      !sameAddress(authorization.from, payer) ||
      !sameAddress(authorization.to, accepted.payTo) ||
      authorization.value !== accepted.amount
    ) {
      throw new TermsMismatchError("the authorization is not for the terms it accepts; it was not sent");
    }
    const [signedAt, validBefore] = [Math.floor(Date.now() / 1000), Number(authorization.validBefore)];
    const nonce = String(authorization.nonce).toLowerCase();
    if (!(validBefore <= signedAt + accepted.maxTimeoutSeconds + clockDifference)) {
      throw new TermsMismatchError("the authorization is good for longer than the terms allow; it was not sent");
    }
    if (!/^0x[0-9a-f]{64}$/.test(nonce)) {
      throw new TermsMismatchError("the authorization has no nonce of 32 bytes; it was not sent");
    }
    const signed = { nonce, amount: accepted.amount, signedAt, validBefore };
    return this.#inTurn(attempt, id, quote, payer, (holder) => this.#kept(attempt.key, id, holder, header, signed));
  }

  // inTurn takes the budget and asks for approval, alone among all who share the store, and then lets the payment be
  // made. What somebody else has made meanwhile is taken instead. Whatever fails gives turn and budget back.
  async #inTurn(
    { signal, path, request }: Attempt<unknown>,
    id: string,
    quote: Quote,
    payer: string,
    make: (holder: string, attempts: number) => Promise<Entry>,
  ): Promise<Entry> {
    const amount = BigInt(quote.amount);
    this.#rules.cap(quote.operation, amount);
    const holder = crypto.randomUUID();
    const wanted = {
      key: quote.idempotencyKey,
      operation: quote.operation,
      origin: this.origin,
      path,
      payer: payer.toLowerCase(),
      request,
      amount: quote.amount,
      holder,
    };
    if ((await this.journal.overBudget(amount, this.#rules.perDay)) !== undefined) await this.#prove();
    for (;;) {
      const turn = await this.journal.reserve(id, wanted, this.#rules.perDay);
      if (turn.kind === "signed") return turn.entry;
      if (turn.kind === "sign")
        return this.#holding(id, holder, async () => (await this.#approve(quote, signal), make(holder, turn.attempt)));
      await pause(firstPause, signal);
      signal?.throwIfAborted();
    }
  }

  async #holding(id: string, holder: string, make: () => Promise<Entry>): Promise<Entry> {
    // A store that fails here fails again when the payment is kept.
    const held = setInterval(() => void this.journal.hold(id, holder).catch(() => undefined), holdEvery);
    try {
      return await make();
    } catch (error) {
      // A store that fails here has told so already, or will when it is used again.
      await this.#noted(this.journal.release(id, holder));
      throw error;
    } finally {
      clearInterval(held);
    }
  }

  async #approve(quote: Quote, signal: AbortSignal | undefined): Promise<void> {
    if (await until(signal, this.#rules.approve(quote)))
      this.#tell("onApproval", quote, { operation: quote.operation, amountUsd: quote.amountUsd });
    signal?.throwIfAborted();
  }

  // present sends a kept payment until the answer is clear, the same bytes every time, and keeps what came of it.
  async #present<T>(attempt: Attempt<T>, id: string, entry: Entry): Promise<Exclude<Reply<T>, { kind: "unclear" }>> {
    let orderId = entry.orderId;
    for (let replay = 0; ; replay++) {
      const reply = this.#verified(attempt, entry, await this.#send(attempt, entry.header!));
      if (reply.kind === "done") {
        await this.#noted(this.journal.settle(id, String(attempt.order(reply.value)?.orderId)));
        this.#tell("onSettled", { idempotencyKey: attempt.key }, {});
        return reply;
      }
      if (reply.kind !== "unclear") {
        await this.#noted(this.journal.refuse(id, entry.header!, reply.kind === "terms" && reply.dead));
        return reply;
      }
      orderId ??= reply.orderId;
      const useless = reply.error instanceof AnotherOrderError;
      if (useless || replay >= this.#maxReplays || attempt.signal?.aborted)
        throw new AmbiguousPaymentError(attempt.key, orderId, { cause: reply.error });
      this.#tell(
        "onReplay",
        { idempotencyKey: attempt.key, replay: replay + 1, error: reply.error },
        { replay: replay + 1, error: String(reply.error) },
      );
      await pause(reply.waitMs ?? Math.min(firstPause * 2 ** replay, lastPause), attempt.signal);
    }
  }

  // verified takes an answer for a success only when it holds the order that was paid for.
  #verified<T>(attempt: Attempt<T>, entry: Entry, reply: Reply<T>): Reply<T> {
    const error = reply.kind === "done" ? faultOf(attempt.order(reply.value), entry) : undefined;
    return error ? { kind: "unclear", error, answered: true } : reply;
  }

  // noted keeps an answer from being lost because it could not be written down: the next call with the key gets it
  // again.
  async #noted(written: Promise<void>): Promise<void> {
    await written.catch((error: unknown) =>
      this.#options.logger?.warn("the journal was not written", { error: String(error) }),
    );
  }

  async #send<T>(attempt: Attempt<T>, payment: string | undefined): Promise<Reply<T>> {
    const timeout = AbortSignal.timeout(attempt.timeoutMs ?? this.#options.timeoutMs ?? 30_000);
    const signal = attempt.signal ? AbortSignal.any([attempt.signal, timeout]) : timeout;
    try {
      return await attempt.send(payment, signal);
    } catch (error) {
      return { kind: "unclear", error };
    }
  }

  // tell reports an event. A handler in error must not keep a payment from being sent, nor make a sent one look unsent.
  #tell<K extends keyof PaymentEvents>(
    name: K,
    event: Parameters<NonNullable<PaymentEvents[K]>>[0],
    fields: Record<string, unknown>,
  ): void {
    const { logger, events } = this.#options;
    const { idempotencyKey } = event;
    logger?.[name === "onReplay" ? "warn" : "info"](messages[name], { idempotencyKey, ...fields });
    const handle = events?.[name] as ((event: unknown) => unknown) | undefined;
    const handled = async () => handle?.call(events, event);
    handled().catch((error: unknown) => logger?.warn("an event handler failed", { event: name, error: String(error) }));
  }

  get #maxReplays(): number {
    return this.#options.maxReplays ?? 4;
  }
}

async function signatureOf(signer: Signer, offer: Offer, authorization: Authorization): Promise<string> {
  const signature = await signer.signTypedData(authorizationTypedData(offer, authorization)).catch((cause: unknown) => {
    throw new PaymentError("the wallet did not sign; nothing was sent", { cause });
  });
  if (!/^0x[0-9a-fA-F]{130}$/.test(signature) && !isOfAccount(signature) && !namesCreation(signature))
    throw new PaymentError(
      "the wallet returned no signature of 65 bytes, nor one of a smart account; nothing was sent",
    );
  if (signature.length === 132 && BigInt(`0x${signature.slice(66, 130)}`) > halfOrder)
    throw new PaymentError("the wallet returned a signature that USDC refuses, with s too large; nothing was sent");
  return signature;
}

function unpaid(): TermsMismatchError {
  return new TermsMismatchError("the service gave the purchase away unpaid");
}

// termsOf reads a challenge that may be signed for.
function termsOf({ header, date }: { header: string; date?: string | null }): Terms {
  compareClocks(date);
  return decodeTerms(header);
}

// compareClocks refuses to sign by a clock that differs from the service's: the payment would be refused, or be good
// for longer than meant.
function compareClocks(date: string | null | undefined): void {
  const theirs = date ? Date.parse(date) : NaN;
  if (!(Math.abs(theirs - Date.now()) > clockDifference * 1000)) return;
  throw new ClockError(
    `it is ${new Date().toISOString()} here, and ${new Date(theirs).toISOString()} at the service; nothing was signed`,
  );
}

type Refusal = { kind: "terms"; header: string; error: ApiError } | { kind: "refused"; error: ApiError };

// failureOf gives the one refusal that people can fix by themselves a type of its own.
function failureOf(reply: Refusal): Error {
  if (reply.kind !== "terms" || !/insufficient_(balance|funds)/.test(reasonIn(reply.header))) return reply.error;
  const poor = new InsufficientFundsError("the wallet holds less USDC than the price", { cause: reply.error });
  return Object.assign(
    poor,
    reply.error.idempotencyKey !== undefined && { idempotencyKey: reply.error.idempotencyKey },
  );
}

function reasonIn(header: string): string {
  try {
    return decodeTerms(header).error ?? "";
  } catch {
    return "";
  }
}

// pause waits, or less when the caller gives up; the next send then tells.
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(end, Math.min(ms, longestPause));
    function end() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      done();
    }
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end, { once: true });
  });
}

/** Whether an answer of this status says nothing final about a payment. */
export function isUnclear(status: number, retryable: boolean): boolean {
  return retryable || status >= 500 || status === 408 || status === 425 || status === 429;
}
