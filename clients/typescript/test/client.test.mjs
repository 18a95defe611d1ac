// What is ours to keep and no scenario of every client: stores, keys, budgets, wallets.
import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  AmbiguousPaymentError, ClockError, ConflictError, InsufficientFundsError, KeyConflictError, MemoryStore, payingFetch,
  PolicyDeniedError, TermsMismatchError,
} from "roamcard";
import { commandSigner, FileStore, pagePresenter } from "roamcard/node";
import { look } from "roamcard/testing";
import { newKey, poll, post, purchasePath } from "./support/api.mjs";
import { aged } from "./support/aged.mjs";
import { assertSameBytes, autonomous, behindProxy, payments } from "./support/behind.mjs";
import { paying } from "./support/chain.mjs";
import { buyer, bystander, chain, dev, newWallet, scenario } from "./support/shared.mjs";

async function storeFolder(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-store-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

scenario("an outcome that stays unknown is told as such, and a new client with the same store goes on", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const folder = await storeFolder(t);
  const { proxy, signatures, make } = await behindProxy(t, account, { maxReplays: 1 });
  await paying(chain, account, 1, async () => {
    proxy.inject({ on: "paid", cut: 0 }, { on: "paid", cut: 0 });
    const error = await make({ store: new FileStore(folder) })
      .cards.purchase({ idempotencyKey })
      .then(assert.fail, (e) => e);
    assert.ok(error instanceof AmbiguousPaymentError, String(error));
    assert.equal(error.idempotencyKey, idempotencyKey);
    const next = make({ store: new FileStore(folder) });
    assert.deepEqual((await next.pending()).map((p) => p.key), [idempotencyKey]);
    const { replayed } = await next.resume(idempotencyKey);
    assert.equal(replayed, true);
    assert.deepEqual([await next.pending(), await next.resumeAll()], [[], []]);
    // Whoever was killed before they heard of it gets the same again.
    assert.equal((await next.resume(idempotencyKey)).replayed, true);
    await assert.rejects(next.resume(newKey()), /no payment/);
  });
  assertSameBytes(proxy, signatures, 4);
  assert.equal((await stat(join(folder, "journal.json"))).mode & 0o777, 0o600);
});

scenario("a payment that died unsent is signed anew, with the same nonce", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const store = new MemoryStore();
  const { proxy, signatures, make } = await behindProxy(t, account, { store });
  await paying(chain, account, 1, async () => {
    proxy.inject({ on: "unpaid", terms: { maxTimeoutSeconds: 1 } }, { on: "paid", status: 503, forward: false });
    await assert.rejects(make({ maxReplays: 0 }).cards.purchase({ idempotencyKey }), AmbiguousPaymentError);
    await poll(
      "the end of the authorization",
      async () => Date.now() / 1000,
      (now) => now > Number(signatures[0].message.validBefore),
    );
    await aged(store, 60);
    await make().cards.purchase({ idempotencyKey });
  });
  assert.deepEqual(signatures.map((s) => s.message.nonce), Array(2).fill(signatures[0].message.nonce));
  assert.equal(new Set(payments(proxy)).size, 2);
});

scenario("a payee that changes is refused, unless it is the pinned one", async (t) => {
  const store = new MemoryStore();
  await store.update((book) => (book.payees[dev.baseUrl] = "0x000000000000000000000000000000000000dEaD"));
  const { signatures, make } = await behindProxy(t, bystander, { store });
  await assert.rejects(make().cards.purchase(), TermsMismatchError);
  const pinned = make({ policy: { ...autonomous, allow: { payTo: "0x000000000000000000000000000000000000dEaD" } } });
  await assert.rejects(pinned.cards.purchase(), TermsMismatchError);
  assert.deepEqual(signatures, []);
  const { quote, allowed } = await make({ policy: { ...autonomous, allow: { payTo: dev.payTo } } }).quote.card();
  assert.equal(quote.amountUsd, "25.00");
  assert.equal(allowed, true);
});

