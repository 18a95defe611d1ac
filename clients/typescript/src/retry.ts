// Reads that fail in passing are made again.
import { wait } from "./abort.js";
import { ApiError } from "./errors.js";
import { failure } from "./failures.js";

/** How often a read is made again, unless the caller says otherwise. */
export const defaultRetries = 2;

const firstPause = 250;
const lastPause = 4_000;
/** A caller that is asked to wait for longer gets that answer, instead of waiting. */
const longestPause = 30_000;
const passing = new Set([429, 502, 503, 504]);

/**
 * Makes a read, and again up to `most` times when nothing came of it but a failure that may pass: no answer, or one of
 * 429, 502, 503 and 504. Between them it waits for what Retry-After asks, or a random time that doubles. Only for what
 * changes nothing.
 */
export async function retrying<T>(read: () => Promise<T>, most: number, signal?: AbortSignal): Promise<T> {
  for (let retry = 0; ; retry++) {
    try {
      return await read();
    } catch (error) {
      const pause = retry < most && !signal?.aborted ? pauseAfter(failure(error), retry) : undefined;
      if (pause === undefined) throw error;
      await wait(pause, signal);
    }
  }
}

// pauseAfter is how long to wait before a read is made again; undefined when it is not.
function pauseAfter(error: Error, retry: number): number | undefined {
  if (!(error instanceof ApiError) || !(passing.has(error.status) || isUnanswered(error))) return undefined;
  const asked = error.retryAfterMs ?? 0;
  const own = Math.min(firstPause * 2 ** retry, lastPause);
  return asked > longestPause ? undefined : Math.max(asked, own / 2) + (Math.random() * own) / 2;
}

// A caller who gave up, and a time that is over, got what they asked for.
function isUnanswered({ status, code }: ApiError): boolean {
  return status === 0 && code !== "connect_canceled" && code !== "connect_deadlineexceeded";
}
