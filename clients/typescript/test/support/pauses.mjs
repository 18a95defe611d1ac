// What the client waits for between its requests, without waiting.

/**
 * From here to the end of a test the timers of the client's own code fire at once, and those of everybody else as they
 * are set. Gives the pauses that the client asks for, in ms.
 */
export function pauses(t) {
  const asked = [];
  const real = globalThis.setTimeout;
  globalThis.setTimeout = (run, ms, ...given) => {
    const [, , caller] = new Error().stack.split("\n");
    if (!caller.includes("/clients/typescript/dist/")) return real(run, ms, ...given);
    asked.push(ms);
    return real(run, 0, ...given);
  };
  t.after(() => (globalThis.setTimeout = real));
  return asked;
}
