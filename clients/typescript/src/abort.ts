// Waiting, and giving up.

/** Waits for a result, but not longer than the signal lasts: then it rejects with the signal's reason. */
export function until<T>(signal: AbortSignal | undefined, result: Promise<T>): Promise<T> {
  if (!signal) return result;
  return new Promise((done, fail) => {
    const stop = () => fail(signal.reason as Error);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    result.then(done, fail).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** Waits for a time, but not longer than the signal lasts: then it rejects with the signal's reason. */
export function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((done, fail) => {
    const stop = () => {
      clearTimeout(timer);
      fail(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      done();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
