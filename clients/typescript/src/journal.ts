// What was signed, kept before it is sent: the reason that nothing is paid twice. One schema for the clients of all
// languages.
import { JournalError, KeyConflictError, PolicyDeniedError, RoamcardError, TermsMismatchError } from "./errors.js";
import { dollarsOf } from "./money.js";
import { nonceOf, sameAddress } from "./x402.js";

/** An EIP-3009 authorization that was signed. Times are seconds since 1970. */
export interface SignedAuthorization {
  nonce: string;
  /** In USDC's smallest unit, a decimal string. */
  amount: string;
  signedAt: number;
  validBefore: number;
  /** Why the chain can never take it, as this client read it there. The service's word does not set it. */
  void?: Void;
}

/** Why an authorization is void. */
export type Void = "expired" | "cancelled" | "used_elsewhere";

/** One purchase and its payments. It never holds a card number or a token. Times are seconds since 1970. */
export interface Entry {
  /** The idempotency key; the id of the order for an order that was made first. */
  key: string;
  /** The documented path of what is bought; /pay for an order that was made first. */
  operation: string;
  origin: string;
  /** The documented path that is called. */
  path: string;
  payer: string;
  /** The request; a key belongs to it for good. */
  request: Record<string, unknown>;
  /** In USDC's smallest unit, a decimal string. */
  amount: string;
  /**
   * reserved: the budget is taken, nothing is signed. signed: the payment may be on its way. settled: the service
   * answered with the order. refused: it answered that no money moved, which frees no budget.
   */
  state: "reserved" | "signed" | "settled" | "refused";
  /** When the budget was taken, and then when it was last signed. */
  at: number;
  /** Whose turn it is to sign, and until when; while reserved. */
  holder?: string;
  heldUntil?: number;
  /** The last PAYMENT-SIGNATURE header; every request of this purchase sends these bytes. */
  header?: string;
  /** The order, once an answer named it. */
  orderId?: string;
  /** How many authorizations the service told to be dead after it took them up; the next one has a nonce of its own. */
  attempt: number;
  /** All that were ever signed, oldest first. */
  authorizations: SignedAuthorization[];
}

/** What a store keeps. */
export interface Book {
  schema: "roamcard.journal";
  version: 2;
  /** The payee of each origin, as first seen. */
  payees: Record<string, string>;
  /** By the nonce of the first authorization, which is derived from origin, path, payer and key. */
  purchases: Record<string, Entry>;
  /** Counts the changes of a file, whose store keeps it: a change of an older one is not written. */
  generation?: number;
}

/** A new, empty book. */
export function emptyBook(): Book {
  return { schema: "roamcard.journal", version: 2, payees: {}, purchases: {} };
}

/**
 * Keeps the book. `update` reads it, lets it be changed and keeps the change, alone among all who share the store; when
 * it resolves, the change survives a power cut. When the change throws, nothing is kept. What fails throws a
 * JournalError.
 */
export interface Store {
  read(): Promise<Book>;
  update<T>(change: (book: Book) => T): Promise<T>;
}

/**
 * A store that ends with the process. Enough for trials: the derived nonce still keeps a purchase from being paid
 * twice.
 */
export class MemoryStore implements Store {
  #book = emptyBook();

