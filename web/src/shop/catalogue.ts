// The catalogue of eSIM plans, as people look for one.
import type { EsimPlan } from "roamcard";
import { texts } from "../lib/text.js";

/** A country that plans work in. */
export interface Country {
  code: string;
  name: string;
  /** What its cheapest plan costs. */
  from: number;
  count: number;
}

export type Sort = "price" | "data" | "perGb";

const names = new Intl.DisplayNames([texts.lang], { type: "region", fallback: "code" });
const english = new Intl.DisplayNames(["en"], { type: "region", fallback: "code" });

/** The name of a country. */
export function countryName(code: string): string {
  return nameIn(names, code);
}

// nameIn does not fail for codes that no list has.
function nameIn(list: Intl.DisplayNames, code: string): string {
  try {
    return list.of(code) ?? code;
  } catch {
    return code;
  }
}

/** The countries of plans that are for one country, by name. */
export function countriesOf(plans: EsimPlan[]): Country[] {
  const all = new Map<string, Country>();
  for (const { type, countryCodes, priceUsdCents } of plans) {
    if (type !== "country") continue;
    for (const code of countryCodes) {
      const known = all.get(code) ?? { code, name: countryName(code), from: priceUsdCents, count: 0 };
      all.set(code, { ...known, from: Math.min(known.from, priceUsdCents), count: known.count + 1 });
    }
  }
  const { compare } = new Intl.Collator(texts.lang);
  return [...all.values()].sort((a, b) => compare(a.name, b.name));
}

/** Text without case and accents. */
export function folded(text: string): string {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();
}

/** Whether a country is meant by a search: by its name, here or in English, or its code. */
export function isCountry(query: string, { code, name }: Country): boolean {
  const wanted = folded(query);
  return folded(name).includes(wanted) || folded(nameIn(english, code)).includes(wanted) || folded(code) === wanted;
}

/** Whether a plan is meant by a search: by its own name, or that of a country it works in. */
export function isPlan(query: string, { name, countryCodes }: EsimPlan): boolean {
  const wanted = folded(query);
  return (
    folded(name).includes(wanted) ||
    countryCodes.some((code) => isCountry(query, { code, name: countryName(code), from: 0, count: 0 }))
  );
}

/** What a gigabyte of a plan costs, in cents; undefined when its data is unlimited. */
export function centsPerGb({ priceUsdCents, dataMb, unlimited }: EsimPlan): number | undefined {
  return unlimited || !dataMb ? undefined : Math.round((priceUsdCents * 1024) / dataMb);
}

/** Plans in the order that is asked for. */
export function sorted(plans: EsimPlan[], by: Sort): EsimPlan[] {
  const price = (a: EsimPlan, b: EsimPlan) => a.priceUsdCents - b.priceUsdCents;
  const data = (plan: EsimPlan) => (plan.unlimited ? Infinity : (plan.dataMb ?? 0));
  const order: Record<Sort, (a: EsimPlan, b: EsimPlan) => number> = {
    price,
    data: (a, b) => (data(a) === data(b) ? price(a, b) : data(b) - data(a)),
    perGb: (a, b) => (centsPerGb(a) ?? Infinity) - (centsPerGb(b) ?? Infinity) || price(a, b),
  };
  return [...plans].sort(order[by]);
}
