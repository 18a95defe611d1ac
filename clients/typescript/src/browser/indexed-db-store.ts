// The journal in a browser, shared by the tabs of an origin.
import { type Book, emptyBook, readBook, type Store } from "../journal.js";

const shelf = "books";
const key = "journal";

/**
 * Keeps the journal in IndexedDB, for this origin and browser profile. A transaction of IndexedDB is alone among all
 * tabs and workers, and a strict one is on the disk before it ends. Ask navigator.storage.persist(), or the browser may
 * clear it when the disk is full; what the journal held can then still not be paid twice with the same keys.
 */
export class IndexedDbStore implements Store {
  readonly #name: string;
  #database: Promise<IDBDatabase> | undefined;

  constructor(name = "roamcard") {
    this.#name = name;
  }

  async read(): Promise<Book> {
    const books = (await this.#open()).transaction(shelf).objectStore(shelf);
    return this.#book(await result(books.get(key)));
  }

  async update<T>(change: (book: Book) => T): Promise<T> {
    const transaction = (await this.#open()).transaction(shelf, "readwrite", { durability: "strict" });
    const books = transaction.objectStore(shelf);
    const asked = books.get(key);
    return new Promise((done, fail) => {
      let value: T;
      let refusal: Error | undefined;
      transaction.oncomplete = () => done(value);
      transaction.onabort = () => fail(refusal ?? transaction.error ?? new Error("the journal was not written"));
      // A transaction ends as soon as it is idle, so the change is made in the answer itself.
      asked.onsuccess = () => {
        try {
          const book = this.#book(asked.result);
          value = change(book);
          books.put(book, key);
        } catch (error) {
          refusal = error as Error;
          transaction.abort();
        }
      };
    });
  }

  #book(kept: unknown): Book {
    return kept === undefined ? emptyBook() : readBook(kept, `${this.#name} of IndexedDB`);
  }

  #open(): Promise<IDBDatabase> {
    this.#database ??= new Promise<IDBDatabase>((done, fail) => {
      const request = indexedDB.open(this.#name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(shelf);
      request.onerror = () => fail(request.error ?? new Error("IndexedDB cannot be opened"));
      request.onsuccess = () => done(request.result);
    }).catch((error: unknown) => {
      this.#database = undefined;
      throw error;
    });
    return this.#database;
  }
}

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error ?? new Error("the journal cannot be read"));
  });
}
