// The products that can be bought, and what an order that was made first has in common with them.
import type { DescMethod } from "@bufbuild/protobuf";
import { CardService } from "./gen/roamcard/v1/card_pb.js";
import { EsimService } from "./gen/roamcard/v1/esim_pb.js";
import { unitsOfCents } from "./money.js";
import type { PaidOrder, PurchaseOptions } from "./orders.js";
import type { Attempt, Published } from "./payer.js";
import type { OrderKind } from "./results.js";
import type { Buyer } from "./buyer.js";

/** What a request may name of a product. */
export interface Item {
  amountUsdCents?: number | undefined;
  planId?: string | undefined;
  /** The order of the eSIM that more data is for. */
  orderId?: string | undefined;
}

/** A product: all that differs from one to the next. How it is paid is the same for all, see payer.ts. */
export interface ProductRow {
  /** The kind of its orders. */
  kind: OrderKind;
  /** The documented route that sells it, by which policies and journals name it; with an {orderId} for every order. */
  path: string;
  /** The method that sells it over Connect, gRPC and gRPC-Web. */
  method: DescMethod;
  /**
   * Whether its items are plans: a request that names none is sent as one for the cheapest, which has a price to check.
   */
  hasPlans: boolean;
  /** The price in USDC's smallest unit, from what the service publishes; undefined when only the caps decide. */
  price(published: Published, item: Item): bigint | undefined | Promise<bigint>;
  /** Buys it with a client; called again with the same key, it returns the same order. */
  purchase(client: Buyer, options: PurchaseOptions, item: Item): Promise<PaidOrder>;
}

/** Every product, one row each. To add a product, add its row. */
export const products: readonly ProductRow[] = [
  {
    kind: "card_issue",
    path: "/api/card/purchase",
    method: CardService.method.purchaseCard,
    hasPlans: false,
    price: ({ cardUnits }) => cardUnits,
    purchase: ({ cards }, options) => cards.purchase(options),
  },
  {
    kind: "card_topup",
    path: "/api/card/topup",
    method: CardService.method.topUpCard,
    hasPlans: false,
    price: ({ defaultTopupUnits }, { amountUsdCents }) =>
      amountUsdCents === undefined ? defaultTopupUnits : unitsOfCents(amountUsdCents),
    purchase: ({ cards }, options, { amountUsdCents }) => cards.topUp({ ...options, amountUsdCents }),
  },
  {
    kind: "esim",
    path: "/api/esim/purchase",
    method: EsimService.method.purchaseEsim,
    hasPlans: true,
    price: (published, { planId }) => published.planUnits(planId ?? ""),
    purchase: ({ esim }, options, { planId }) => esim.purchase({ ...options, planId }),
  },
  {
    kind: "esim_topup",
    path: "/api/esim/orders/{orderId}/topup",
    method: EsimService.method.topUpEsim,
    hasPlans: false, // the service knows what an eSIM takes, and tells its owner only
    price: () => undefined,
    purchase: ({ esim }, options, { planId, orderId = "" }) => esim.topUp(orderId, { ...options, planId }),
  },
];

/** The product that a documented route sells; undefined for another route. */
export function productAt(path: string): ProductRow | undefined {
  return products.find((product) => product.path === path || matched(product.path, path) !== undefined);
}

/** The order that a route names in place of {orderId}; undefined when it names none. */
export function matched(pattern: string, path: string): string | undefined {
  const [before, after] = pattern.split("{orderId}");
  if (before === undefined || after === undefined) return undefined;
  if (!path.startsWith(before) || !path.endsWith(after)) return undefined;
  const orderId = path.slice(before.length, path.length - after.length);
  return /^[^/?#]+$/.test(orderId) ? orderId : undefined;
}

/** A purchase as it is named whatever the protocol, and what it has to cost. */
export type Purchase = Pick<Attempt<unknown>, "operation" | "path" | "key" | "price">;

/** The purchase of a product under a key. */
export function purchaseOf(product: ProductRow, key: string, item: Item): Purchase {
  const { path } = product;
  return { operation: path, path, key, price: (published) => product.price(published, item) };
}

/** The route of orders that were made first, as policies name it. */
export const payRoute = "/pay";

/** The payment of an order that was made first. Its id is its key. */
export function paymentOf(orderId: string): Purchase {
  const path = `${payRoute}/${orderId}`;
  return { operation: payRoute, path, key: orderId, price: (published) => published.orderUnits(orderId) };
}