  async read(): Promise<Book> {
    return structuredClone(this.#book);
  }

  async update<T>(change: (book: Book) => T): Promise<T> {
    const book = structuredClone(this.#book);
    const result = change(book);
    this.#book = book;
    return result;
  }
}

/**
 * Reads what a store has kept as a book, or throws a JournalError that names the file: nothing is paid on the word of
 * half a journal. One with members that this version does not have is foreign: to keep it would lose them.
 */
export function readBook(value: unknown, file: string): Book {
  const book = objectOf(value);
  if (!book) throw new JournalError(file, "damaged", "it is no JSON object");
  if (book.schema !== "roamcard.journal" || book.version !== 2)
    throw new JournalError(file, "foreign", "it is not a journal of version 2");
  const wrong = faultOf(book);
  if (wrong) throw new JournalError(file, "damaged", wrong);
  const unknown = unknownIn(book as unknown as Book);
  if (unknown) throw new JournalError(file, "foreign", `it has a member ${unknown}, which version 2 does not have`);
  return book as unknown as Book;
}

type Check = (value: unknown) => boolean;
const text: Check = (v) => typeof v === "string" && v !== "";
const count: Check = (v) => Number.isSafeInteger(v) && (v as number) >= 0;
const units: Check = (v) => typeof v === "string" && /^[1-9]\d{0,17}$/.test(v);
const optional = (check: Check): Check => (v) => v === undefined || check(v);
const oneOf = (...values: string[]): Check => (v) => values.includes(v as string);

const authorizationMembers: Record<keyof SignedAuthorization, Check> = {
  nonce: text,
  amount: units,
  signedAt: count,
  validBefore: count,
  void: optional(oneOf("expired", "cancelled", "used_elsewhere")),
};
const entryMembers: Record<keyof Entry, Check> = {
  key: text,
  operation: text,
  origin: text,
  path: text,
  payer: text,
  request: (v) => objectOf(v) !== undefined,
  amount: units,
  state: oneOf("reserved", "signed", "settled", "refused"),
  at: count,
  holder: optional(text),
  heldUntil: optional(count),
  header: optional(text),
  orderId: optional(text),
  attempt: count,
  authorizations: Array.isArray,
};

function faultOf({ payees, purchases, generation }: Record<string, unknown>): string | undefined {
  if (!optional(count)(generation)) return "it has no generation";
  const [known, bought] = [objectOf(payees), objectOf(purchases)];
  if (!known || !bought || !Object.values(known).every(text)) return "its members are not those of a journal";
  for (const [id, value] of Object.entries(bought)) {
    const entry = objectOf(value);
    const wrong =
      entry &&
      (wrongMember(entry, entryMembers) ??
        (entry.authorizations as unknown[])
          .map((a) => wrongMember(objectOf(a) ?? {}, authorizationMembers))
          .find(Boolean));
    if (!entry || wrong) return `purchase ${id} has a wrong ${wrong ?? "form"}`;
    if (entry.state === "signed" && (!entry.header || (entry.authorizations as unknown[]).length === 0))
      return `purchase ${id} is signed without a payment`;
  }
  return undefined;
}

function wrongMember(value: Record<string, unknown>, members: Record<string, Check>): string | undefined {
  return Object.entries(members).find(([name, check]) => !check(value[name]))?.[0];
}

function unknownIn(book: Book): string | undefined {
  const { schema: _, version: __, payees: ___, generation: ____, purchases, ...rest } = book;
  const entries = Object.values(purchases);
  const others = (value: object, members: object) => Object.keys(value).filter((name) => !Object.hasOwn(members, name));
  return [
    ...Object.keys(rest), ...entries.flatMap((e) => others(e, entryMembers)),
    ...entries.flatMap((e) => e.authorizations.flatMap((a) => others(a, authorizationMembers))),
  ][0];
}

function objectOf(value: unknown): Record<string, unknown> | undefined {
  return value && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
}

/**
 * What a purchase is given: the turn to sign it, what is signed already, or neither while somebody else has the turn.
 */
export type Turn = { kind: "sign"; attempt: number } | { kind: "signed"; entry: Entry } | { kind: "wait" };

/** What is reserved of a purchase. */
export type Wanted = Omit<Entry, "state" | "at" | "attempt" | "heldUntil" | "authorizations" | "header" | "orderId"> & {
  holder: string;
};

/** How many seconds the service's clock may differ from this one. */
export const clockDifference = 60;
const day = 24 * 60 * 60;
/** How long a turn lasts unless it is renewed; nobody waits longer for a process that died with one. */
const turn = 10;
/** How long a budget stays taken by a process that died before it signed. */
const reservation = 15 * 60;
/**
 * How many seconds after its validBefore an authorization counts as live: as far as this clock may be ahead of the
 * chain's without being refused.
 */
const expiryMargin = clockDifference;

/** The rules of the book. */
export class Journal {
  readonly store: Store;

  constructor(store: Store, readonly now: () => number = () => Math.floor(Date.now() / 1000)) {
    this.store = explaining(store);
  }

  /** What is known of a purchase that has a payment to send. */
  async find(id: string, key: string, request: Record<string, unknown>): Promise<Entry | undefined> {
    const entry = (await this.store.read()).purchases[id];
    if (!entry || !this.#isSendable(entry)) return undefined;
    fits(entry, key, request);
    return entry;
  }

  /** A purchase, whatever its state. */
  async entry(id: string): Promise<Entry | undefined> {
    return (await this.store.read()).purchases[id];
  }

  /** Purchases whose outcome is not known, oldest first. */
  async pending(): Promise<Entry[]> {
    return Object.values((await this.store.read()).purchases)
      .filter((e) => e.state === "signed")
      .sort((a, b) => a.at - b.at);
  }

  /** What counts for the last 24 hours, in USDC's smallest unit. */
  async spent(): Promise<bigint> {
    return spentOf(await this.store.read(), this.now());
  }

  /** Why an amount does not fit into what is left of the day; undefined when it does. */
  async overBudget(amount: bigint, perDay: bigint | undefined): Promise<string | undefined> {
    return excess(spentOf(await this.store.read(), this.now()) + amount, perDay);
  }

  /**
   * Takes the turn to sign a purchase, and its budget; the caps are checked and taken in one step. Of all who share the
   * store one has the turn at a time.
   */
  async reserve(id: string, wanted: Wanted, perDay: bigint | undefined): Promise<Turn> {
    // The nonces are derived before: a change of the book cannot wait.
    const known = (await this.store.read()).purchases[id];
    const nonce = await nonceOf(wanted.origin, wanted.path, wanted.payer, wanted.key, known?.attempt ?? 0);
    return this.store.update((book): Turn => {
      const entry = book.purchases[id];
      const now = this.now();
      if (entry && this.#isSendable(entry)) {
        fits(entry, wanted.key, wanted.request);
        return { kind: "signed", entry };
      }
      const taken = entry?.state === "reserved" && entry.holder !== wanted.holder && (entry.heldUntil ?? 0) >= now;
      if (taken || (entry?.attempt ?? 0) !== (known?.attempt ?? 0)) return { kind: "wait" };
      const others = Object.fromEntries(Object.entries(book.purchases).filter(([other]) => other !== id));
      const over = excess(
        spentOf({ ...book, purchases: others }, now) +
          takenBy(entry?.authorizations ?? [], now, nonce, BigInt(wanted.amount)),
        perDay,
      );
      if (over) throw new PolicyDeniedError(over);
      const { attempt = 0, authorizations = [], header, orderId } = entry ?? {};
      book.purchases[id] = {
        ...wanted, state: "reserved", at: now, heldUntil: now + turn, attempt, authorizations,
        ...(header !== undefined && { header }), ...(orderId !== undefined && { orderId }),
      };
      return { kind: "sign", attempt };
    });
  }

  /** Keeps a turn, for as long as a person or a wallet takes. */
  hold(id: string, holder: string): Promise<void> {
    return this.#change(id, (entry) =>
      entry.state === "reserved" && entry.holder === holder
        ? { ...entry, at: this.now(), heldUntil: this.now() + turn }
        : entry,
    );
  }

  /** Keeps a signed payment. A turn that was lost meanwhile keeps it from being sent. */
  sign(id: string, holder: string, header: string, authorization: SignedAuthorization): Promise<Entry> {
    return this.store.update((book) => {
      const entry = book.purchases[id];
      if (entry?.state !== "reserved" || entry.holder !== holder)
        throw new RoamcardError("the journal was changed meanwhile; nothing was sent");
      const { holder: _, heldUntil: __, ...rest } = entry;
      return (book.purchases[id] = {
        ...rest,
        state: "signed",
        header,
        at: authorization.signedAt,
        authorizations: [...entry.authorizations, authorization],
      });
    });
  }

  /** Gives a budget back that was taken for nothing. What was signed before is kept. */
  release(id: string, holder: string): Promise<void> {
    return this.store.update((book) => {
      const entry = book.purchases[id];
      if (entry?.state !== "reserved" || entry.holder !== holder) return;
      const { holder: _, heldUntil: __, ...rest } = entry;
      if (entry.authorizations.length > 0) book.purchases[id] = { ...rest, state: "refused" };
      else delete book.purchases[id];
    });
  }

  /** The purchase is paid. */
  settle(id: string, orderId: string): Promise<void> {
    return this.#change(id, (entry) => ({ ...entry, state: "settled", orderId }));
  }

  /**
   * The service said that no money moved. `dead` says that it had taken the payment up and calls it dead, now or to a
   * repeat: the next one needs a nonce of its own, once the chain can no longer take this one. However often it is
   * told, it counts once for a nonce.
   */
  refuse(id: string, header: string, dead: boolean): Promise<void> {
    return this.#change(id, (entry) => {
      // What is paid stays paid, whatever a repeat of it is told.
      if (!["signed", "refused"].includes(entry.state) || entry.header !== header) return entry;
      const nonces = new Set(entry.authorizations.map(({ nonce }) => nonce));
      return { ...entry, state: "refused", attempt: dead ? Math.max(entry.attempt, nonces.size) : entry.attempt };
    });
  }

