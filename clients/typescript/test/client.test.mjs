// The client against the real service, through a proxy that loses, delays and falsifies answers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import {
  AmbiguousPaymentError, ApprovalDeniedError, ConflictError, InsufficientFundsError, KeyConflictError, MemoryStore, PolicyDeniedError, TermsMismatchError,
} from "roamcard";
import { commandSigner, FileStore, pagePresenter } from "roamcard/node";
import { newKey, poll } from "./support/api.mjs";
import { assertSameBytes, autonomous, behindProxy, payments } from "./support/behind.mjs";
import { paying } from "./support/chain.mjs";
import { buyer, bystander, chain, dev, scenario } from "./support/shared.mjs";

async function storeFolder(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-store-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

scenario("a card is bought, becomes active, is topped up, and is shown to a person only", async (t) => {
  const account = buyer();
  const { client } = await behindProxy(t, account);
  const statuses = [];
  const bought = await paying(chain, account, 1, () => client.buyCard());
  assert.equal(bought.receipt.transaction, bought.order.payment.transaction);
  assert.equal(bought.replayed, false);
  const card = await client.waitUntilActive(bought.order, { onUpdate: (o) => statuses.push(o.status), intervalMs: 200 });
  assert.equal(card.status, "ACTIVE");
  assert.ok(statuses.length > 0);
  assert.equal((await client.order(bought.order.orderId)).status, "fulfilled");
  await poll("a balance of 15.00", async () => (await client.balance(card.id)).availableUsdCents, (cents) => cents === 1500);

  const topped = await paying(chain, account, 1, () => client.topUp({ amountUsdCents: 2500 }));
  assert.equal(topped.order.topup.cardCreditUsdCents, 2450);
  for await (const order of client.watchOrder(topped.order.orderId, { intervalMs: 200 })) statuses.push(order.status);
  assert.equal(statuses.at(-1), "fulfilled");
  const orders = [];
  for await (const order of client.orders()) orders.push(order.orderId);
  assert.deepEqual(orders, [topped.order.orderId, bought.order.orderId]);

  const seen = {};
  const look = async (url) => {
    const wrong = await fetch(url, { headers: { "sec-fetch-site": "cross-site" } });
    seen.foreign = wrong.status;
    const page = await fetch(url);
    Object.assign(seen, { html: await page.text(), cache: page.headers.get("cache-control"), again: (await fetch(url)).status });
  };
  const result = await client.reveal(card.id, { presenter: pagePresenter({ open: look }) });
  assert.deepEqual(result, { presented: true });
  assert.equal(seen.foreign, 404);
  assert.equal(seen.cache, "no-store");
  assert.equal(seen.again, 410);
  const number = /<dd>([\d ]+)<\/dd>/.exec(seen.html)[1].replaceAll(" ", "");
  assert.equal(number.slice(-4), card.last4);
});

const faults = {
  "a reply dropped before its first byte": [{ on: "paid", cut: 0 }],
  "a reply dropped in its headers": [{ on: "paid", cut: 100 }],
  "a reply dropped in its body": [{ on: "paid", cut: -5 }],
  "a connection lost while the payment is taken": [{ on: "paid", cut: "request" }],
  "503 after the payment was taken": [{ on: "paid", status: 503 }],
  "503 before the payment came through": [{ on: "paid", status: 503, forward: false }],
  "one fault after the other": [{ on: "unpaid", cut: 0 }, { on: "paid", cut: 0 }, { on: "paid", status: 503 }, { on: "paid", cut: 40 }],
};
for (const [name, list] of Object.entries(faults)) {
  scenario(`${name} costs one payment, signed once and sent again byte for byte`, async (t) => {
    const account = buyer();
    const { proxy, signatures, client } = await behindProxy(t, account);
    proxy.inject(...list);
    const { order } = await paying(chain, account, 1, () => client.buyCard());
    assertSameBytes(proxy, signatures, list.filter((f) => f.on === "paid").length + 1);
    assert.equal(order.payment.payer, account.address);
  });
}

scenario("a reply that takes longer than the client waits is asked for again", async (t) => {
  const account = buyer();
  const { proxy, signatures, client } = await behindProxy(t, account, { timeoutMs: 2_000 });
  proxy.inject({ on: "paid", delayMs: 60_000 });
  await paying(chain, account, 1, () => client.buyCard());
  assertSameBytes(proxy, signatures, 2);
});

scenario("an outcome that stays unknown is told as such, and a new client with the same store goes on", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const folder = await storeFolder(t);
  const { proxy, signatures, make } = await behindProxy(t, account, { maxReplays: 1 });
  await paying(chain, account, 1, async () => {
    proxy.inject({ on: "paid", cut: 0 }, { on: "paid", cut: 0 });
    const error = await make({ store: new FileStore(folder) }).buyCard({ idempotencyKey }).then(assert.fail, (e) => e);
    assert.ok(error instanceof AmbiguousPaymentError, String(error));
    assert.equal(error.idempotencyKey, idempotencyKey);
    const next = make({ store: new FileStore(folder) });
    assert.deepEqual((await next.pending()).map((p) => p.key), [idempotencyKey]);
    const { replayed } = await next.buyCard({ idempotencyKey });
    assert.equal(replayed, true);
    assert.deepEqual(await next.pending(), []);
  });
  assertSameBytes(proxy, signatures, 3);
  assert.equal((await stat(join(folder, "journal.json"))).mode & 0o777, 0o600);
});

