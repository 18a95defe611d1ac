// What the tests of smart accounts share: a chain to deploy and fund them on, and buying, signing in and revealing as
// the official client does.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { createPublicClient, createWalletClient, encodeFunctionData, http, parseAbi } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { base } from "viem/chains";
import { dev, transfers } from "./paying.mjs";

const chain = { ...base, rpcUrls: { default: { http: [dev.rpcUrl] } } };
export const client = createPublicClient({ chain, transport: http(dev.rpcUrl) });
export const rich = createWalletClient({
  chain, transport: http(dev.rpcUrl), account: privateKeyToAccount(dev.wallets[9].privateKey),
});
const erc20 = parseAbi(["function transfer(address to, uint256 value) returns (bool)"]);

/** Waits for a transaction, which must succeed, and returns its receipt. */
export const mined = async (hash) => {
  const receipt = await client.waitForTransactionReceipt({ hash, pollingInterval: 100 });
  assert.equal(receipt.status, "success");
  return receipt;
};

/** Gives an account what some purchases cost. */
export async function funded(account) {
  const data = encodeFunctionData({ abi: erc20, functionName: "transfer", args: [account.address, 200_000_000n] });
  await mined(await rich.sendTransaction({ to: dev.usdc, data }));
  return account;
}

export const post = (path, body, headers = {}) =>
  fetch(dev.baseUrl + path, {
    method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  });

export async function answered(answer) {
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return JSON.parse(text);
}

/** Buys as the official client does, and returns what was bought and how to ask for it again. */
export async function buys(account, path, body) {
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
export async function session(account) {
  const challenge = await answered(await post("/api/auth/challenge", { address: account.address }));
  const signature = await account.signMessage({ message: challenge.message });
  const { intentId } = challenge;
  const body = { address: account.address, signature, intentId };
  const { accessToken } = await answered(await post("/api/auth/verify", body));
  return { authorization: `Bearer ${accessToken}` };
}

/** The session's card, once it is active. */
export async function active(headers) {
  for (;;) {
    const { cards: [card] } = await answered(await fetch(`${dev.baseUrl}/api/cards`, { headers }));
    if (card?.status === "ACTIVE") return card;
    await pause(100);
  }
}

/** A card bought, topped up and revealed by an account that signs as viem's do. */
export async function buysTopsUpAndReveals(account) {
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
}

/** A key that nobody has. */
export const newKey = () => privateKeyToAccount(generatePrivateKey());
