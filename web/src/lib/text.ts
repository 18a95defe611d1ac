// The language of the person, and how it writes numbers.
import { en, type Texts } from "../text/en.js";

/** The languages that there are in addition to English, which every page has. */
const catalogues: Record<string, () => Promise<Texts>> = {
  de: async () => (await import("../text/de.js")).de,
};

// A catalogue that does not come leaves a page in English.
const load = catalogues[navigator.language.toLowerCase().split("-")[0] ?? ""];
export const texts: Texts = (await load?.().catch(() => undefined)) ?? en;

/** US dollars of a number of cents. */
export function dollars(cents: number): string {
  return new Intl.NumberFormat(texts.lang, { style: "currency", currency: "USD" }).format(cents / 100);
}

/** USDC of a number of its smallest units: rounded down, so that nobody reads more than there is. */
export function usdc(units: bigint): string {
  const cents = units / 10_000n;
  const format = new Intl.NumberFormat(texts.lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return format.format(Number(cents) / 100);
}

/** An address without its middle, as the service writes it. */
export function short(address: string): string {
  return address.length > 12 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address;
}

/** Minutes and seconds. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [minutes, rest] = [Math.floor(seconds / 60), seconds % 60];
  return `${minutes}:${String(rest).padStart(2, "0")}`;
}

/** A day and a time of an ISO 8601 text, as the person writes them. */
export function when(iso: string): string {
  return new Intl.DateTimeFormat(texts.lang, { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));
}

/** A part of an address as it is meant, or as it is when it means nothing. */
export function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
