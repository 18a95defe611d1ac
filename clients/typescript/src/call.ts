// What a call gives: its result, and on demand the answer it came with.
import { RoamcardError } from "./errors.js";
import { requestIdHeader } from "./logger.js";

/** Headers as fetch takes them. The name that browsers have for these, HeadersInit, is not known everywhere. */
export type CallHeaders = Headers | [string, string][] | Record<string, string>;

/** What a call may be given in addition to its arguments. */
export interface CallOptions {
  /**
   * Gives up. The call rejects with the signal's reason, or with AmbiguousPaymentError when a payment has been sent.
   */
  signal?: AbortSignal | undefined;
  /** How long each request of this call may take; the client's `timeoutMs` when absent. */
  timeoutMs?: number | undefined;
  /** Headers to send as well, such as a gateway's. Those that the client sends itself stay its own. */
  headers?: CallHeaders | undefined;
  /**
   * How often this call is made again when it is a read that fails in passing; the client's `maxRetries` when absent.
   */
  maxRetries?: number | undefined;
}

/** An answer as it came. */
export interface RawResponse {
  /** The HTTP status. Of a transport that does not tell it, the 200 with which the protocols answer every success. */
  status: number;
  /** Names the request in the service's logs. */
  requestId: string | undefined;
  /** The headers, and the trailers of protocols that have them. */
  headers: Headers;
}

/** A result to wait for. */
export interface Call<T> extends Promise<T> {
  /** The result together with the answer that it was read from. */
  withRawResponse(): Promise<{ data: T; response: RawResponse }>;
}

/** What was seen of an answer so far. */
export interface Seen {
  status: number;
  readonly headers: Headers;
}

/** Makes a call of a result and the answer that is there once it is. */
export function callOf<T>(result: Promise<T>, seen: Seen): Call<T> {
  const withRawResponse = async () => {
    const data = await result;
    const { status, headers } = seen;
    return { data, response: { status, requestId: requestIdOf(headers), headers } };
  };
  return Object.assign(result, { withRawResponse });
}

/** Where a list begins, and how it is cut. */
export interface PageOptions {
  /** How many items a page has; the service's choice when absent. */
  pageSize?: number | undefined;
  /** The `nextPageToken` of the page before; the first page when absent. */
  pageToken?: string | undefined;
}

/** A part of a list. JSON.stringify writes it with its token, from which another process can go on. */
export interface Page<T> {
  readonly items: T[];
  readonly hasNext: boolean;
  readonly nextPageToken: string | undefined;
  /** Asks for the page after this one; rejects when there is none. */
  next(): Call<Page<T>>;
}

/** A list: iterate over its items, which asks for pages as they are needed, or take it page by page. */
export interface Listing<T> extends AsyncGenerator<T, void> {
  /** Asks for the first page, or the one of `pageToken`. */
  page(): Call<Page<T>>;
}

/** What a request for a page says of it. */
type WirePage = { pageSize?: number; pageToken?: string };

/** What a request for a page answers. */
export interface Slice<T> {
  items: T[];
  nextPageToken?: string | undefined;
}

/** Makes a list of what reads one page of it. */
export function listing<T>(first: PageOptions, read: (page: WirePage) => Call<Slice<T>>): Listing<T> {
  const page = ({ pageSize, pageToken }: PageOptions): Call<Page<T>> => {
    const call = read({ ...(pageSize !== undefined && { pageSize }), ...(pageToken !== undefined && { pageToken }) });
    const result = call.then(({ items, nextPageToken: token = "" }): Page<T> => {
      if (token !== "" && token === pageToken) throw new RoamcardError("the service answers with the same page again");
      const next = () =>
        token === "" ? rejected("there is no page after this one") : page({ pageSize, pageToken: token });
      return { items, hasNext: token !== "", nextPageToken: token || undefined, next };
    });
    const withRawResponse = async () => ({ data: await result, response: (await call.withRawResponse()).response });
    return Object.assign(result, { withRawResponse });
  };
  return Object.assign(itemsOf(() => page(first)), { page: () => page(first) });
}

async function* itemsOf<T>(first: () => Promise<Page<T>>): AsyncGenerator<T, void> {
  for (let page = await first(); ; page = await page.next()) {
    yield* page.items;
    if (!page.hasNext) return;
  }
}

function rejected(reason: string): Call<never> {
  return callOf(Promise.reject(new RoamcardError(reason)), { status: 0, headers: new Headers() });
}

/** The request id of an answer. */
export function requestIdOf(headers: Headers): string | undefined {
  return headers.get(requestIdHeader) ?? undefined;
}