scenario("a client killed after its payment went out resumes from its journal", async (t) => {
  const walletKey = generatePrivateKey();
  const wallet = privateKeyToAccount(walletKey);
  await chain.mint(wallet.address, 1_000_000_000n);
  const folder = await storeFolder(t);
  const { proxy } = await behindProxy(t, wallet);
  const options = { baseUrl: proxy.baseUrl, origin: dev.baseUrl, walletKey, folder, act: "buyCard", input: { idempotencyKey: newKey() } };
  await paying(chain, wallet, 1, async () => {
    proxy.inject({ on: "paid", delayMs: 60_000 });
    const first = start(options);
    await poll("the payment", () => payments(proxy), (sent) => sent.length === 1);
    first.kill("SIGKILL");
    await once(first, "exit");
    const second = start(options);
    const text = (await second.stdout.setEncoding("utf8").toArray()).join("");
    assert.equal(JSON.parse(text).replayed, true);
  });
  assert.equal(new Set(payments(proxy)).size, 1, "the different payments sent");
});

const start = (options) =>
  spawn(process.execPath, [join(import.meta.dirname, "support/buyer-process.mjs"), JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });

scenario("a lost journal cannot pay twice: the nonce is the same", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const { signatures, make } = await behindProxy(t, account);
  await paying(chain, account, 1, async () => {
    const first = await make().buyCard({ idempotencyKey });
    const again = await make({ store: new MemoryStore() }).buyCard({ idempotencyKey });
    assert.equal(again.order.orderId, first.order.orderId);
    assert.equal(again.replayed, true);
  });
  assert.equal(signatures.length, 2);
  assert.equal(signatures[0].message.nonce, signatures[1].message.nonce);
});

scenario("a payment that died unsent is signed anew, with the same nonce", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const { proxy, signatures, client } = await behindProxy(t, account, { maxReplays: 0 });
  await paying(chain, account, 1, async () => {
    proxy.inject({ on: "unpaid", terms: { maxTimeoutSeconds: 1 } }, { on: "paid", status: 503, forward: false });
    await assert.rejects(client.buyCard({ idempotencyKey }), AmbiguousPaymentError);
    const dead = Number(signatures[0].message.validBefore);
    await poll("the end of the authorization", async () => Date.now() / 1000, (now) => now > dead + 1);
    await client.buyCard({ idempotencyKey });
  });
  assert.deepEqual(signatures.map((s) => s.message.nonce), Array(2).fill(signatures[0].message.nonce));
  assert.equal(new Set(payments(proxy)).size, 2);
});

