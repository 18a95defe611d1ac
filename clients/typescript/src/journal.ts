// What was signed, kept before it is sent: the reason that nothing is paid twice.
import { KeyConflictError, PolicyDeniedError, RoamcardError, TermsMismatchError } from "./errors.js";
import { dollarsOf } from "./money.js";
import { sameAddress } from "./x402.js";

/** One purchase. It never holds a card number or a token. */
export interface Entry {
  key: string;
  /** The documented path of what is bought. */
  operation: string;
  payer: string;
  /** A digest of the request; a key cannot be used for another one. */
  fingerprint: string;
  /** In USDC's smallest unit, a decimal string. */
  amount: string;
  /** When the budget was taken, in seconds since 1970. */
  at: number;
  /** Who is about to sign, and until when they are taken to be at it. */
  holder?: string;
  heldUntil?: number;
  /**
   * reserved: the budget is taken, nothing is signed. signed: the header may be on its way. settled: the service answered
   * with the order. refused: it answered that no money moved.
   */
  state: "reserved" | "signed" | "settled" | "refused";
  /** The PAYMENT-SIGNATURE header; every request of this purchase sends these bytes. */
  header?: string;
  /** When the authorization dies, in seconds since 1970. */
  validBefore?: number;
  /** How many authorizations the service proved dead; the next one has a nonce of its own. */
  attempt?: number;
}

/** What a store keeps. */
export interface Book {
  version: 1;
  /** The payee of each origin, as first seen. */
  payees: Record<string, string>;
  /** By purchase id. */
  entries: Record<string, Entry>;
}

/** A new, empty book. */
export function emptyBook(): Book {
  return { version: 1, payees: {}, entries: {} };
}

/**
 * Keeps the book. `update` reads it, lets it be changed and keeps the change, alone among all who share the store; when it
 * resolves, the change survives a power cut. When the change throws, nothing is kept.
 */
export interface Store {
  read(): Promise<Book>;
  update<T>(change: (book: Book) => T): Promise<T>;
}

/** A store that ends with the process. Enough for trials: the derived nonce still keeps a purchase from being paid twice. */
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

/** What a purchase is given: the turn to sign it, what is signed already, or neither while somebody else has the turn. */
export type Turn = { kind: "sign"; attempt: number } | { kind: "signed"; entry: Entry } | { kind: "wait" };

const day = 24 * 60 * 60;
/** How long a turn lasts unless it is held; who died holding one is waited for no longer. */
const turn = 10;
/** How long a budget stays taken by a process that died before it signed. */
const reservation = 15 * 60;

/** The rules of the book. */
export class Journal {
  readonly store: Store;

  constructor(store: Store, readonly now: () => number = () => Math.floor(Date.now() / 1000)) {
    this.store = explaining(store);
  }

  /** What is known of a purchase that is under way or settled. */
  async find(id: string, key: string, fingerprint: string): Promise<Entry | undefined> {
    const entry = (await this.store.read()).entries[id];
    if (!entry || entry.state === "refused" || entry.state === "reserved") return undefined;
    if (entry.fingerprint !== fingerprint) throw new KeyConflictError(key);
    return entry;
  }

  /** Purchases whose outcome is not known. */
  async pending(): Promise<Entry[]> {
    return Object.values((await this.store.read()).entries).filter((e) => e.state === "signed");
  }

  /** Why an amount does not fit into what is left of the day; undefined when it does. */
  async overBudget(amount: bigint, perDay: bigint | undefined): Promise<string | undefined> {
    return excess(await this.store.read(), this.now(), amount, perDay);
  }

  /**
   * Takes the turn to sign a purchase, and its budget; the caps are judged and taken in one step. Of all who share the store
   * one has the turn at a time.
   */
  reserve(id: string, wanted: Omit<Entry, "state" | "at" | "attempt" | "heldUntil"> & { holder: string }, perDay: bigint | undefined): Promise<Turn> {
    return this.store.update((book) => {
      const known = book.entries[id];
      if (known && known.state !== "refused" && known.fingerprint !== wanted.fingerprint) throw new KeyConflictError(wanted.key);
      if (known?.state === "signed" || known?.state === "settled") return { kind: "signed", entry: known };
      const now = this.now();
      if (known?.state === "reserved" && known.heldUntil !== undefined && known.heldUntil >= now) return { kind: "wait" };
      const over = excess(book, now, BigInt(wanted.amount), perDay, id);
      if (over) throw new PolicyDeniedError(over);
      const attempt = known?.attempt ?? 0;
      book.entries[id] = { ...wanted, at: now, heldUntil: now + turn, state: "reserved", attempt };
      return { kind: "sign", attempt };
    });
  }

