// What paying and owning take. It is loaded once a wallet is connected, or a payment of an earlier visit is there.
import {
  Buyer, type Config, eip1193Signer, type Entry, type EsimOrder, Journal, type Quote, Secret, type Signer,
} from "roamcard";
import { IndexedDbStore, type Wallet } from "roamcard/browser";
import { WalletError } from "../lib/notice.js";
import type { Delivered, OrderKind, Sale } from "./state.js";

const store = new IndexedDbStore();

/** A paid order, whatever was bought. */
export type Paid = Awaited<ReturnType<Buyer["cards"]["topUp"]>>;

/** What a payment asks the page, and tells it. */
export interface Paying {
  /** Whether a person has seen this price and pressed the button; asked before the wallet is. */
  approve(quote: Quote): boolean;
  signed(): void;
}

/** The client of an account, which pays when it is told how. Its session is in the memory of this page only. */
export async function buyerOf(config: Config, wallet: Wallet, account: string, paying?: Paying): Promise<Buyer> {
  const signer = await eip1193Signer(wallet.provider, account);
  const { signMessage } = signer;
  return buyer(config, {
    address: signer.address,
    signTypedData: (data) => signed(signer.signTypedData(data)),
    ...(signMessage && { signMessage: (text) => signed(signMessage(text)) }),
  }, paying);
}

// signed tells a wallet that fails from a service that does not answer.
function signed(signature: Promise<string>): Promise<string> {
  return signature.catch((cause: unknown) => {
    throw new WalletError("the wallet did not sign", { cause });
  });
}

// buyer is a client on the network and in the asset that the service publishes.
function buyer({ network }: Config, signer: Signer, { approve, signed }: Partial<Paying> = {}): Buyer {
  if (!network) throw new Error("the service publishes no terms");
  const allow = { network: network.network, asset: network.asset, payTo: network.payTo };
  return new Buyer({
    baseUrl: location.origin, signer, store, events: { ...(signed && { onSigned: signed }) },
    policy: { mode: "human_approval", allow, ...(approve && { approve }) },
  });
}

/** Makes the purchase of a sale. */
export function buy(client: Buyer, { item, key: idempotencyKey }: Sale, signal: AbortSignal): Promise<Paid> {
  const planId = item.plan?.planId;
  switch (item.kind) {
    case "card_issue":
      return client.cards.purchase({ idempotencyKey, signal });
    case "card_topup":
      return client.cards.topUp({ amountUsdCents: item.cents, idempotencyKey, signal });
    case "esim":
      return client.esim.purchase({ planId, idempotencyKey, signal });
    case "esim_topup":
      return client.esim.topUp(item.esimOrderId ?? "", { planId, idempotencyKey, signal });
  }
}

/** The eSIM that came with a payment. */
export function deliveredBy(paid: Paid): Delivered | undefined {
  const { credentials, deliveryToken } = paid as Partial<EsimOrder>;
  return credentials instanceof Secret || deliveryToken instanceof Secret ? { credentials, deliveryToken } : undefined;
}

/** The payments that were signed in an earlier visit, and whose answer nobody saw. */
export async function unanswered(): Promise<Entry[]> {
  const entries = await new Journal(store).pending();
  return entries.filter((e) => e.origin === location.origin && e.state === "signed" && e.header !== undefined);
}

/** What is bought at a documented route. */
const kinds: Record<string, OrderKind | undefined> = {
  "/api/card/purchase": "card_issue", "/api/card/topup": "card_topup", "/api/esim/purchase": "esim",
  "/api/esim/orders/{orderId}/topup": "esim_topup",
};

/** What a kept payment buys; undefined for one of an order that was made first. */
export function kindAt({ operation }: Entry): OrderKind | undefined {
  return kinds[operation];
}

/** A client that sends what was signed, and has no wallet to sign anything else. */
export function senderOf(config: Config, { payer }: Entry): Buyer {
  return buyer(config, { address: payer, signTypedData: () => Promise.reject(new Error("no wallet is connected")) });
}
