// Where in the console one is: the fragment of the address, which the browser sends to nobody.

/** The places, in the order of the menu. */
export const places = [
  "orders", "approvals", "transfers", "findings", "books", "fees", "closings", "cancellations", "jobs", "switches",
  "gauges", "audit",
] as const;
export type Place = (typeof places)[number];

export interface Route {
  place: Place;
  /** What of it is shown, such as an order. */
  of: string | undefined;
  query: Record<string, string>;
}

/** The route of a fragment; the orders where it is none. */
export function routeOf(fragment: string): Route {
  const [path = "", search = ""] = fragment.replace(/^#\/?/, "").split("?");
  const [name = "", ...rest] = path.split("/");
  const place = places.find((each) => each === name);
  if (!place) return { place: "orders", of: undefined, query: {} };
  const of = rest.length > 0 ? decoded(rest.join("/")) : undefined;
  return { place, of: of || undefined, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** The fragment of a route. */
export function hrefOf(place: Place, of?: string, query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const search = given.length > 0 ? `?${new URLSearchParams(given)}` : "";
  return `#/${place}${of === undefined ? "" : `/${encodeURIComponent(of)}`}${search}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Where what somebody looks for is: an order, a wallet's orders, those of a transaction, or those of a request. The id
 * of a request is any other word that does not begin like an address.
 */
export function found(text: string): string | undefined {
  const wanted = text.trim();
  if (/^ord_[\w-]+$/.test(wanted)) return hrefOf("orders", wanted);
  if (/^0x[0-9a-f]{40}$/i.test(wanted)) return hrefOf("orders", undefined, { owner: wanted });
  if (/^0x[0-9a-f]{64}$/i.test(wanted)) return hrefOf("orders", undefined, { transaction: wanted });
  if (/^(?!0x)[\w.-]{1,64}$/i.test(wanted)) return hrefOf("orders", undefined, { request: wanted });
  return undefined;
}