  /** Keeps what the chain says of authorizations, by their places. */
  void(id: string, reasons: Map<number, Void>): Promise<void> {
    return this.#change(id, (entry) => {
      const authorizations = entry.authorizations.map((a, i) => (reasons.has(i) ? { ...a, void: reasons.get(i)! } : a));
      return { ...entry, authorizations };
    });
  }

  /**
   * Until when the chain could take the last payment of a purchase, in seconds since 1970; undefined when it cannot.
   */
  liveUntil(entry: Entry): number | undefined {
    const last = entry.authorizations.at(-1);
    return last && isLive(last, this.now()) ? last.validBefore + expiryMargin : undefined;
  }

  // Whether the purchase has a payment whose bytes are the only ones to send: one that may have been taken, or that the
  // chain could still take.
  #isSendable(entry: Entry): boolean {
    if (entry.state === "signed" || entry.state === "settled") return entry.header !== undefined;
    return entry.state === "refused" && entry.header !== undefined && this.liveUntil(entry) !== undefined;
  }

  #change(id: string, change: (entry: Entry) => Entry): Promise<void> {
    return this.store.update((book) => {
      const entry = book.purchases[id];
      if (entry) book.purchases[id] = change(entry);
    });
  }

  /** Keeps the payee of an origin when it is first seen, and refuses another one ever after. */
  async pinPayee(origin: string, payTo: string): Promise<void> {
    const known = (await this.store.read()).payees[origin];
    const pinned = known ?? (await this.store.update((book) => (book.payees[origin] ??= payTo)));
    if (!sameAddress(pinned, payTo)) {
      throw new TermsMismatchError(
        `the payee of ${origin} was ${pinned} and now is ${payTo}; set allow.payTo to the right one`,
      );
    }
  }
}

