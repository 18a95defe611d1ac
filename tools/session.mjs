// Signs a wallet of a development server in and prints its bearer token:
//   node tools/session.mjs READY-FILE owner     one that has a card, which is bought when it has none
//   node tools/session.mjs READY-FILE analyst   the one that may see activity
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { get, newKey, poll, purchase, signIn } from "../clients/typescript/test/support/api.mjs";

const require = createRequire(new URL("../clients/typescript/package.json", import.meta.url));
const { privateKeyToAccount } = require("viem/accounts");

const [file, who] = process.argv.slice(2);
const ready = JSON.parse(readFileSync(file, "utf8"));
const account = privateKeyToAccount((who === "analyst" ? ready.operatorWallet : ready.wallets[0]).privateKey);
const session = await signIn(ready.baseUrl, account, "eip191");
if (who === "owner" && (await get(ready.baseUrl, "/api/cards", session)).cards.length === 0) {
  const paid = await purchase(ready.baseUrl, account, newKey());
  assert.equal(paid.status, 200, await paid.text());
  await poll("the card", () => get(ready.baseUrl, "/api/cards", session), (a) => a.cards[0]?.status === "ACTIVE");
}
console.log(session.authorization.replace("Bearer ", ""));
