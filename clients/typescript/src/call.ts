// What a call gives: its result, and on demand the answer it came with.
import { requestIdHeader } from "./logger.js";

/** What a call may be given besides its arguments. */
export interface CallOptions {
  /** Gives up. The call rejects with the signal's reason, or with AmbiguousPaymentError when a payment has been sent. */
  signal?: AbortSignal | undefined;
}

/** An answer as it came. */
export interface RawResponse {
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

/** Makes a call of a result and the headers that are there once it is. */
export function callOf<T>(result: Promise<T>, headers: Headers): Call<T> {
  const withRawResponse = async () => ({ data: await result, response: { requestId: requestIdOf(headers), headers } });
  return Object.assign(result, { withRawResponse });
}

/** Yields what pages hold, and asks for the next one when it is needed. */
export async function* paged<T>(read: (page: { pageToken?: string }) => Promise<{ items: T[]; nextPageToken?: string | undefined }>): AsyncGenerator<T, void> {
  for (let page: { pageToken?: string } = {}; ; ) {
    const { items, nextPageToken } = await read(page);
    yield* items;
    if (!nextPageToken) return;
    page = { pageToken: nextPageToken };
  }
}

/** The request id of an answer. */
export function requestIdOf(headers: Headers): string | undefined {
  return headers.get(requestIdHeader) ?? undefined;
}