/** The spelling of JSON with sorted members, so that equal requests have equal texts. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    member && typeof member === "object" && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}

function fits(entry: Entry, key: string, request: Record<string, unknown>): void {
  if (canonical(entry.request) !== canonical(request)) throw new KeyConflictError(key);
}

// explaining tells a store that fails from a service that does not answer.
function explaining(store: Store): Store {
  const explain = (error: unknown) => {
    throw error instanceof RoamcardError
      ? error
      : new JournalError("of the store", "failed", String(error), { cause: error });
  };
  return { read: () => store.read().catch(explain), update: (change) => store.update(change).catch(explain) };
}

function spentOf(book: Book, now: number): bigint {
  return Object.values(book.purchases).reduce((sum, e) => {
    const reserved = e.state === "reserved" && e.at > now - reservation ? BigInt(e.amount) : 0n;
    return sum + reserved + takenBy(e.authorizations, now);
  }, 0n);
}

// takenBy is what authorizations could take, and one more: the token takes a nonce once, so of those that share one
// only the largest counts. Only the chain frees one: a service that says no money moved may still have taken it.
function takenBy(authorizations: SignedAuthorization[], now: number, nonce = "", amount = 0n): bigint {
  const most = new Map(amount > 0n ? [[nonce, amount]] : []);
  for (const a of authorizations) {
    if (a.void || !(isLive(a, now) || a.signedAt > now - day)) continue;
    const before = most.get(a.nonce) ?? 0n;
    most.set(a.nonce, BigInt(a.amount) > before ? BigInt(a.amount) : before);
  }
  return [...most.values()].reduce((sum, units) => sum + units, 0n);
}

function isLive(a: SignedAuthorization, now: number): boolean {
  return !a.void && now < a.validBefore + expiryMargin;
}

// excess says why an amount is more than a day may come to.
function excess(spent: bigint, perDay: bigint | undefined): string | undefined {
  if (perDay === undefined || spent <= perDay) return undefined;
  return `with it, ${dollarsOf(spent)} US dollars would be signed for in a day, and ${dollarsOf(perDay)} are allowed`;
}
