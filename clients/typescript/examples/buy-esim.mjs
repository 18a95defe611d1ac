// Buys the cheapest eSIM of a country and shows it: WALLET_KEY=0x… node examples/buy-esim.mjs JP, with `roamcard dev`
// running.
import { Roamcard } from "roamcard";
import { FileStore, pagePresenter } from "roamcard/node";
import { privateKeyToAccount } from "viem/accounts";

const countryCode = process.argv[2] ?? "JP";
const client = new Roamcard({
  baseUrl: process.env.ROAMCARD_URL ?? "http://127.0.0.1:8402",
  signer: privateKeyToAccount(process.env.WALLET_KEY),
  policy: { mode: "autonomous", maxPerPaymentUsd: "10", maxPerDayUsd: "100" },
  store: new FileStore(".roamcard"),
});

const { value: plan } = await client.plans.list({ countryCode, type: "country" }).next();
if (!plan) throw new Error(`no plan is sold for ${countryCode}`);
const { quote, allowed, reason } = await client.quote.esim({ planId: plan.planId });
console.log(`${plan.name} costs ${quote.amountUsd} USDC${allowed ? "" : `, which is not allowed: ${reason}`}.`);

const order = await client.esim.purchase({ planId: plan.planId, idempotencyKey: `example-esim-${countryCode}` });
const { status } = await order.waitUntilFulfilled({ onUpdate: (now) => console.log(`The order is ${now.status}.`) });
const { presented } = await client.esim.install(order, { present: pagePresenter() });
console.log(`Order ${order.orderId} is ${status}; the eSIM was ${presented ? "seen" : "not looked at"}.`);
