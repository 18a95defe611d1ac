/** Cents of an amount as people write it; undefined when it is none. */
export function centsOf(text: string): number | undefined {
  const [, whole, part = ""] = /^\s*\$?\s*(\d{1,6})(?:[.,](\d{1,2}))?\s*$/.exec(text) ?? [];
  return whole === undefined ? undefined : Number(whole) * 100 + Number(part.padEnd(2, "0"));
}
