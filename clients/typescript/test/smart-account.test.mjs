// Wallets with code: what viem's sign is the same in every language, and what is no signature is not sent.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { MemoryStore, NotDeployedError, PaymentError, Roamcard } from "roamcard";
import { FakeService } from "roamcard/testing";
import { createPublicClient, custom } from "viem";
import { toCoinbaseSmartAccount } from "viem/account-abstraction";
import { privateKeyToAccount } from "viem/accounts";

const vectors = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/smartaccounts.json"), "utf8"));
const policy = { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" };

/** A chain on which everything is deployed. */
const chain = createPublicClient({
  chain: { id: 8453, name: "Base", nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 }, rpcUrls: {} },
  transport: custom({ request: async ({ method }) => (assert.equal(method, "eth_getCode"), "0x363d") }),
});

const accountOf = ({ ownerKey, account, ownerIndex }) =>
  toCoinbaseSmartAccount({
    client: chain, owners: [privateKeyToAccount(ownerKey)], address: account, ownerIndex, version: "1.1",
  });

test("smart accounts sign as in every language", async () => {
  for (const vector of vectors) {
    const account = await accountOf(vector);
    assert.equal(await account.signTypedData(vector.typedData), vector.typedDataSignature);
    assert.equal(await account.signMessage({ message: vector.message }), vector.messageSignature);
  }
});

test("what is no signature of a key or of an account is not sent", async () => {
  const [{ account: address, typedDataSignature: whole }] = vectors;
  for (const [signature, type] of [
    ["", PaymentError],
    ["0x", PaymentError],
    [`0x${"11".repeat(64)}`, PaymentError],
    [`0x${"11".repeat(66)}`, PaymentError],
    [`0x${"11".repeat(224)}`, PaymentError],
    [whole.slice(0, -2), PaymentError],
    [whole.slice(0, -64), PaymentError],
    [whole + "00".repeat(32), PaymentError],
    [whole + "6492".repeat(16), NotDeployedError],
  ]) {
    const [service, store] = [new FakeService(), new MemoryStore()];
    const signer = { address, signTypedData: async () => signature };
    const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy, store });
    const error = await client.cards.purchase({ idempotencyKey: "k" }).then(assert.fail, (e) => e);
    assert.equal(error.constructor, type, `${signature}: ${error}`);
    assert.deepEqual([error.idempotencyKey, (await store.read()).purchases], [undefined, {}]);
  }
});

test("a service that takes keys only refuses, and nothing more is signed", async () => {
  const [service, account] = [new FakeService(), await accountOf(vectors[0])];
  let signed = 0;
  const signer = { address: account.address, signTypedData: (data) => (signed++, account.signTypedData(data)) };
  const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy });
  const refused = { status: 403, code: "payer_kind_not_accepted" };
  for (let i = 0; i < 2; i++) await assert.rejects(client.cards.purchase({ idempotencyKey: "k" }), refused);
  assert.deepEqual([signed, service.token.transfers], [1, []]);
});
