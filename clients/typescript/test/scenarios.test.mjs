// What every client proves, in its own language, against a running service: the names are those of
// clients/testing/scenarios.json. ROAMCARD_SCENARIOS names a file that gets a line for each one that passed, with its
// transfers of USDC as the chain has them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { inspect } from "node:util";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { parseErc6492Signature } from "viem/utils";
import {
  AmbiguousPaymentError,
  ApprovalDeniedError,
  ConflictError,
  InsufficientFundsError,
  MemoryStore,
  NotDeployedError,
  NotFoundError,
  payingFetch,
  PolicyDeniedError,
  TermsMismatchError,
} from "roamcard";
import { FileStore } from "roamcard/node";
import { hangsAfter, json, newKey, poll, post } from "./support/api.mjs";
import { all, assertSameBytes, autonomous, behindProxy, looking, payments } from "./support/behind.mjs";
import { bystander, buyer, chain, dev, explained, newWallet } from "./support/shared.mjs";

const list = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/scenarios.json"), "utf8"));
const shown = new Set();

/** One scenario of the list. It names the wallets that paid, and how often they should have. */
function prove(name, run) {
  shown.add(name);
  it(name, { timeout: 2 * hangsAfter }, (t) => explained(name, async () => {
    assert.ok(name in list, `${name} is no scenario of the list`);
    const { payers, transfers } = await run(t);
    const paid = await Promise.all(payers.map((p) => chain.transfers(p.address)));
    assert.deepEqual(paid.map((logs) => logs.length), transfers, "the transfers of each payer");
    const line = { client: "typescript", scenario: name, transfers: paid.flat().length };
    if (process.env.ROAMCARD_SCENARIOS) await appendFile(process.env.ROAMCARD_SCENARIOS, `${JSON.stringify(line)}\n`);
  }));
}

