// What is read of an answer: only of the host that was asked, and no more than its bound.
import { RoamcardError } from "./errors.js";
import type { Fetch } from "./rest.js";

/** The most bytes of an answer that are read, once it is decompressed. */
export const mostBytes = 1 << 20;

/**
 * A fetch that follows no redirect and reads no more than mostBytes. Messages of streams are bounded one by one, by
 * their protocol.
 */
export function bounded(send: Fetch): Fetch {
  return async (input, init) => {
    const response = await send(input, { ...init, redirect: "manual" });
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      await response.body?.cancel();
      throw new RoamcardError(`the service answered with a redirect (${response.status}), which is not followed`);
    }
    const isStream = /^application\/connect\+/.test(response.headers.get("content-type") ?? "");
    if (!response.body || isStream) return response;
    return sameAs(response, response.body.pipeThrough(limit(mostBytes)));
  };
}

function limit(most: number): TransformStream<Uint8Array, Uint8Array> {
  let seen = 0;
  return new TransformStream({
    transform(chunk, to) {
      seen += chunk.byteLength;
      if (seen > most) to.error(new RoamcardError(`the answer has more than ${most} bytes`));
      else to.enqueue(chunk);
    },
  });
}

function sameAs(response: Response, body: ReadableStream<Uint8Array>): Response {
  const { status, statusText, headers } = response;
  const copy = new Response(body as BodyInit, { status, statusText, headers });
  Object.defineProperty(copy, "url", { value: response.url });
  return copy;
}
