// A buyer as a process of its own, to be killed: buys a card or tops it up by the options in its argument.
import { privateKeyToAccount } from "viem/accounts";
import { Roamcard } from "roamcard";
import { FileStore } from "roamcard/node";

const { walletKey, folder, act, input, ...options } = JSON.parse(process.argv[2]);
const client = new Roamcard({
  ...options, signer: privateKeyToAccount(walletKey), store: new FileStore(folder),
  policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "50" },
});
const { order, replayed } = await client[act](input);
console.log(JSON.stringify({ orderId: order.orderId, replayed }));
