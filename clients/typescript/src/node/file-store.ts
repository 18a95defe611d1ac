// The journal in a folder, shared by processes, kept through a power cut.
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { JournalError, RoamcardError } from "../errors.js";
import { type Book, emptyBook, readBook, type Store } from "../journal.js";
import { locked } from "./lock.js";

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

/** Keeps the journal in a folder that only its owner can read. Processes may share it; machines may not. */
export class FileStore implements Store {
  readonly #folder: string;
  readonly #file: string;
  // Calls of one process wait for each other here, so that only one of them polls for the lock.
  #turn: Promise<unknown> = Promise.resolve();

  /** Without a folder it is the one that the clients of all languages share: see defaultJournal. */
  constructor(path = defaultJournal()) {
    const named = path.endsWith(".json");
    this.#folder = named ? dirname(path) : path;
    this.#file = named ? path : join(path, "journal.json");
  }

  async read(): Promise<Book> {
    const text = await readFile(this.#file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw new JournalError(this.#file, "unreadable", error.message, { cause: error });
    });
    return text === undefined ? emptyBook() : readBook(parsed(text), this.#file);
  }

  update<T>(change: (book: Book) => T): Promise<T> {
    const run = this.#turn.then(() => this.#update(change));
    this.#turn = run.catch(() => undefined);
    return run;
  }

  async #update<T>(change: (book: Book) => T): Promise<T> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      return await locked(this.#folder, async (isHeld) => {
        const book = await this.read();
        const result = change(book);
        if (!(await isHeld()))
          throw new JournalError(this.#file, "failed", "another program has taken the lock meanwhile");
        await this.#write(`${JSON.stringify(book, undefined, 2)}\n`);
        return result;
      });
    } catch (error) {
      throw this.#explained(error);
    }
  }

  #explained(error: unknown): unknown {
    const code = (error as NodeJS.ErrnoException | undefined)?.code;
    if (error instanceof RoamcardError || !code) return error;
    const reason = ["ENOSPC", "EDQUOT"].includes(code)
      ? "full"
      : ["EROFS", "EACCES", "EPERM"].includes(code)
        ? "read_only"
        : "failed";
    return new JournalError(this.#file, reason, (error as Error).message, { cause: error });
  }

  // write replaces the file in one step: whoever reads sees the old book or the new one, also after a power cut.
  async #write(text: string): Promise<void> {
    const draft = `${this.#file}.draft`;
    const handle = await open(draft, "w", 0o600);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, this.#file);
    const folder = await open(this.#folder);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}
