// The journal in a folder, shared by processes, kept through a power cut.
import { open, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { JournalError, RoamcardError } from "../errors.js";
import { type Book, emptyBook, readBook, type Store } from "../journal.js";
import { checkFolder, ExposedError, makeFolder, noWriters, readIn } from "./custody.js";
import { type Lock, LockedError, locked, LostError } from "./lock.js";

/**
 * The folder that the clients of all languages share: what ROAMCARD_JOURNAL names, or roamcard below XDG_STATE_HOME,
 * which is ~/.local/state when it is not set.
 */
export function defaultJournal(): string {
  const { ROAMCARD_JOURNAL: named, XDG_STATE_HOME: state } = process.env;
  if (named) return named;
  return join(state && isAbsolute(state) ? state : join(homedir(), ".local", "state"), "roamcard");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined; // damaged, as any other text that is no journal
  }
}

/**
 * Keeps the journal in a folder that only its owner can read. Processes may share it, also those of containers of this
 * machine; machines may not. A journal that others may write is refused, and so is one in a folder that they may write,
 * or put another one in the place of.
 */
export class FileStore implements Store {
  readonly #folder: string;
  readonly #file: string;
  // Calls of one process wait for each other here, so that only one of them polls for the lock.
  #turn: Promise<unknown> = Promise.resolve();

  /** Without a folder it is the one that the clients of all languages share: see defaultJournal. */
  constructor(path = defaultJournal()) {
    const at = resolve(path); // what is checked is what is used, also when the program changes its folder
    const named = at.endsWith(".json");
    this.#folder = named ? dirname(at) : at;
    this.#file = named ? at : join(at, "journal.json");
  }

  async read(): Promise<Book> {
    return this.#bookOf(await this.#text());
  }

  update<T>(change: (book: Book) => T): Promise<T> {
    const run = this.#turn.then(() => this.#update(change));
    this.#turn = run.catch(() => undefined);
    return run;
  }

  async #update<T>(change: (book: Book) => T): Promise<T> {
    try {
      makeFolder(this.#folder);
      return await locked(this.#folder, async (lock) => {
        const text = await this.#text();
        const book = this.#bookOf(text);
        const generation = (book.generation ?? 0) + 1;
        const result = change(book);
        await this.#write({ ...book, generation }, text, lock);
        return result;
      });
    } catch (error) {
      throw this.#explained(error);
    }
  }

  #bookOf(text: string | undefined): Book {
    return text === undefined ? emptyBook() : readBook(parsed(text), this.#file);
  }

  // text is the file as it is; undefined when there is none.
  async #text(): Promise<string | undefined> {
    try {
      checkFolder(this.#folder);
      return readIn(this.#file, noWriters);
    } catch (error) {
      if (error instanceof ExposedError) throw this.#explained(error);
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw new JournalError(this.#file, "unreadable", (error as Error).message, { cause: error });
    }
  }

  #explained(error: unknown): unknown {
    if (error instanceof ExposedError) return new JournalError(this.#file, "exposed", error.message);
    if (error instanceof LockedError) return new JournalError(this.#file, "locked", error.message);
    if (error instanceof LostError) return new JournalError(this.#file, "failed", error.message);
    const code = (error as NodeJS.ErrnoException | undefined)?.code;
    if (error instanceof RoamcardError || !code) return error;
    const reason = ["ENOSPC", "EDQUOT"].includes(code)
      ? "full"
      : ["EROFS", "EACCES", "EPERM"].includes(code)
        ? "read_only"
        : "failed";
    return new JournalError(this.#file, reason, (error as Error).message, { cause: error });
  }

  // write replaces the file in one step: whoever reads sees the old book or the new one, also after a power cut. The
  // draft has the lock's number, and the next holder removes it first: whoever was stopped here, and has lost the lock
  // meanwhile, has nothing to rename.
  async #write(book: Book, was: string | undefined, lock: Lock): Promise<void> {
    const draft = `${this.#file}.draft-${lock.number}`;
    try {
      const handle = await open(draft, "wx", 0o600);
      try {
        await handle.writeFile(`${JSON.stringify(book, undefined, 2)}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await this.#unchanged(book, was);
      await lock.check();
      await rename(draft, this.#file);
    } catch (error) {
      await rm(draft, { force: true }).catch(() => undefined);
      throw error;
    }
    const folder = await open(this.#folder);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  // unchanged compares the file's generation, and its text, with what the change was made of. They differ where
  // something else than these clients writes, or a lock was given away.
  async #unchanged(book: Book, was: string | undefined): Promise<void> {
    const now = await this.#text();
    if ((this.#bookOf(now).generation ?? 0) + 1 !== book.generation || now !== was)
      throw new JournalError(this.#file, "failed", "it was changed by another program meanwhile; nothing was changed");
  }
}
