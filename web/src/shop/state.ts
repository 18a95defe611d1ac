// What the shop shows, and what it knows of the person.
import type {
  Buyer, Card, CardBalance, CardDiscovery, Config, EsimDiscovery, EsimOrder, EsimPlan, Order, Secret, EsimCredentials,
} from "roamcard";
import type { Wallet, WalletChain } from "roamcard/browser";
import type { Notice } from "../lib/notice.js";
import { unescaped } from "../lib/text.js";
import type { Step } from "../lib/wallet.js";

export type OrderKind = Order["kind"];

/** Where in the shop a person is: the part after # of the address. */
export interface View {
  at: "card" | "esims" | "orders";
  /** A country's code or `regions` among the eSIMs; an order's id among the orders. */
  of?: string | undefined;
}

/** Something that is bought. */
export interface Item {
  kind: OrderKind;
  cents: number;
  plan?: EsimPlan | undefined;
  /** The order of the eSIM that more data is for. */
  esimOrderId?: string | undefined;
}

/** An eSIM as it came with its payment. */
export interface Delivered {
  credentials: Secret<EsimCredentials> | undefined;
  deliveryToken: EsimOrder["deliveryToken"];
}

/** One purchase, from the look at its terms to its delivery. */
export interface Sale {
  item: Item;
  /** Names the purchase: whatever happens, one key is paid once. */
  key: string;
  /** paid: the service has answered with the order. */
  step: "asking" | "signing" | "sending" | "paid";
  notice?: Notice | undefined;
  /** The client that signed, with whatever account the wallet had then; undefined before. */
  client?: Buyer | undefined;
  order?: Order | undefined;
  delivered?: Delivered | undefined;
}

/** A signed payment without a sheet: of an earlier visit, or of a sheet that was closed. */
export interface Payment {
  key: string;
  kind: OrderKind | undefined;
  step: "sending" | "paid" | "refused";
  notice?: Notice | undefined;
  /** The client that sends it, and may read what it brought by its token. */
  client: Buyer;
  order?: Order | undefined;
  delivered?: Delivered | undefined;
}

export interface State {
  at: "loading" | "ready";
  /** The service does not answer. */
  away?: boolean | undefined;
  view: View;
  config?: Config | undefined;
  chain?: WalletChain | undefined;
  cardTerms?: CardDiscovery | undefined;
  esimTerms?: EsimDiscovery | undefined;
  plans?: EsimPlan[] | undefined;
  /** The wallets are shown to choose from. */
  choosing?: boolean | undefined;
  wallets: Wallet[];
  wallet?: Wallet | undefined;
  account?: string | undefined;
  balance?: bigint | undefined;
  step?: Step | undefined;
  notice?: Notice | undefined;
  /** over: it was in, and has ended. */
  session: "out" | "signing" | "in" | "over";
  cards?: Card[] | undefined;
  balances: Record<string, CardBalance | undefined>;
  orders?: Order[] | undefined;
  kind?: OrderKind | undefined;
  hasMore?: boolean | undefined;
  ownedNotice?: Notice | undefined;
  sale?: Sale | undefined;
  payments: Payment[];
}

/** The view that an address names. */
export function viewOf(hash: string): View {
  const [at, of] = hash.replace(/^#/, "").split("/");
  if (at !== "esims" && at !== "orders") return { at: "card" };
  return { at, of: of === undefined || of === "" ? undefined : unescaped(of) };
}
