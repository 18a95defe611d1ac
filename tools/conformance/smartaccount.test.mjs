// Smart accounts of Coinbase's kind, as viem has them and as their owners sign, through the official x402 client: a
// card, a top-up, a sign-in and a reveal, for an owner that is a key and for one that is a passkey.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { createPublicClient, createWalletClient, encodeFunctionData, http, parseAbi, toHex } from "viem";
import { toCoinbaseSmartAccount, toWebAuthnAccount } from "viem/account-abstraction";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { base } from "viem/chains";
import { dev, hangsAfter as timeout, transfers } from "./paying.mjs";

const chain = { ...base, rpcUrls: { default: { http: [dev.rpcUrl] } } };
const client = createPublicClient({ chain, transport: http(dev.rpcUrl) });
const rich = createWalletClient({
  chain, transport: http(dev.rpcUrl), account: privateKeyToAccount(dev.wallets[9].privateKey),
});
const erc20 = parseAbi(["function transfer(address to, uint256 value) returns (bool)"]);

const mined = async (hash) => {
  const { status } = await client.waitForTransactionReceipt({ hash, pollingInterval: 100 });
  assert.equal(status, "success");
};

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
  const data = encodeFunctionData({ abi: erc20, functionName: "transfer", args: [account.address, 200_000_000n] });
  await mined(await rich.sendTransaction({ to: dev.usdc, data }));
  return account;
}

const post = (path, body, headers = {}) =>
  fetch(dev.baseUrl + path, {
    method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  });

async function answered(answer) {
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

/** Buys as the official client does, and returns what was bought and how to ask for it again. */
async function buys(account, path, body) {
  const x402 = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
  x402.register("eip155:*", new ExactEvmScheme(account));
  const official = new x402HTTPClient(x402);
  const asked = await post(path, body);
  assert.equal(asked.status, 402, await asked.clone().text());
  const terms = official.getPaymentRequiredResponse((name) => asked.headers.get(name), await asked.json());
  const headers = official.encodePaymentSignatureHeader(await official.createPaymentPayload(terms));
  const repeat = async () => answered(await post(path, body, headers));
  return { bought: await repeat(), repeat };
}

/** A session of the account, by a message that it signs. */
async function session(account) {
  const challenge = await answered(await post("/api/auth/challenge", { address: account.address }));
  const signature = await account.signMessage({ message: challenge.message });
  const { intentId } = challenge;
  const body = { address: account.address, signature, intentId };
  const { accessToken } = await answered(await post("/api/auth/verify", body));
  return { authorization: `Bearer ${accessToken}` };
}

/** The session's card, once it is active. */
async function active(headers) {
  for (;;) {
    const { cards: [card] } = await answered(await fetch(`${dev.baseUrl}/api/cards`, { headers }));
    if (card?.status === "ACTIVE") return card;
    await pause(100);
  }
}

const owners = { "a key": () => privateKeyToAccount(generatePrivateKey()), "a passkey": passkey };
for (const [name, owner] of Object.entries(owners)) {
  test(`a smart account whose owner is ${name} buys a card, tops it up and reveals it`, { timeout }, async () => {
    const account = await accountOf(await owner());
    const { bought, repeat } = await buys(account, "/api/card/purchase", { idempotencyKey: crypto.randomUUID() });
    assert.equal((await repeat()).orderId, bought.orderId);
    assert.equal(await transfers(account.address), 1);
    const headers = await session(account);
    const { id } = await active(headers);
    await buys(account, "/api/card/topup", { idempotencyKey: crypto.randomUUID(), amountUsdCents: 2500 });
    assert.equal(await transfers(account.address), 2);
    const ask = { preferredMessageSchemes: ["eip712"] };
    const { intentId, typedData } = await answered(await post(`/api/cards/${id}/reveal-challenge`, ask, headers));
    const body = { intentId, signature: await account.signTypedData(typedData) };
    const { credentials } = await answered(await post(`/api/cards/${id}/reveal`, body, headers));
    assert.match(credentials.number, /^\d{16}$/);
    assert.equal((await post(`/api/cards/${id}/reveal`, body, headers)).status, 401, "a challenge is used once");
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
  const account = await accountOf(privateKeyToAccount(generatePrivateKey()));
  const thief = await toCoinbaseSmartAccount({
    client, owners: [privateKeyToAccount(generatePrivateKey())], version: "1.1", address: account.address,
  });
  await assert.rejects(buys(thief, "/api/card/purchase", { idempotencyKey: crypto.randomUUID() }), /402/);
  await assert.rejects(session(thief), /signature_invalid/);
  assert.equal(await transfers(account.address), 0);
});
