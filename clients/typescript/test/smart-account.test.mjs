// Wallets with code: what viem's sign is the same in every language, and what is no signature is not sent.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { MemoryStore, NotDeployedError, PaymentError, Roamcard, safeSigner } from "roamcard";
import { FakeService } from "roamcard/testing";
import { createPublicClient, custom } from "viem";
import { toCoinbaseSmartAccount } from "viem/account-abstraction";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const vectors = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/smartaccounts.json"), "utf8"));
const safes = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/safes.json"), "utf8"));
const policy = { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" };

/** What the vectors name besides accounts that are deployed: one that is not, whose owner is a key. */
const undeployed = vectors.find(({ owners }) => owners?.length === 1);

/** A chain on which every account has this code. */
const chain = (code) =>
  createPublicClient({
    chain: { id: 8453, name: "Base", nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 }, rpcUrls: {} },
    transport: custom({ request: async ({ method }) => (assert.equal(method, "eth_getCode"), code) }),
  });

// A key signs, and others are named as they are: 64 bytes are a passkey's.
const ownerOf = (key) => (owner) =>
  owner === key.address ? key : owner.length === 130 ? { type: "webAuthn", publicKey: owner } : owner;

function accountOf({ ownerKey, account: address, ownerIndex, owners, nonce }) {
  const key = privateKeyToAccount(ownerKey);
  const named = owners?.map(ownerOf(key)) ?? [key];
  const made = { nonce: BigInt(nonce ?? 0), client: chain(owners ? "0x" : "0x363d") };
  return toCoinbaseSmartAccount({ ...made, owners: named, address, ownerIndex, version: "1.1" });
}

test("smart accounts sign as in every language", async () => {
  for (const vector of vectors) {
    const account = await accountOf(vector);
    // Viem keeps the letters of addresses as they are.
    const [typed, text] = await Promise.all([
      account.signTypedData(vector.typedData), account.signMessage({ message: vector.message }),
    ]);
    assert.equal(typed.toLowerCase(), vector.typedDataSignature);
    assert.equal(text.toLowerCase(), vector.messageSignature);
  }
});

test("Safes sign as in every language", async () => {
  for (const { ownerKeys, account, typedData, message, typedDataSignature, messageSignature } of safes) {
    const owners = ownerKeys.map(privateKeyToAccount);
    for (const given of [owners, owners.toReversed()]) {
      const safe = await safeSigner(account, ...given);
      assert.equal(safe.address, account);
      assert.equal(await safe.signTypedData(typedData), typedDataSignature);
      assert.equal(await safe.signMessage({ message }), messageSignature);
    }
  }
});

test("a Safe names its owners, and they sign", async () => {
  const [{ account, ownerKeys, typedData }] = safes;
  const owner = privateKeyToAccount(ownerKeys[0]);
  const other = (i) => ({ ...owner, address: `0x${i.toString(16).padStart(40, "0")}` });
  for (const [address, ...owners] of [
    ["0x12", owner], [account], [account, owner, owner], [owner.address, owner],
    [account, ...Array.from({ length: 32 }, (_, i) => other(i + 1))],
  ]) await assert.rejects(safeSigner(address, ...owners), TypeError);
  const mute = { address: owner.address, signTypedData: async () => "0x12" };
  await assert.rejects((await safeSigner(account, mute)).signTypedData(typedData), /no signature/);
});

test("what is no signature of a key or of an account is not sent", async () => {
  const [{ account: address, typedDataSignature: whole }] = vectors;
  const [created, mark] = [undeployed.typedDataSignature, "6492".repeat(16)];
  const hex = (n) => n.toString(16).padStart(64, "0");
  // The words of the factory, of where call and signature begin, and of the call's length.
  const words = [0, 1, 2, 3].map((i) => created.slice(2 + 64 * i, 66 + 64 * i));
  const changed = (i, to) => `0x${words.with(i, to).join("")}${created.slice(258)}`;
  for (const signature of [
    "",
    "0x",
    `0x${"11".repeat(64)}`,
    `0x${"11".repeat(66)}`,
    `0x${"11".repeat(224)}`,
    whole.slice(0, -2),
    whole.slice(0, -64),
    whole + "00".repeat(32),
    whole + mark,
    `0x${mark}`,
    `0x${"00".repeat(65)}${mark}`,
    created.slice(0, -64),
    created.slice(0, -66) + mark,
    created.slice(0, -64) + hex(0) + mark,
    `0x01${created.slice(4)}`,
    changed(1, hex(128)),
    changed(2, hex(96)),
    changed(3, "f".repeat(64)),
    created.replace(hex(65), hex(2)),
    // Longer than the service takes any.
    `0x${[32, 0, 64, 2048].map(hex).join("")}${"11".repeat(2048)}`,
  ]) {
    const [service, store] = [new FakeService(), new MemoryStore()];
    const signer = { address, signTypedData: async () => signature };
    const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy, store });
    const error = await client.cards.purchase({ idempotencyKey: "k" }).then(assert.fail, (e) => e);
    assert.equal(error.constructor, PaymentError, `${signature}: ${error}`);
    assert.deepEqual([error.idempotencyKey, (await store.read()).purchases], [undefined, {}]);
  }
});

// The fake takes keys only: its refusal says that the signature was sent.
test("a service that takes keys only refuses, and nothing more is signed", async () => {
  for (const vector of [vectors[0], undeployed]) {
    const [service, account] = [new FakeService(), await accountOf(vector)];
    let signed = 0;
    const signer = { address: account.address, signTypedData: (data) => (signed++, account.signTypedData(data)) };
    const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy });
    const refused = (error) => {
      const { status, code, retryable, retryAt } = error;
      assert.deepEqual([status, code, retryable, retryAt], [403, "payer_kind_not_accepted", false, undefined]);
      return true;
    };
    for (let i = 0; i < 2; i++) await assert.rejects(client.cards.purchase({ idempotencyKey: "k" }), refused);
    assert.deepEqual([signed, service.token.transfers], [1, []]);
  }
});

test("an account without code is sent with the call that makes it, and not without", async () => {
  const rpcUrl = "http://node.test/";
  const safe = await safeSigner(`0x${"5a".repeat(20)}`, privateKeyToAccount(generatePrivateKey()));
  for (const [account, refusal] of [
    [await accountOf(vectors[0]), { constructor: NotDeployedError }],
    [await accountOf(vectors.at(-1)), { status: 403, code: "payer_kind_not_accepted" }],
    [safe, { constructor: NotDeployedError }],
  ]) {
    const service = new FakeService();
    const fetch = async (input, init) => {
      if (new Request(input, init).url !== rpcUrl) return service.fetch(input, init);
      return Response.json({ jsonrpc: "2.0", id: 1, result: "0x" });
    };
    const client = new Roamcard({ baseUrl: service.url, fetch, signer: account, policy, rpcUrl });
    const error = await client.cards.purchase({ idempotencyKey: "k" }).then(assert.fail, (e) => e);
    const told = Object.fromEntries(Object.keys(refusal).map((name) => [name, error[name]]));
    assert.deepEqual(told, refusal, String(error));
  }
});
