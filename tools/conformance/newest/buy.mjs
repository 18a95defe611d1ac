// Buys an eSIM from a development server with the official x402 packages for TypeScript, twice under one key. They are
// imported from the folder where they were installed.
//
//   node buy.mjs READYFILE
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "package.json"));
const installed = (name) => import(pathToFileURL(require.resolve(name)).href);
const { wrapFetchWithPayment, x402Client, x402HTTPClient } = await installed("@x402/fetch");
const { ExactEvmScheme } = await installed("@x402/evm/exact/client");
const { privateKeyToAccount } = await installed("viem/accounts");

const { baseUrl, wallets } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const account = privateKeyToAccount(wallets[10].privateKey);
const client = new x402Client().register("eip155:*", new ExactEvmScheme(account));
client.setSpendControls({ maxAmountPerPayment: "$100" });
const pay = wrapFetchWithPayment(fetch, client);
const body = JSON.stringify({ idempotencyKey: `newest-${randomUUID()}` });
const bought = [];
for (const replayed of [undefined, true]) {
  const answer = await pay(`${baseUrl}/api/esim/purchase`, {
    method: "POST", headers: { "content-type": "application/json" }, body,
  });
  const order = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(order));
  assert.equal(order.replayed, replayed);
  const settled = new x402HTTPClient(client).getPaymentSettleResponse((name) => answer.headers.get(name));
  assert.deepEqual([settled.success, settled.transaction], [true, order.payment.transaction]);
  bought.push(order.orderId);
}
assert.equal(bought[0], bought[1]);
console.log(account.address, "bought", bought[0]);
