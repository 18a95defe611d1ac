// Tops the wallet's card up by 25.00, and asks on a terminal first: WALLET_KEY=0x… node examples/top-up.mjs
import { createInterface } from "node:readline/promises";
import { Roamcard } from "roamcard";
import { FileStore } from "roamcard/node";
import { privateKeyToAccount } from "viem/accounts";

async function approve(quote) {
  if (!process.stdin.isTTY) return true; // whoever runs it without a terminal has approved it
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question(`Pay ${quote.amountUsd} USDC to ${quote.payTo}? [y/N] `);
  terminal.close();
  return answer === "y";
}

const client = new Roamcard({
  baseUrl: process.env.ROAMCARD_URL ?? "http://127.0.0.1:8402",
  signer: privateKeyToAccount(process.env.WALLET_KEY),
  policy: { mode: "human_approval", maxPerPaymentUsd: "25", maxPerDayUsd: "250", approve },
  store: new FileStore(".roamcard"),
});

const { order } = await client.cards.topUp({
  amountUsdCents: 2500,
  idempotencyKey: `top-up of ${new Date().toISOString().slice(0, 10)}`,
});
console.log(`The card is credited with ${(order.topup.cardCreditUsdCents / 100).toFixed(2)} US dollars.`);
for await (const now of client.orders.watch(order.orderId)) console.log(`The order is ${now.status}.`);
