// Buys a card and shows it: WALLET_KEY=0x… node examples/buy-card.mjs, with `roamcard dev` running.
import { AmbiguousPaymentError, Roamcard } from "roamcard";
import { FileStore, pagePresenter } from "roamcard/node";
import { privateKeyToAccount } from "viem/accounts";

const client = new Roamcard({
  baseUrl: process.env.ROAMCARD_URL ?? "http://127.0.0.1:8402",
  signer: privateKeyToAccount(process.env.WALLET_KEY),
  policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "25" },
  store: new FileStore(".roamcard"),
  events: {
    onQuote: (quote) => console.log(`It costs ${quote.amountUsd} USDC, paid to ${quote.payTo}.`),
    onReplay: ({ replay }) => console.log(`No clear answer; sending the same payment again (${replay}).`),
  },
});

try {
  const order = await client.cards.purchase({ idempotencyKey: "example-card" });
  console.log(
    `Order ${order.orderId} ${order.replayed ? "was paid before" : "is paid"} by ${order.receipt.transaction}.`,
  );
  const card = await order.waitUntilActive({ onUpdate: (now) => console.log(`The order is ${now.status}.`) });
  console.log(`Card ${card.id} ending in ${card.last4} is ACTIVE.`);
  const { presented } = await client.cards.reveal(card.id, { present: pagePresenter() });
  console.log(presented ? "You have seen it." : "Nobody looked.");
} catch (error) {
  if (!(error instanceof AmbiguousPaymentError)) throw error;
  console.log("It is not known yet whether the payment was taken. Run this again: it pays at most once.");
}