async function storeFolder(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-store-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const fast = { intervalMs: 200 };

describe("scenarios", { concurrency: 4 }, () => {
  // It waits half a minute, so it begins first.
  prove("esim-late", async (t) => {
    const account = buyer();
    const { client, proxy, signatures } = await behindProxy(t, account);
    const order = await client.esim.purchase({ idempotencyKey: newKey("~005") });
    assert.deepEqual([order.credentials, order.order.delivery.status], [undefined, "pending"]);
    assert.equal((await order.waitUntilFulfilled(fast)).delivery.status, "fulfilled");
    const { seen, presenter } = looking();
    assert.deepEqual(await client.esim.install(order, { present: presenter }), { presented: true });
    assert.match(seen.html, /LPA:1\$[^"]+"/);
    assertSameBytes(proxy, signatures);
    return { payers: [account], transfers: [1] };
  });

  prove("purchase", async (t) => {
    const [connect, rest] = [buyer(), buyer()];
    const { client } = await behindProxy(t, connect);
    const statuses = [];
    const order = await client.cards.purchase();
    assert.equal(order.receipt.transaction, order.order.payment.transaction);
    assert.equal(order.replayed, false);
    assert.equal(
      (await order.waitUntilActive({ ...fast, onUpdate: (now) => statuses.push(now.status) })).status,
      "ACTIVE",
    );
    assert.ok(statuses.length > 0);

    const pay = payingFetch({ baseUrl: dev.baseUrl, signer: rest, policy: autonomous });
    const { orderId } = await json(
      await post(dev.baseUrl, "/api/card/purchase", { idempotencyKey: newKey() }, {}, pay),
    );
    const other = (await behindProxy(t, rest)).client;
    assert.equal((await other.cards.waitUntilActive(orderId, fast)).status, "ACTIVE");
    assert.deepEqual((await all(other.orders.list())).map((o) => o.orderId), [orderId]);
    return { payers: [connect, rest], transfers: [1, 1] };
  });

  prove("top-up", async (t) => {
    const account = buyer();
    const { client } = await behindProxy(t, account);
    const card = await (await client.cards.purchase()).waitUntilActive(fast);
    const topUp = await client.cards.topUp({ amountUsdCents: 2500 });
    assert.equal(topUp.order.topup.cardCreditUsdCents, 2450);
    assert.equal((await topUp.waitUntilFulfilled(fast)).topup.status, "credited");
    await poll(
      "what is left of both",
      async () => (await client.cards.balance(card.id)).availableUsdCents,
      (cents) => cents === 1500 + 2450,
    );
    return { payers: [account], transfers: [2] };
  });

  prove("esim-topup", async (t) => {
    const account = buyer();
    const { client } = await behindProxy(t, account);
    const { orderId } = await client.esim.purchase();
    const had = BigInt((await client.esim.profile(orderId)).usage.totalBytes);
    const [plan] = await all(client.esim.topUps(orderId));
    const { quote } = await client.quote.esimTopUp(orderId, { planId: plan.planId });
    assert.deepEqual([quote.operation, quote.amount], ["/api/esim/orders/{orderId}/topup", plan.amount]);
    const idempotencyKey = newKey();
    const more = await client.esim.topUp(orderId, { planId: plan.planId, idempotencyKey });
    const { kind, esimTopup } = more.order;
    assert.deepEqual([kind, esimTopup.status, esimTopup.orderId], ["esim_topup", "fulfilled", orderId]);
    const again = await client.esim.topUp(orderId, { planId: plan.planId, idempotencyKey });
    assert.equal(again.orderId, more.orderId);
    assert.equal(BigInt((await client.esim.profile(orderId)).usage.totalBytes), had + (BigInt(plan.dataMb) << 20n));
    const stranger = await behindProxy(t, bystander);
    await assert.rejects(stranger.client.esim.topUp(orderId, { planId: plan.planId }), NotFoundError);
    return { payers: [account], transfers: [2] };
  });

  prove("esim", async (t) => {
    const account = buyer();
    const { client } = await behindProxy(t, account);
    const [plan] = await all(client.plans.list({ countryCode: "JP", type: "country" }));
    const order = await client.esim.purchase({ planId: plan.planId });
    assert.equal(order.order.delivery.planId, plan.planId);
    assert.match(order.credentials.reveal().lpa, /^LPA:1\$/);
    assert.deepEqual((await chain.transfers(account.address)).map((log) => log.args.value), [BigInt(plan.amount)]);
    return { payers: [account], transfers: [1] };
  });

  prove("pay-order", async (t) => {
    const account = buyer();
    const store = new MemoryStore();
    const { client, make, proxy, signatures } = await behindProxy(t, account, { store });
    const opened = await client.orders.createCard({ idempotencyKey: newKey() });
    assert.equal(opened.status, "payment_required");
    const stranger = await behindProxy(t, bystander);
    await assert.rejects(stranger.client.orders.pay(opened.orderId), NotFoundError);
    const paid = await client.orders.pay(opened);
    assert.equal(paid.order.payment.payer, account.address);
    const again = await make().orders.pay(opened.payableUrl);
    assert.deepEqual([again.orderId, again.replayed, again.receipt], [paid.orderId, true, paid.receipt]);
    assertSameBytes(proxy, signatures, 2);
    assert.deepEqual(stranger.signatures, []);
    await paid.waitUntilFulfilled(fast);
    return { payers: [account], transfers: [1] };
  });

  prove("smart-account", async (t) => {
    const owner = privateKeyToAccount(generatePrivateKey());
    const account = await chain.smartAccount(owner);
    const { client, make, signatures } = await behindProxy(t, account, { store: new MemoryStore() });
    const idempotencyKey = newKey();
    const order = await client.cards.purchase({ idempotencyKey });
    assert.deepEqual([order.order.payment.payer, order.replayed], [account.address, false]);
    const again = await client.cards.purchase({ idempotencyKey });
    assert.deepEqual([again.orderId, again.replayed, signatures.length], [order.orderId, true, 1]);
    // Viem's account as it is, without its journal: it signs once more, and the nonce is the same.
    const lost = make({ signer: account, store: new MemoryStore() });
    assert.deepEqual((await lost.cards.purchase({ idempotencyKey })).orderId, order.orderId);
    assert.equal((await lost.auth.signIn()).wallet, account.address);
    // A wallet that signs typed data only, as some services' are.
    const { address } = account;
    const typed = make({ signer: { address, signTypedData: (data) => account.signTypedData(data) } });
    assert.equal((await typed.auth.signIn()).wallet, address);
    const card = await order.waitUntilActive(fast);
    for (const one of [client, typed]) {
      const { seen, presenter } = looking();
      assert.deepEqual(await one.cards.reveal(card.id, { present: presenter }), { presented: true });
      assert.match(seen.html, /<dd>[\d ]+<\/dd>/);
    }

    const other = await chain.undeployedAccount(privateKeyToAccount(generatePrivateKey()));
    const created = await behindProxy(t, other, { store: new MemoryStore(), rpcUrl: dev.rpcUrl });
    // What viem signs says how the account is made; without that, the node says that there is none.
    const inner = (signature) => parseErc6492Signature(signature).signature;
    const plain = { address: other.address, signTypedData: async (data) => inner(await other.signTypedData(data)) };
    const bare = created.make({ signer: plain, store: new MemoryStore() });
    await assert.rejects(bare.cards.purchase({ idempotencyKey }), NotDeployedError);
    assert.deepEqual(payments(created.proxy), []);
    assert.equal((await created.client.auth.signIn()).wallet, other.address);
    const first = await created.client.cards.purchase({ idempotencyKey });
    assert.deepEqual([first.order.payment.payer, first.replayed], [other.address, false]);
    const repeated = await created.client.cards.purchase({ idempotencyKey });
    assert.deepEqual([repeated.orderId, repeated.replayed], [first.orderId, true]);
    assertSameBytes(created.proxy, created.signatures, 2);
    // The account has code now: viem signs without the call that makes it, and signs in.
    const anew = created.make({ signer: other, store: new MemoryStore() });
    assert.equal((await anew.cards.purchase({ idempotencyKey })).orderId, first.orderId);
    assert.equal((await anew.auth.signIn()).wallet, other.address);
    await first.waitUntilActive(fast);
    await anew.cards.topUp({ amountUsdCents: 2500 });
    return { payers: [account, other], transfers: [1, 2] };
  });

  prove("reply-dropped", async (t) => {
    const payers = [];
    for (const cut of [0, 100, -5, "request"]) {
      payers.push(buyer());
      const { proxy, signatures, client } = await behindProxy(t, payers.at(-1));
      proxy.inject({ on: "unpaid", cut: 0 }, { on: "paid", cut });
      await client.cards.purchase();
      assertSameBytes(proxy, signatures, 2);
    }
    return { payers, transfers: [1, 1, 1, 1] };
  });

  prove("reply-late", async (t) => {
    const account = buyer();
    const { proxy, signatures, client } = await behindProxy(t, account, { timeoutMs: 5_000 });
    proxy.inject({ on: "paid", delayMs: 3_600_000 });
    await client.cards.purchase();
    // On a busy machine more answers than this one may be late.
    assertSameBytes(proxy, signatures);
    assert.ok(payments(proxy).length >= 2);
    return { payers: [account], transfers: [1] };
  });

  prove("unavailable", async (t) => {
    const payers = [];
    for (const faults of [
      [{ status: 503, forward: false }],
      [{ status: 503 }],
      [{ cut: 0 }, { status: 503 }, { status: 503, forward: false }],
    ]) {
      payers.push(buyer());
      const { proxy, signatures, client } = await behindProxy(t, payers.at(-1));
      proxy.inject(...faults.map((fault) => ({ on: "paid", ...fault })));
      await client.cards.purchase();
      assertSameBytes(proxy, signatures, faults.length + 1);
    }
    return { payers, transfers: [1, 1, 1] };
  });

  prove("killed", async (t) => {
    const { key: walletKey, account } = await newWallet();
    const { proxy } = await behindProxy(t, account);
    const options = {
      baseUrl: proxy.baseUrl,
      origin: dev.baseUrl,
      walletKey,
      folder: await storeFolder(t),
      idempotencyKey: newKey(),
    };
    const start = () =>
      spawn(process.execPath, [join(import.meta.dirname, "support/buyer-process.mjs"), JSON.stringify(options)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
    proxy.inject({ on: "paid", delayMs: 60_000 });
    const first = start();
    // What was only sent may get there after what the second process sends.
    await poll("the payment", () => chain.transfers(account.address), (arrived) => arrived.length === 1);
    first.kill("SIGKILL");
    await once(first, "exit");
    const second = start();
    const text = (await second.stdout.setEncoding("utf8").toArray()).join("");
    assert.equal(JSON.parse(text).replayed, true);
    assert.equal(new Set(payments(proxy)).size, 1, "the different payments sent");
    return { payers: [account], transfers: [1] };
  });

  prove("journal-lost", async (t) => {
    const account = buyer();
    const idempotencyKey = newKey();
    const { signatures, make } = await behindProxy(t, account);
    const first = await make({ store: new MemoryStore() }).cards.purchase({ idempotencyKey });
    const again = await make({ store: new MemoryStore() }).cards.purchase({ idempotencyKey });
    assert.deepEqual([again.orderId, again.replayed], [first.orderId, true]);
    assert.equal(signatures.length, 2);
    assert.equal(signatures[0].message.nonce, signatures[1].message.nonce);
    return { payers: [account], transfers: [1] };
  });

  prove("parallel", async (t) => {
    const [one, two] = [buyer(), buyer()];
    const idempotencyKey = newKey();
    const { proxy, signatures, client } = await behindProxy(t, one);
    const orders = await Promise.all(Array.from({ length: 8 }, () => client.cards.purchase({ idempotencyKey })));
    assert.equal(new Set(orders.map((o) => o.orderId)).size, 1);
    assertSameBytes(proxy, signatures, 1);

    const folder = await storeFolder(t);
    const shared = await behindProxy(t, two);
    const clients = Array.from({ length: 2 }, () => shared.make({ store: new FileStore(folder) }));
    await Promise.all(clients.map((c) => c.cards.purchase({ idempotencyKey })));
    assertSameBytes(shared.proxy, shared.signatures, 2);
    return { payers: [one, two], transfers: [1, 1] };
  });

  prove("caps", async (t) => {
    const account = buyer();
    const folder = await storeFolder(t);
    const { proxy, signatures, make } = await behindProxy(t, account);
    const mode = "autonomous";
    const denied = [
      { mode },
      { mode, maxPerPaymentUsd: "100" },
      { mode, maxPerPaymentUsd: "24.999999", maxPerDayUsd: "100" },
      { mode, maxPerPaymentUsd: "25", maxPerDayUsd: "24.99" },
      { ...autonomous, allow: { operations: ["/api/card/topup"] } },
    ];
    for (const policy of denied) {
      const client = make({ policy, store: new MemoryStore() });
      await assert.rejects(client.cards.purchase(), PolicyDeniedError, JSON.stringify(policy));
      assert.equal((await client.quote.card()).allowed, false, JSON.stringify(policy));
    }
    assert.deepEqual([signatures, payments(proxy)], [[], []]);

    // Two keys race for a day that has room for one. The other is denied unsigned; the one is kept from the service.
    const racing = () =>
      make({
        store: new FileStore(folder),
        policy: { mode, maxPerPaymentUsd: "25", maxPerDayUsd: "49.99" },
        maxReplays: 0,
      });
    proxy.inject({ on: "paid", status: 503, forward: false });
    const results = await Promise.allSettled([racing(), racing()].map((client) => client.cards.purchase()));
    assert.deepEqual(
      results.map((r) => r.reason?.constructor).sort((a) => (a === PolicyDeniedError ? 1 : -1)),
      [AmbiguousPaymentError, PolicyDeniedError],
    );
    assert.deepEqual([signatures.length, payments(proxy).length], [1, 1]);
    return { payers: [account], transfers: [0] };
  });

  prove("wrong-terms", async (t) => {
    const account = buyer();
    const { proxy, signatures, client, make } = await behindProxy(t, account);
    const stranger = "0x000000000000000000000000000000000000dEaD";
    const changes = [
      { payTo: stranger },
      { amount: "25000001" },
      { amount: "1" },
      { asset: stranger },
      { network: "eip155:1" },
      { scheme: "upto" },
      { resource: "https://elsewhere.example/api/card/purchase" },
      { extra: { name: "USDC", version: "2" } },
      { maxTimeoutSeconds: 1_000_000 },
    ];
    for (const terms of changes) {
      proxy.inject({ on: "unpaid", terms });
      await assert.rejects(client.cards.purchase(), TermsMismatchError, JSON.stringify(terms));
    }
    const [plan] = await all(client.plans.list());
    proxy.inject({ on: "unpaid", terms: { amount: String(BigInt(plan.amount) + 10_000n) } });
    await assert.rejects(client.esim.purchase({ planId: plan.planId }), TermsMismatchError);
    await assert.rejects(
      make({ policy: { ...autonomous, allow: { payTo: stranger } } }).cards.purchase(),
      TermsMismatchError,
    );
    await assert.rejects(client.orders.pay("https://elsewhere.example/pay/ord_1"), TermsMismatchError);
    assert.deepEqual([signatures, payments(proxy)], [[], []]);
    return { payers: [account], transfers: [0] };
  });

  prove("approval", async (t) => {
    const account = buyer();
    const { proxy, signatures, make } = await behindProxy(t, account);
    const asked = [];
    const approve = (quote) => (asked.push(quote.amountUsd), false);
    const denied = [
      [{ mode: "human_approval" }, PolicyDeniedError],
      [{ mode: "policy_gated" }, PolicyDeniedError],
      [undefined, PolicyDeniedError],
      [{ mode: "policy_gated", approveAboveUsd: "24.99", approve }, ApprovalDeniedError],
      [{ mode: "human_approval", approve }, ApprovalDeniedError],
    ];
    for (const [policy, type] of denied)
      await assert.rejects(make({ policy, store: new MemoryStore() }).cards.purchase(), type, JSON.stringify(policy));
    assert.deepEqual(asked, ["25.00", "25.00"]);
    assert.deepEqual([signatures, payments(proxy)], [[], []]);
    return { payers: [account], transfers: [0] };
  });

  prove("poor", async (t) => {
    const poor = privateKeyToAccount(generatePrivateKey());
    const { client } = await behindProxy(t, poor);
    const error = await client.cards.purchase().then(assert.fail, (e) => e);
    assert.ok(error instanceof InsufficientFundsError, String(error));
    assert.notEqual(error.requestId, undefined);
    return { payers: [poor], transfers: [0] };
  });

  prove("reveal", async (t) => {
    const account = buyer();
    const store = new MemoryStore();
    const lines = [];
    const note = (...line) => void lines.push(inspect(line, { depth: 9 }));
    const { client } = await behindProxy(t, account, { store, logger: { debug: note, info: note, warn: note } });
    const card = await (await client.cards.purchase()).waitUntilActive(fast);
    const number = await (async () => {
      const { seen, presenter } = looking();
      assert.deepEqual(await client.cards.reveal(card.id, { present: presenter }), { presented: true });
      const { html, opened } = seen;
      assert.match(opened, /^file:/);
      return /<dd>([\d ]+)<\/dd>/.exec(html)[1];
    })();
    assert.equal(number.replaceAll(" ", "").slice(-4), card.last4);

    const order = await client.esim.purchase();
    // By what came with the order, by its token, and by the wallet's session.
    for (const [which, options] of [
      [order, {}],
      [order.orderId, { deliveryToken: order.deliveryToken }],
      [order.orderId, {}],
    ]) {
      const { seen, presenter } = looking();
      assert.deepEqual(await client.esim.install(which, { present: presenter, ...options }), { presented: true });
      const { html, opened } = seen;
      assert.match(
        html,
        /LPA:1\$[^"]+"[^]*<img src="data:image\/png;base64,|<img src="data:image\/png;base64,[^]*LPA:1\$[^"]+"/,
      );
      assert.match(opened, /^file:/);
    }

    const { lpa, iccid } = order.credentials.reveal();
    const { deliveryToken, credentials } = order;
    const written = [
      inspect(order, { depth: 9 }),
      String(deliveryToken),
      `${credentials}`,
      JSON.stringify([deliveryToken, credentials]),
      JSON.stringify(await store.read()),
      lines,
    ].join();
    assert.ok(lines.length > 0);
    assert.match(written, /\[redacted\]/);
    const signed = Object.values((await store.read()).purchases).map((e) => e.header);
    for (const secret of [lpa, iccid, deliveryToken.reveal(), number, number.replaceAll(" ", "")])
      assert.ok(!written.includes(secret), "a secret was written down");
    for (const header of signed) assert.ok(!lines.join().includes(header), "a payment was logged");
    return { payers: [account], transfers: [2] };
  });

  prove("watch", async (t) => {
    const stream = "/roamcard.v1.OrderService/WatchOrder";
    const read = "/roamcard.v1.OrderService/GetOrder";
    const noStreams = Array(10).fill({ on: stream, status: 501, forward: false });
    const ways = [
      [], [{ on: stream, cutMessage: 1 }], [{ on: stream, cutMessage: 2 }],
      [2, 1, 2, 1].map((cutMessage) => ({ on: stream, cutMessage })), noStreams,
      // Asking fails too, for a while.
      [
        ...noStreams,
        { on: read, status: 503, forward: false },
        { on: read, cut: "request" },
        { on: read, status: 429, forward: false },
        { on: read, cut: 0 },
      ],
    ];
    const payers = await Promise.all(
      ways.map(async (faults) => {
        const account = buyer();
        const { proxy, client } = await behindProxy(t, account);
        const { orderId } = await client.cards.purchase();
        proxy.inject(...faults);
        const before = proxy.requests.length;
        const seen = (await all(client.orders.watch(orderId, { intervalMs: 100 }))).map(
          (now) => `${now.status} ${now.issuance.status}`,
        );
        const lifecycle = ["settling", "settled", "provisioning", "fulfilled"];
        const steps = seen.map((state) => lifecycle.indexOf(state.split(" ")[0]));
        assert.deepEqual(
          steps,
          [...steps].sort((a, b) => a - b),
          `seen ${seen}`,
        );
        assert.equal(new Set(seen).size, seen.length, `seen ${seen}`);
        assert.equal(seen.at(-1), "fulfilled active");
        const asked = (path) => proxy.requests.slice(before).filter((r) => r.path === path).length;
        if (faults.length === 0) assert.deepEqual([asked(stream), asked(read)], [1, 0]);
        if (faults.includes(noStreams[0]))
          assert.ok(
            asked(stream) <= 2 && asked(read) >= faults.length - noStreams.length,
            "streams that do not get through are given up",
          );
        return account;
      }),
    );
    return { payers, transfers: payers.map(() => 1) };
  });

  prove("controls", async (t) => {
    const account = buyer();
    const { client } = await behindProxy(t, account);
    const card = await (await client.cards.purchase()).waitUntilActive(fast);
    assert.deepEqual(await all(client.cards.transactions(card.id)), []);
    const conflict = (code) => (error) => error instanceof ConflictError && error.code === code;
    // Until the fee of the issue is withdrawn it is not frozen.
    const limits = { perTransactionUsdCents: 1000, perMonthUsdCents: 9000, blockedCategories: ["7995"] };
    const set = { cardId: card.id, currency: "USD", allowedCategories: [], ...limits };
    assert.deepEqual(await client.cards.setLimits(card.id, limits), set);
    assert.deepEqual(await client.cards.limits(card.id), set);
    const { cardId, billingAddress, threeDSecure } = await client.cards.details(card.id);
    assert.deepEqual([cardId, billingAddress.postalCode, threeDSecure], [card.id, "19901", { method: "automatic" }]);
    const frozen = await poll(
      "a frozen card",
      () => client.cards.freeze(card.id).catch((e) => assert.ok(conflict("card_not_active")(e), String(e))),
      (answer) => answer !== undefined,
    );
    assert.deepEqual(frozen, { ...card, status: "FROZEN" });
    await assert.rejects(client.cards.topUp({ amountUsdCents: 2500 }), conflict("active_card_missing"));

    const books = await json(await fetch(`${dev.sandboxUrl}/control/books`));
    const { id } = books.cards.find((c) => c.status === "locked" && c.number.endsWith(card.last4));
    const charge = async (amountCents) =>
      json(await post(dev.sandboxUrl, `/control/cards/${id}/purchases`, { amountCents, merchant: "Corner shop" }));
    await charge(700);
    assert.equal((await client.cards.unfreeze(card.id)).status, "ACTIVE");
    await charge(300);
    const { items, nextPageToken } = await client.cards.transactions(card.id, { pageSize: 1 }).page();
    assert.deepEqual([items.length, typeof nextPageToken], [1, "string"]);
    const told = await all(client.cards.transactions(card.id, { pageSize: 1 }));
    assert.deepEqual(JSON.parse(JSON.stringify(told)), told);
    assert.deepEqual(
      told.map((t) => [t.kind, t.status, t.amountUsdCents, t.merchant.name, t.declineReason]),
      [
        ["purchase", "completed", 300, "Corner shop", undefined],
        ["purchase", "declined", 700, "Corner shop", "card_frozen"],
      ],
    );
    return { payers: [account], transfers: [1] };
  });

  prove("sign-in", async (t) => {
    const account = buyer();
    const { proxy, client } = await behindProxy(t, account);
    await Promise.all([client.cards.list(), client.cards.list(), client.auth.signIn()]);
    const signIns = () => proxy.requests.filter((r) => r.path.endsWith("/VerifyChallenge")).length;
    assert.equal(signIns(), 1);
    const { authorization } = proxy.requests.find((r) => r.path.endsWith("/ListCards"));
    await json(await fetch(`${dev.baseUrl}/api/auth/logout`, { method: "POST", headers: { authorization } }));
    assert.deepEqual(await Promise.all([client.cards.list(), client.cards.list()]), [[], []]);
    assert.equal(signIns(), 2);
    await client.auth.signOut();
    assert.equal((await client.auth.signIn()).wallet, account.address);
    assert.equal(signIns(), 3);
    return { payers: [account], transfers: [0] };
  });
});

after(() =>
  assert.deepEqual(
    Object.keys(list).filter((name) => !shown.has(name)),
    [],
    "scenarios of the list that are not here",
  ),
);
