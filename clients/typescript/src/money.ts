// Money as integers: USDC has six decimals, a cent is ten thousand of its units.

const unitsPerDollar = 1_000_000n;

/**
 * US dollars as a decimal string ("25.00") or a whole number. Fractions of a number are refused: they are not exact.
 */
export type Dollars = string | number;

/** An amount in USDC's smallest unit. */
export function unitsOfDollars(dollars: Dollars): bigint {
  const text = String(dollars);
  const match = /^(\d{1,12})(?:\.(\d{1,6}))?$/.exec(text);
  if (!match || (typeof dollars === "number" && !Number.isSafeInteger(dollars))) {
    throw new TypeError(`${text} is not an amount in US dollars: write it as a decimal string, such as "25.00"`);
  }
  return BigInt(match[1]!) * unitsPerDollar + BigInt((match[2] ?? "").padEnd(6, "0"));
}

/** An amount of cents in USDC's smallest unit. */
export function unitsOfCents(cents: number): bigint {
  return BigInt(cents) * 10_000n;
}

/** An amount in USDC's smallest unit as dollars, exactly. */
export function dollarsOf(units: bigint): string {
  const fraction = String(units % unitsPerDollar).padStart(6, "0").replace(/0{1,4}$/, "");
  return `${units / unitsPerDollar}.${fraction}`;
}