scenario("the cap of a day holds between clients that share a store", async (t) => {
  const account = buyer();
  const folder = await storeFolder(t);
  const policy = { mode: "autonomous", maxPerPaymentUsd: "30", maxPerDayUsd: "75" };
  const { signatures, make } = await behindProxy(t, account, { policy });
  const client = () => make({ store: new FileStore(folder) });
  const order = await paying(chain, account, 1, () => client().cards.purchase());
  await order.waitUntilActive({ intervalMs: 200 });
  // 50 of 75 are left: of three top-ups at once two fit.
  await paying(chain, account, 2, async () => {
    const results = await Promise.allSettled([1, 2, 3].map(() => client().cards.topUp({ amountUsdCents: 2500 })));
    const failed = results.filter((r) => r.status === "rejected").map((r) => r.reason);
    assert.equal(failed.length, 1, failed.join());
    assert.ok(failed[0] instanceof PolicyDeniedError, String(failed[0]));
  });
  assert.equal(signatures.length, 3);
  await paying(chain, account, 0, () =>
    assert.rejects(client().cards.topUp({ amountUsdCents: 2500 }), PolicyDeniedError),
  );
});

scenario(
  "what the service refuses for good is told by type, and the same payment does once the wallet can pay",
  async (t) => {
    const { account: poor } = await newWallet(0n);
    const store = new MemoryStore();
    const { client } = await behindProxy(t, poor, {
      store,
      policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "25" },
    });
    const idempotencyKey = newKey();
    await assert.rejects(client.cards.purchase({ idempotencyKey }), InsufficientFundsError);
    await chain.mint(poor.address, 1_000_000_000n);
    await paying(chain, poor, 1, () => client.cards.purchase({ idempotencyKey }));
    await assert.rejects(client.cards.topUp({ amountUsdCents: 2500 }), PolicyDeniedError);

  const { make } = await behindProxy(t, poor, { store });
  const error = await make().cards.purchase().then(assert.fail, (e) => e);
  assert.ok(error instanceof ConflictError, String(error));
  assert.equal(error.code, "card_already_exists");
  assert.notEqual(error.requestId, undefined);
});

scenario("a clock that is off is told before anything is signed, with both times", async (t) => {
  const differing = (seconds) => async (input, init) => {
    const response = await fetch(input, init);
    const { status } = response;
    if (status !== 402) return response;
    const headers = [...response.headers].filter(([name]) => !/^(date|content-(encoding|length))$/.test(name));
    const date = new Date(Date.now() + seconds * 1000).toUTCString();
    return new Response(await response.arrayBuffer(), { status, headers: [...headers, ["date", date]] });
  };
  const { make, proxy, signatures } = await behindProxy(t, bystander);
  for (const seconds of [3_600, -90]) {
    const there = new Date(Date.now() + seconds * 1000).toISOString().slice(0, 15);
    const named = (error) => {
      assert.ok(error instanceof ClockError, String(error));
      assert.ok(
        error.message.includes(new Date().toISOString().slice(0, 14)) && error.message.includes(there),
        error.message,
      );
      return true;
    };
    await assert.rejects(make({ fetch: differing(seconds) }).cards.purchase(), named);
    const options = {
      baseUrl: proxy.baseUrl,
      origin: dev.baseUrl,
      signer: bystander,
      policy: autonomous,
      fetch: differing(seconds),
    };
    await assert.rejects(
      post(proxy.baseUrl, purchasePath, { idempotencyKey: newKey() }, {}, payingFetch(options)),
      named,
    );
  }
  assert.deepEqual([signatures, payments(proxy)], [[], []]);
  assert.equal((await make({ fetch: differing(30) }).quote.card()).allowed, true);
});

scenario("a key belongs to one request", async (t) => {
  const account = buyer();
  const { client } = await behindProxy(t, account);
  await (await client.cards.purchase()).waitUntilActive({ intervalMs: 200 });
  const idempotencyKey = newKey();
  await paying(chain, account, 1, async () => {
    await client.cards.topUp({ amountUsdCents: 2500, idempotencyKey });
    await assert.rejects(client.cards.topUp({ amountUsdCents: 2600, idempotencyKey }), KeyConflictError);
  });
});

scenario("a wallet behind a command signs in and pays by typed data", async (t) => {
  const { key: walletKey, account } = await newWallet();
  process.env.TEST_WALLET_KEY = walletKey;
  t.after(() => delete process.env.TEST_WALLET_KEY);
  const signer = commandSigner({
    address: account.address,
    command: process.execPath,
    args: [join(import.meta.dirname, "support/signer.mjs")],
    environment: ["TEST_WALLET_KEY"],
  });
  const { make } = await behindProxy(t, account);
  const client = make({ signer });
  const order = await paying(chain, account, 1, () => client.cards.purchase());
  const card = await order.waitUntilActive({ intervalMs: 200 });
  const { presented } = await client.cards.reveal(card.id, {
    present: pagePresenter({ open: look }),
  });
  assert.equal(presented, true);
});

