// Smart accounts of Coinbase's kind, as viem has them and as their owners sign, through the official x402 client: a
// card, a top-up, a sign-in and a reveal, for an owner that is a key and for one that is a passkey.
import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "viem";
import { toCoinbaseSmartAccount, toWebAuthnAccount } from "viem/account-abstraction";
import { hangsAfter as timeout, transfers } from "./paying.mjs";
import { buys, buysTopsUpAndReveals, client, funded, mined, newKey, rich, session } from "./smartaccounts.mjs";

/** A passkey in software: it signs what a page's navigator.credentials.get would. */
async function passkey() {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", keys.publicKey));
  const getFn = async ({ publicKey: { challenge } }) => {
    const clientDataJSON = new TextEncoder().encode(JSON.stringify({
      type: "webauthn.get", challenge: Buffer.from(challenge).toString("base64url"), origin: "https://keys.example.com",
    }));
    const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const party = await digest(new TextEncoder().encode("keys.example.com"));
    const authenticatorData = new Uint8Array([...party, 5, 0, 0, 0, 0]);
    const signed = new Uint8Array([...authenticatorData, ...(await digest(clientDataJSON))]);
    const rs = new Uint8Array(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, keys.privateKey, signed));
    return { id: "software", response: { authenticatorData, clientDataJSON, signature: der(rs) } };
  };
  const credential = { id: "software", publicKey: toHex(raw.slice(1)) };
  return toWebAuthnAccount({ credential, getFn, rpId: "keys.example.com" });
}

/** r and s in the form in which a browser has them. */
function der(rs) {
  const integer = (bytes) => {
    const short = bytes.slice(bytes.findIndex((b) => b !== 0));
    const body = short[0] > 127 ? [0, ...short] : [...short];
    return [2, body.length, ...body];
  };
  const both = [...integer(rs.slice(0, 32)), ...integer(rs.slice(32))];
  return new Uint8Array([48, both.length, ...both]);
}

/** A smart account that has money, and is deployed unless its first payment has to do that. */
async function accountOf(owner, { deployed = true } = {}) {
  const account = await toCoinbaseSmartAccount({ client, owners: [owner], version: "1.1" });
  const { factory, factoryData } = await account.getFactoryArgs();
  if (deployed) await mined(await rich.sendTransaction({ to: factory, data: factoryData }));
  return funded(account);
}

const owners = { "a key": newKey, "a passkey": passkey };
for (const [name, owner] of Object.entries(owners)) {
  test(`a smart account whose owner is ${name} buys a card, tops it up and reveals it`, { timeout }, async () => {
    await buysTopsUpAndReveals(await accountOf(await owner()));
  });
}

for (const [name, owner] of Object.entries(owners)) {
  test(`a smart account that is not deployed, whose owner is ${name}, pays and is`, { timeout }, async () => {
    const account = await accountOf(await owner(), { deployed: false });
    await session(account);
    const { bought, repeat } = await buys(account, "/api/card/purchase", { idempotencyKey: crypto.randomUUID() });
    assert.equal((await repeat()).orderId, bought.orderId);
    assert.equal(await transfers(account.address), 1);
    assert.notEqual(await client.getCode({ address: account.address }), undefined);
    await session(account);
  });
}

test("who is no owner of a smart account neither pays nor signs in for it", async () => {
  const account = await accountOf(newKey());
  const thief = await toCoinbaseSmartAccount({
    client, owners: [newKey()], version: "1.1", address: account.address,
  });
  await assert.rejects(buys(thief, "/api/card/purchase", { idempotencyKey: crypto.randomUUID() }), /402/);
  await assert.rejects(session(thief), /signature_invalid/);
  assert.equal(await transfers(account.address), 0);
});