scenario("parallel calls with one key sign once; clients that share a store send the same bytes", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const folder = await storeFolder(t);
  const { proxy, signatures, client } = await behindProxy(t, account);
  await paying(chain, account, 1, async () => {
    const results = await Promise.all(Array.from({ length: 8 }, () => client.buyCard({ idempotencyKey })));
    assert.equal(new Set(results.map((r) => r.order.orderId)).size, 1);
  });
  assertSameBytes(proxy, signatures, 1);

  const other = buyer();
  const shared = await behindProxy(t, other);
  await paying(chain, other, 1, async () => {
    const clients = Array.from({ length: 4 }, () => shared.make({ store: new FileStore(folder) }));
    await Promise.all(clients.map((c) => c.buyCard({ idempotencyKey })));
  });
  assert.equal(new Set(payments(shared.proxy)).size, 1, "the different payments sent");
});

scenario("wrong terms are refused before anything is signed", async (t) => {
  const { proxy, signatures, client } = await behindProxy(t, bystander);
  const stranger = "0x000000000000000000000000000000000000dEaD";
  const changes = [
    { payTo: stranger }, { amount: "25000001" }, { amount: "1" }, { asset: stranger }, { network: "eip155:1" }, { scheme: "upto" },
    { resource: "https://elsewhere.example/api/card/purchase" }, { extra: { name: "USDC", version: "2" } }, { maxTimeoutSeconds: 1_000_000 },
  ];
  await paying(chain, bystander, 0, async () => {
    for (const terms of changes) {
      proxy.inject({ on: "unpaid", terms });
      await assert.rejects(client.buyCard(), TermsMismatchError, JSON.stringify(terms));
    }
  });
  assert.deepEqual(signatures, []);
  assert.deepEqual(payments(proxy), []);
});

scenario("a payee that changes is refused, unless it is the pinned one", async (t) => {
  const store = new MemoryStore();
  await store.update((book) => (book.payees[dev.baseUrl] = "0x000000000000000000000000000000000000dEaD"));
  const { signatures, make } = await behindProxy(t, bystander, { store });
  await assert.rejects(make().buyCard(), TermsMismatchError);
  const pinned = make({ policy: { ...autonomous, allow: { payTo: "0x000000000000000000000000000000000000dEaD" } } });
  await assert.rejects(pinned.buyCard(), TermsMismatchError);
  assert.deepEqual(signatures, []);
  const { quote, allowed } = await make({ policy: { ...autonomous, allow: { payTo: dev.payTo } } }).quoteCard();
  assert.equal(quote.amountUsd, "25.00");
  assert.equal(allowed, true);
});

scenario("the policy decides before anything is signed", async (t) => {
  const { proxy, signatures, make } = await behindProxy(t, bystander);
  const asked = [];
  const no = (quote) => (asked.push(quote.amountUsd), false);
  const denied = [
    [{ mode: "autonomous" }, PolicyDeniedError],
    [{ mode: "autonomous", maxPerPaymentUsd: "100" }, PolicyDeniedError],
    [{ mode: "autonomous", maxPerPaymentUsd: "24.999999", maxPerDayUsd: "100" }, PolicyDeniedError],
    [{ mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "24.99" }, PolicyDeniedError],
    [{ ...autonomous, allow: { operations: ["/api/card/topup"] } }, PolicyDeniedError],
    [{ mode: "human_approval" }, PolicyDeniedError],
    [{ mode: "policy_gated" }, PolicyDeniedError],
    [{ mode: "policy_gated", approveAboveUsd: "24.99", approve: no }, ApprovalDeniedError],
    [{ mode: "human_approval", approve: no }, ApprovalDeniedError],
  ];
  await paying(chain, bystander, 0, async () => {
    for (const [policy, type] of denied) {
      await assert.rejects(make({ policy, store: new MemoryStore() }).buyCard(), type, JSON.stringify(policy));
    }
  });
  assert.deepEqual(asked, ["25.00", "25.00"]);
  assert.deepEqual(signatures, []);
  assert.deepEqual(payments(proxy), []);
  assert.throws(() => make({ policy: { mode: "autonomous", maxPerPaymentUsd: 24.99 } }), TypeError);
});

