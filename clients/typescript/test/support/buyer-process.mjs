// A buyer as a process of its own, to be killed: buys a card by the options in its argument.
import { privateKeyToAccount } from "viem/accounts";
import { Roamcard } from "roamcard";
import { FileStore } from "roamcard/node";

const { walletKey, folder, idempotencyKey, ...options } = JSON.parse(process.argv[2]);
const client = new Roamcard({
  ...options, signer: privateKeyToAccount(walletKey), store: new FileStore(folder),
  policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "50" },
});
const { orderId, replayed } = await client.cards.purchase({ idempotencyKey });
console.log(JSON.stringify({ orderId, replayed }));
