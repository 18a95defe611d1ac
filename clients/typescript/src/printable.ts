// What others wrote, made fit for terminals and logs.

// Control characters but the line feed, what ends lines in other ways, and what turns the direction of a text.
const unprintable = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** A text of one line in which nothing steers a terminal: such characters stand as \u{…}. */
export function printable(text: string): string {
  return printableLines(text).replaceAll("\n", "\\u{a}");
}

/** A text of lines, as printable makes each of them. */
export function printableLines(text: string): string {
  return text.replace(unprintable, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

/**
 * An error of somebody else's making, and what caused it, made printable in its place: whoever prints an error prints
 * its causes.
 */
export function printableCause<E>(error: E): E {
  const seen = new Set<unknown>();
  for (let cause: unknown = error; cause instanceof Error && !seen.has(cause); cause = cause.cause) {
    seen.add(cause);
    const [message, stack] = [printable(cause.message), cause.stack];
    if (stack !== undefined) cause.stack = printableLines(stack.replace(cause.message, () => message));
    cause.message = message;
  }
  return error;
}
