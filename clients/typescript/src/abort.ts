// Giving up on what cannot be stopped.

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