  /** Keeps a turn, for as long as a person or a wallet takes. */
  hold(id: string, holder: string): Promise<void> {
    return this.#change(id, (entry) => (entry.state === "reserved" && entry.holder === holder ? { ...entry, at: this.now(), heldUntil: this.now() + turn } : entry));
  }

  /** Keeps a signed header. Of two for one purchase the first is kept; the entry that counts is returned. */
  sign(id: string, header: string, validBefore: number): Promise<Entry> {
    return this.store.update((book) => {
      const entry = book.entries[id];
      if (!entry) throw new Error("a payment was signed that was never reserved");
      if (entry.state === "signed" || entry.state === "settled") return entry;
      const { holder: _, heldUntil: __, ...rest } = entry;
      return (book.entries[id] = { ...rest, state: "signed", header, validBefore, at: this.now() });
    });
  }

  /** Gives a budget back that was taken for nothing. How many authorizations died is kept. */
  release(id: string, holder: string): Promise<void> {
    return this.store.update((book) => {
      const entry = book.entries[id];
      if (entry?.state !== "reserved" || entry.holder !== holder) return;
      if (entry.attempt) entry.state = "refused";
      else delete book.entries[id];
    });
  }

  /** The purchase is paid. */
  settle(id: string): Promise<void> {
    return this.#change(id, (entry) => ({ ...entry, state: "settled" }));
  }

  /**
   * The service said that no money moved. Unless it also said that a new payment is safe, or proved this one dead, the budget
   * stays taken until the authorization is dead.
   */
  refuse(id: string, header: string, { safe, dead }: { safe: boolean; dead: boolean }): Promise<void> {
    return this.#change(id, (entry) => {
      // What is paid stays paid, whatever a repeat of it is told.
      if (entry.state !== "signed" || entry.header !== header) return entry;
      const { header: _, validBefore, attempt = 0, ...rest } = entry;
      const taken = !safe && !dead && validBefore !== undefined;
      return { ...rest, state: "refused", attempt: dead ? attempt + 1 : attempt, ...(taken && { validBefore }) };
    });
  }

  #change(id: string, change: (entry: Entry) => Entry): Promise<void> {
    return this.store.update((book) => {
      const entry = book.entries[id];
      if (entry) book.entries[id] = change(entry);
    });
  }

  /** Keeps the payee of an origin when it is first seen, and refuses another one ever after. */
  async pinPayee(origin: string, payTo: string): Promise<void> {
    const known = (await this.store.read()).payees[origin];
    const pinned = known ?? (await this.store.update((book) => (book.payees[origin] ??= payTo)));
    if (!sameAddress(pinned, payTo)) {
      throw new TermsMismatchError(`the payee of ${origin} was ${pinned} and now is ${payTo}; set allow.payTo to the right one`);
    }
  }
}

// explaining tells a store that fails from a service that does not answer.
function explaining(store: Store): Store {
  const explain = (error: unknown) => {
    throw error instanceof RoamcardError ? error : new RoamcardError("the store of signed payments failed", { cause: error });
  };
  return { read: () => store.read().catch(explain), update: (change) => store.update(change).catch(explain) };
}

// excess says why an amount is more than what is left of the day, an entry's own share not counted.
function excess(book: Book, now: number, amount: bigint, perDay: bigint | undefined, id?: string): string | undefined {
  const spent = Object.entries(book.entries).reduce((sum, [other, e]) => (other !== id && counts(e, now) ? sum + BigInt(e.amount) : sum), 0n);
  if (perDay === undefined || spent + amount <= perDay) return undefined;
  return `${dollarsOf(amount)} US dollars is more than what is left today: ${dollarsOf(perDay)} allowed, ${dollarsOf(spent)} spent`;
}

// counts says whether an entry takes part of the budget of the last 24 hours.
function counts(entry: Entry, now: number): boolean {
  if (entry.at <= now - day) return false;
  if (entry.state === "reserved") return entry.at > now - reservation;
  if (entry.state === "refused") return entry.validBefore !== undefined && entry.validBefore > now;
  return true;
}
