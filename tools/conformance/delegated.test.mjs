// Accounts of keys that have delegated by EIP-7702, to the contract of the package that MetaMask publishes, through the
// official x402 client: they sign and own as keys do.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { EIP7702StatelessDeleGator as creation } from "@metamask/delegation-abis/bytecode";
import { concatHex, encodeAbiParameters } from "viem";
import { dev, hangsAfter as timeout, rpc, transfers } from "./paying.mjs";
import { buys, buysTopsUpAndReveals, client, funded, mined, newKey, rich } from "./smartaccounts.mjs";

// Where it is on Base: what payment.delegates names by default. Its delegation manager and entry point are those there.
const delegator = "0x63c0c19a282a1B52b07dD5a65b58948A07DAE32B";
const manager = "0xdb9B1e94B5b69Df7e401DDbedE43491141047dB3";
const entryPoint = "0x0000000071727De22E5E9d8BAf0edAc6f37da032";
let copy;

before(async () => {
  const parameters = encodeAbiParameters([{ type: "address" }, { type: "address" }], [manager, entryPoint]);
  const { contractAddress } = await mined(await rich.sendTransaction({ data: concatHex([creation, parameters]) }));
  copy = contractAddress;
  await rpc("anvil_setCode", [delegator, await client.getCode({ address: copy })]);
});

/** A key's account with money that has delegated. */
async function delegated(to) {
  const account = await funded(newKey());
  await rpc("anvil_setCode", [account.address, concatHex(["0xef0100", to])]);
  return account;
}

const card = () => ["/api/card/purchase", { idempotencyKey: crypto.randomUUID() }];

test("an account that has delegated to MetaMask's contract buys a card, tops it up and reveals it", { timeout },
  async () => buysTopsUpAndReveals(await delegated(delegator)));

test("another key does not pay for it", { timeout }, async () => {
  const { address } = await delegated(delegator);
  const { signTypedData } = newKey();
  await assert.rejects(buys({ address, signTypedData }, ...card()), /payment_rejected|payer_kind_not_accepted/);
  assert.equal(await transfers(address), 0);
});

test("an account that has delegated to the same code elsewhere is refused for its kind", { timeout }, async () => {
  const account = await delegated(copy);
  await assert.rejects(buys(account, ...card()), /payer_kind_not_accepted/);
  assert.equal(await transfers(account.address), 0);
});
