// The journal in a folder, shared by processes, kept through a power cut.
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { RoamcardError } from "../errors.js";
import { type Book, emptyBook, type Store } from "../journal.js";
import { locked } from "./lock.js";

/** Keeps the journal in a folder that only its owner can read. Processes may share it; machines may not. */
export class FileStore implements Store {
  readonly #folder: string;
  readonly #file: string;
  // Calls of one process wait for each other here, so that only one of them polls for the lock.
  #turn: Promise<unknown> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
    this.#file = join(folder, "journal.json");
  }

  async read(): Promise<Book> {
    const text = await readFile(this.#file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (text === undefined) return emptyBook();
    const book = JSON.parse(text) as Book;
    if (book.version !== 1) throw new RoamcardError(`the journal ${this.#file} is of another version of this package`);
    return book;
  }

  update<T>(change: (book: Book) => T): Promise<T> {
    const run = this.#turn.then(() => this.#update(change));
    this.#turn = run.catch(() => undefined);
    return run;
  }

  async #update<T>(change: (book: Book) => T): Promise<T> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    return locked(this.#folder, async () => {
      const book = await this.read();
      const result = change(book);
      await this.#write(JSON.stringify(book));
      return result;
    });
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
