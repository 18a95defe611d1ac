// What is sold: how a purchase is named, whatever the protocol, and what it has to cost.
import { unitsOfCents } from "./money.js";
import type { Attempt } from "./payer.js";

/** One thing that is bought. */
export type Sold = Pick<Attempt<unknown>, "operation" | "path" | "key" | "price">;

/** The route of orders that were made first, as policies name it. */
export const payRoute = "/pay";

/** The route of eSIMs. */
export const esimRoute = "/api/esim/purchase";

/** A card. */
export function card(key: string): Sold {
  return at("/api/card/purchase", key, (published) => published.cardUnits);
}

/** A top-up of the card. */
export function topUp(key: string, amountUsdCents: number | undefined): Sold {
  return at("/api/card/topup", key, (published) => (amountUsdCents === undefined ? published.defaultTopupUnits : unitsOfCents(amountUsdCents)));
}

/** An eSIM: a plan at its price. One of any plan is named before it is bought. */
export function esim(key: string, planId: string): Sold {
  return at(esimRoute, key, (published) => published.planUnits(planId));
}

/** An order that was made first. It is its own key. */
export function order(orderId: string): Sold {
  return { operation: payRoute, path: `${payRoute}/${orderId}`, key: orderId, price: (published) => published.orderUnits(orderId) };
}

function at(path: string, key: string, price: Sold["price"]): Sold {
  return { operation: path, path, key, price };
}