scenario("the cap of a day holds between clients that share a store, and a refusal gives it back", async (t) => {
  const account = buyer();
  const folder = await storeFolder(t);
  const policy = { mode: "autonomous", maxPerPaymentUsd: "30", maxPerDayUsd: "75" };
  const { signatures, make } = await behindProxy(t, account, { policy });
  const client = () => make({ store: new FileStore(folder) });
  const { order } = await paying(chain, account, 1, () => client().buyCard());
  await client().waitUntilActive(order, { intervalMs: 200 });
  // 50 of 75 are left: of three top-ups at once two fit.
  await paying(chain, account, 2, async () => {
    const results = await Promise.allSettled([1, 2, 3].map(() => client().topUp({ amountUsdCents: 2500 })));
    const failed = results.filter((r) => r.status === "rejected").map((r) => r.reason);
    assert.equal(failed.length, 1, failed.join());
    assert.ok(failed[0] instanceof PolicyDeniedError, String(failed[0]));
  });
  assert.equal(signatures.length, 3);
  await paying(chain, account, 0, () => assert.rejects(client().topUp({ amountUsdCents: 2500 }), PolicyDeniedError));
});

scenario("what the service refuses for good is told by type, and frees its budget", async (t) => {
  const poor = privateKeyToAccount(generatePrivateKey());
  const store = new MemoryStore();
  const { client } = await behindProxy(t, poor, { store, policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "25" } });
  const idempotencyKey = newKey();
  await assert.rejects(client.buyCard({ idempotencyKey }), InsufficientFundsError);
  await chain.mint(poor.address, 1_000_000_000n);
  await paying(chain, poor, 1, () => client.buyCard({ idempotencyKey }));
  await assert.rejects(client.topUp({ amountUsdCents: 2500 }), PolicyDeniedError);

  const { make } = await behindProxy(t, poor, { store });
  const error = await make().buyCard().then(assert.fail, (e) => e);
  assert.ok(error instanceof ConflictError, String(error));
  assert.equal(error.code, "card_already_exists");
  assert.notEqual(error.requestId, undefined);
});

scenario("a key belongs to one request", async (t) => {
  const account = buyer();
  const { client } = await behindProxy(t, account);
  const { order } = await client.buyCard();
  await client.waitUntilActive(order, { intervalMs: 200 });
  const idempotencyKey = newKey();
  await paying(chain, account, 1, async () => {
    await client.topUp({ amountUsdCents: 2500, idempotencyKey });
    await assert.rejects(client.topUp({ amountUsdCents: 2600, idempotencyKey }), KeyConflictError);
  });
});

scenario("a wallet behind a command signs in and pays by typed data", async (t) => {
  const walletKey = generatePrivateKey();
  const account = privateKeyToAccount(walletKey);
  await chain.mint(account.address, 1_000_000_000n);
  process.env.TEST_WALLET_KEY = walletKey;
  t.after(() => delete process.env.TEST_WALLET_KEY);
  const signer = commandSigner({ address: account.address, command: process.execPath, args: [join(import.meta.dirname, "support/signer.mjs")] });
  const { make } = await behindProxy(t, account);
  const client = make({ signer });
  const { order } = await paying(chain, account, 1, () => client.buyCard());
  const card = await client.waitUntilActive(order, { intervalMs: 200 });
  const { presented } = await client.reveal(card.id, { presenter: pagePresenter({ open: (url) => fetch(url).then((r) => r.text()) }) });
  assert.equal(presented, true);
});

scenario("sign-in happens once for calls at the same time, and again after a logout", async (t) => {
  const { proxy, client } = await behindProxy(t, bystander);
  await Promise.all([client.cards(), client.cards(), client.cards()]);
  const signIns = () => proxy.requests.filter((r) => r.path.endsWith("/VerifyChallenge")).length;
  assert.equal(signIns(), 1);
  const { authorization } = proxy.requests.find((r) => r.path.endsWith("/ListCards"));
  const revoked = await fetch(`${dev.baseUrl}/api/auth/logout`, { method: "POST", headers: { authorization } });
  assert.equal(revoked.status, 200);
  assert.deepEqual(await Promise.all([client.cards(), client.cards()]), [[], []]);
  assert.equal(signIns(), 2);
});
