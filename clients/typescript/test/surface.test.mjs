// The rest of the client's words: documents, prices, raw answers, events, logs, giving up, orders made first,
// operators.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { privateKeyToAccount } from "viem/accounts";
import {
  AmbiguousPaymentError,
  ConflictError,
  MemoryStore,
  nonceOf,
  payingFetch,
  Roamcard,
  RoamcardError,
  Storefront,
  UnauthorizedError,
  UnavailableError,
} from "roamcard";
import { json, newKey, poll } from "./support/api.mjs";
import { all, assertSameBytes, autonomous, behindProxy, payments } from "./support/behind.mjs";
import { paying } from "./support/chain.mjs";
import { buyer, bystander, chain, dev, scenario } from "./support/shared.mjs";

const fast = { intervalMs: 200 };

scenario("the public documents are read without a wallet", async () => {
  const client = new Roamcard({ baseUrl: dev.baseUrl });
  const { config, card, topup, esim, agent } = client.discovery;
  assert.equal((await config.call(client.discovery)).network.payTo, dev.payTo);
  for (const read of [card, topup, esim, agent]) assert.equal((await read.call(client.discovery)).contractVersion, 1);
  const status = await client.discovery.status();
  assert.deepEqual(status.products.map(({ product }) => product), ["card_issue", "card_topup", "esim", "esim_topup"]);
  assert.ok(Date.parse(status.asOf) >= Date.parse(status.products[0].since));
  assert.ok((await all(client.plans.list({ countryCode: "JP" }))).length > 0);
  assert.throws(() => client.address, RoamcardError);
  await assert.rejects(client.cards.list(), { message: "the client has no signer" });
  await assert.rejects(client.cards.purchase(), { message: "the client has no signer" });
});

scenario("a price comes with its terms and what the policy says, and nothing is signed", async (t) => {
  const { client, make, proxy, signatures } = await behindProxy(t, bystander);
  const { quote, terms, allowed, asks } = await client.quote.card();
  assert.deepEqual([quote.amountUsd, quote.payTo, allowed, asks], ["25.00", dev.payTo, true, false]);
  assert.equal(terms.accepts[0].amount, quote.amount);
  const [plan] = await all(client.plans.list());
  assert.equal((await client.quote.esim({ planId: plan.planId })).quote.amount, plan.amount);
  assert.equal((await client.quote.esim()).quote.operation, "/api/esim/purchase");
  // Of a top-up the price is known; that the wallet has no card is found out by who pays.
  assert.equal((await client.quote.topup({ amountUsdCents: 3000 })).quote.amountUsd, "30.00");
  const verdicts = [
    [{ mode: "autonomous", maxPerPaymentUsd: "24", maxPerDayUsd: "100" }, /more than the 24.00 allowed/],
    [{ mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "24" }, /24.00 are allowed/],
    [{ mode: "human_approval" }, /needs an approve function/],
  ];
  for (const [policy, reason] of verdicts) {
    const verdict = await make({ policy }).quote.card();
    assert.equal(verdict.allowed, false);
    assert.match(verdict.reason, reason);
  }
  assert.deepEqual([signatures, payments(proxy)], [[], []]);
});

scenario("a call gives its raw answer, and results, errors and logs name the request", async (t) => {
  const account = buyer();
  const logged = [];
  const log = (level) => (message, fields) => logged.push({ level, message, ...fields });
  const { client, proxy } = await behindProxy(t, account, {
    logger: { debug: log("debug"), info: log("info"), warn: log("warn") },
  });
  proxy.inject({ on: "paid", cut: 0 });
  const { data, response } = await client.cards.purchase().withRawResponse();
  assert.equal(response.requestId, response.headers.get("x-request-id"));
  assert.match(response.requestId, /^\S{8,64}$/);
  assert.equal(data.requestId, response.requestId);
  assert.equal(JSON.parse(atob(response.headers.get("payment-response"))).transaction, data.receipt.transaction);
  const { data: cards, response: listed } = await client.cards.list().withRawResponse();
  assert.ok(Array.isArray(cards) && listed.requestId !== response.requestId);

  const error = await client.cards.purchase().then(assert.fail, (e) => e);
  assert.ok(error instanceof ConflictError, String(error));
  const [failed] = logged.filter((l) => l.requestId === error.requestId);
  assert.deepEqual([failed.message, failed.method], ["request failed", "roamcard.v1.CardService/PurchaseCard"]);
  for (const message of [
    "payment quoted",
    "payment signed",
    "payment sent again",
    "payment settled",
    "request answered",
  ]) {
    assert.ok(
      logged.some((l) => l.message === message),
      message,
    );
  }
  assert.ok(!JSON.stringify(logged).includes(payments(proxy)[0]), "a payment was logged");

  const failing = (level) => (message) => {
    if (level === "warn") return Promise.reject(new Error(message));
    throw new Error(message);
  };
  const { client: deaf } = await behindProxy(t, buyer(), {
    logger: { debug: failing("debug"), info: failing("info"), warn: failing("warn") },
    events: { onSettled: failing("info") },
  });
  assert.ok((await deaf.cards.purchase()).orderId, "a logger that fails cost a purchase");

  const unknown = await behindProxy(t, bystander, { maxReplays: 0 });
  unknown.proxy.inject({ on: "paid", status: 503, forward: false });
  const ambiguous = await unknown.client.cards.purchase().then(assert.fail, (e) => e);
  assert.ok(ambiguous instanceof AmbiguousPaymentError);
  assert.equal(ambiguous.requestId, "fault-proxy");
  const nobody = new Roamcard({ baseUrl: dev.baseUrl, fetch: () => Promise.reject(new TypeError("fetch failed")) });
  await assert.rejects(nobody.discovery.config(), UnavailableError);
  await assert.rejects(nobody.discovery.agent(), UnavailableError);
});

scenario("events are told in order, and a handler that fails keeps no payment from being made", async (t) => {
  const account = buyer();
  const told = [];
  const tell = (name) => (event) => {
    told.push([name, event.idempotencyKey]);
    if (told.length % 2 === 0) return Promise.reject(new Error("a handler in error"));
    throw new Error("a handler in error");
  };
  const events = Object.fromEntries(
    ["onQuote", "onApproval", "onSigned", "onReplay", "onSettled"].map((name) => [name, tell(name)]),
  );
  const { client, proxy } = await behindProxy(t, account, {
    events,
    policy: { mode: "human_approval", approve: () => true },
  });
  proxy.inject({ on: "paid", cut: 0 });
  const idempotencyKey = newKey();
  await paying(chain, account, 1, () => client.cards.purchase({ idempotencyKey }));
  assert.deepEqual(told, Object.keys(events).map((name) => [name, idempotencyKey]));
});

scenario(
  "a store that fails, and an approval that cannot be asked for, are told as such, and nothing is signed",
  async (t) => {
    const { make, proxy, signatures } = await behindProxy(t, bystander);
    const broken = {
      read: () => Promise.reject(new Error("the disk is full")),
      update: () => Promise.reject(new Error("the disk is full")),
    };
    await assert.rejects(make({ store: broken }).cards.purchase(), { name: "JournalError", reason: "failed" });
    const approve = () => Promise.reject(new Error("nobody is at home"));
    await assert.rejects(make({ policy: { mode: "human_approval", approve } }).cards.purchase(), {
      name: "PaymentError",
      message: /nobody could be asked/,
    });
    assert.deepEqual([signatures, payments(proxy)], [[], []]);
  },
);

scenario("an answer is not lost because it cannot be written down", async (t) => {
  const account = buyer();
  const store = new MemoryStore();
  let writes = 0;
  const failing = {
    read: () => store.read(),
    update: (change) =>
      signatures.length > 0 && writes++ > 0 ? Promise.reject(new Error("the disk is full")) : store.update(change),
  };
  const { client, make, proxy, signatures } = await behindProxy(t, account, { store: failing });
  const first = await client.cards.purchase({ idempotencyKey: "kept" });
  assert.equal(first.replayed, false);
  const again = await make({ store }).cards.purchase({ idempotencyKey: "kept" });
  assert.deepEqual([again.orderId, again.replayed], [first.orderId, true]);
  assertSameBytes(proxy, signatures, 2);
});

scenario("who gives up before signing has signed nothing, and who gives up after sending can go on", async (t) => {
  const account = buyer();
  const policy = { mode: "human_approval", maxPerDayUsd: "25" };
  const store = new MemoryStore();
  const { make, proxy, signatures } = await behindProxy(t, account, { store });
  const idempotencyKey = newKey();
  const early = new AbortController();
  const undecided = {
    ...policy,
    approve: () => (early.abort(new Error("changed my mind")), new Promise(() => undefined)),
  };
  await assert.rejects(make({ policy: undecided }).cards.purchase({ idempotencyKey, signal: early.signal }), {
    message: "changed my mind",
  });
  await assert.rejects(make().cards.list({ signal: early.signal }), { message: "changed my mind" });
  assert.deepEqual([signatures, payments(proxy)], [[], []]);

  const late = new AbortController();
  const client = make({ policy: { ...policy, approve: () => true } });
  proxy.inject({ on: "paid", delayMs: 60_000 });
  const sent = client.cards.purchase({ idempotencyKey, signal: late.signal });
  const gaveUp = assert.rejects(sent, AmbiguousPaymentError);
  await poll("the payment", () => payments(proxy), (gone) => gone.length === 1);
  late.abort();
  await gaveUp;
  const { orderId } = await client.cards.purchase({ idempotencyKey });
  assertSameBytes(proxy, signatures, 2);
  const bored = new AbortController();
  const following = all(client.orders.watch(orderId, { signal: bored.signal }));
  bored.abort(new Error("seen enough"));
  await assert.rejects(following, { message: "seen enough" });
  assert.equal((await chain.transfers(account.address)).length, 1);
});

scenario("of two clients that share a store one asks the person, while the other waits", async (t) => {
  const account = buyer();
  let asked = 0;
  const approve = async () => (asked++, await new Promise((done) => setTimeout(done, 500)), true);
  const { make, proxy, signatures } = await behindProxy(t, account, {
    store: new MemoryStore(),
    policy: { mode: "human_approval", approve },
  });
  const idempotencyKey = newKey();
  await paying(chain, account, 1, () => Promise.all([1, 2].map(() => make().cards.purchase({ idempotencyKey }))));
  assert.equal(asked, 1);
  assertSameBytes(proxy, signatures, 2);
});

scenario("orders made first are paid through the client and over REST, each once", async (t) => {
  const account = buyer();
  const { client, make, proxy, signatures } = await behindProxy(t, account);
  await (await client.cards.purchase()).waitUntilActive(fast);
  const topUp = await client.orders.createTopUp({ amountUsdCents: 2600, idempotencyKey: newKey() });
  assert.equal((await client.orders.pay(topUp.payableUrl)).order.topup.grossUsdCents, 2600);
  const [plan] = await all(client.plans.list());
  const esim = await client.orders.createEsim({ planId: plan.planId });
  await (await client.orders.pay(esim)).waitUntilFulfilled(fast);
  assert.equal(
    signatures[1].message.nonce,
    await nonceOf(dev.baseUrl, `/pay/${topUp.orderId}`, account.address, topUp.orderId),
  );

  const rest = await client.orders.createTopUp({ amountUsdCents: 2700 });
  const store = new MemoryStore();
  const pay = payingFetch({ baseUrl: proxy.baseUrl, origin: dev.baseUrl, signer: account, policy: autonomous, store });
  proxy.inject({ on: "paid", cut: 0 });
  const paths = [
    ["GET", `/pay/${rest.orderId}`],
    ["POST", `/pay/${rest.orderId}`],
    ["GET", `/api/x402/pay/${rest.orderId}`],
  ];
  const answers = [];
  for (const [method, path] of paths) answers.push(await json(await pay(proxy.baseUrl + path, { method })));
  assert.deepEqual(
    answers.map((a) => [a.orderId, a.replayed ?? false]),
    [
      [rest.orderId, true],
      [rest.orderId, true],
      [rest.orderId, true],
    ],
  );
  const amounts = (await chain.transfers(account.address)).map((log) => log.args.value);
  assert.deepEqual(amounts, [25_000_000n, 26_000_000n, BigInt(plan.amount), 27_000_000n]);

  // The list is the same in pages of one.
  const listed = (await all(client.orders.list())).map((o) => o.orderId);
  assert.deepEqual([listed.length, listed[0]], [4, rest.orderId]);
  const small = (input, init) =>
    fetch(
      input,
      String(input).endsWith("/ListOrders")
        ? { ...init, body: JSON.stringify({ ...JSON.parse(new TextDecoder().decode(init.body)), pageSize: 1 }) }
        : init,
    );
  assert.deepEqual(
    (await all(make({ fetch: small }).orders.list())).map((o) => o.orderId),
    listed,
  );
  assert.ok(proxy.requests.filter((r) => r.path.endsWith("/ListOrders")).length >= 5);
});

scenario("several orders are followed over one stream, and by asking where none gets through", async (t) => {
  const stream = "/roamcard.v1.OrderService/WatchOrders";
  const noStreams = Array(10).fill({ on: stream, status: 501, forward: false });
  for (const faults of [[], [{ on: stream, cutMessage: 1 }], [{ on: stream, cutMessage: 2 }], noStreams]) {
    const { client, proxy } = await behindProxy(t, buyer());
    const [esim, card] = [await client.esim.purchase(), await client.cards.purchase()];
    proxy.inject(...faults);
    const last = {};
    let changes = 0;
    for await (const order of client.orders.watchAll([esim.orderId, card.orderId], fast)) {
      changes++;
      assert.notEqual(last[order.orderId], `${order.status} ${order.issuance?.status}`);
      last[order.orderId] = `${order.status} ${order.issuance?.status}`;
    }
    assert.deepEqual(last, { [esim.orderId]: "fulfilled undefined", [card.orderId]: "fulfilled active" });
    const opened = proxy.requests.filter((r) => r.path === stream).length;
    // A stream of which nothing gets through is opened again, unless both orders had ended before the first look: then
    // each is seen once. So it is on a busy machine.
    const [least, most] = faults.length === 0 ? [1, 1] : [faults[0].cutMessage === 1 && changes > 2 ? 2 : 1, Infinity];
    assert.ok(least <= opened && opened <= most, `${opened} streams`);
  }
  const { client } = await behindProxy(t, buyer());
  assert.deepEqual(await all(client.orders.watchAll([])), []);
  await assert.rejects(all(client.orders.watchAll(["ord_none"])), { code: "order_not_found" });
});

scenario("orders are listed by kind, and an eSIM's token is renewed", async (t) => {
  const { client } = await behindProxy(t, buyer());
  const esim = await client.esim.purchase();
  await esim.waitUntilFulfilled(fast);
  await client.cards.purchase();
  const [only, ...more] = await all(client.orders.list({ kind: "esim" }));
  assert.deepEqual([only.orderId, only.delivery.planName.length > 0, more], [esim.orderId, true, []]);
  const { orderId, deliveryToken: before } = esim;
  const { token, expiresAt } = await client.esim.rotateToken(orderId);
  assert.ok(Date.parse(expiresAt) > Date.now());
  const stranger = new Roamcard({ baseUrl: dev.baseUrl });
  assert.equal((await stranger.esim.status(orderId, { deliveryToken: token })).orderId, orderId);
  await assert.rejects(stranger.esim.status(orderId, { deliveryToken: before }), { code: "order_not_found" });
  const front = new Storefront({ baseUrl: dev.baseUrl });
  assert.equal((await front.config()).network.payTo, dev.payTo);
  assert.ok((await front.plans()).some((plan) => plan.planId === only.delivery.planId));
  assert.deepEqual([(await front.card()).contractVersion, (await front.esim()).contractVersion], [1, 1]);
});

scenario("an order of another price than it was made for is not paid", async (t) => {
  const { client, make, proxy, signatures } = await behindProxy(t, buyer());
  const opened = await client.orders.createCard();
  const costly = { ...opened, amountUsdCents: 2400 };
  const lying = async (input, init) => {
    const response = await fetch(input, init);
    if (!String(input.url ?? input).includes("GetOrder")) return response;
    return Response.json({ order: { orderId: costly.orderId, amountUsdCents: costly.amountUsdCents } });
  };
  await assert.rejects(make({ fetch: lying }).orders.pay(opened), /names the amount 25000000, expected 24000000/);
  assert.deepEqual([signatures, payments(proxy)], [[], []]);
  assert.equal((await client.orders.pay(opened)).orderId, opened.orderId);
});

scenario("an operator works with a token, and with a wallet that may see activity", async (t) => {
  const { client } = await behindProxy(t, buyer());
  const order = await client.cards.purchase();
  await order.waitUntilFulfilled(fast);
  const operator = new Roamcard({
    baseUrl: dev.baseUrl,
    operatorToken: dev.operatorToken,
    signer: privateKeyToAccount(dev.operatorWallet.privateKey),
  });
  const { admin } = operator;
  const inspected = await admin.inspectOrder(order.orderId);
  assert.equal(inspected.payments[0].transaction, order.receipt.transaction);
  const jobs = await all(admin.feeJobs());
  const [job] = jobs.filter((j) => j.orderId === order.orderId);
  assert.equal((await admin.reconcileFeeJob(job.id)).id, job.id);
  await assert.rejects(admin.retryFeeJob(job.id, { reason: "to see it refused", idempotencyKey: randomUUID() }), {
    code: "provider_failure_unconfirmed",
  });
  await assert.rejects(admin.writeOffFeeJob(job.id, { reason: "to see it refused", idempotencyKey: randomUUID() }), {
    code: "provider_failure_unconfirmed",
  });
  assert.ok((await all(admin.orderQueue({ status: "fulfilled" }))).some((o) => o.orderId === order.orderId));
  const [mine] = await all(admin.orderQueue({ owner: inspected.owner, sort: "oldest" }));
  assert.equal(mine.orderId, order.orderId);
  const { requestId } = inspected.timeline[0];
  assert.deepEqual((await all(admin.orderQueue({ requestId }))).map((o) => o.orderId), [order.orderId]);
  assert.deepEqual(await all(admin.orderQueue({ requestId: "of-nobody" })), []);
  const { operator: name } = await admin.whoAmI();
  const { items: [audited] } = await admin.audit({ action: "order.inspect", subject: order.orderId }).page();
  assert.equal(audited.actor, name);
  const { operations, ...who } = await admin.whoAmI();
  assert.deepEqual(who, { operator: name, role: "admin", source: "configuration" });
  assert.ok(operations.includes("MintToken"), operations.join());
  const minted = await admin.mintToken({
    name: "surface", role: "viewer", expiresInSeconds: 60, reason: "test", idempotencyKey: randomUUID(),
  });
  assert.match(minted.secret, /^rco_/);
  const { items: [listed] } = await admin.tokens({ status: "active", pageSize: 1 }).page();
  assert.equal(listed.id, minted.token.id);
  const ended = await admin.revokeToken(listed.id, { reason: "test", idempotencyKey: randomUUID() });
  assert.equal(ended.status, "revoked");
  assert.deepEqual((await admin.approvals().page()).items, []);
  assert.ok(Array.isArray(await admin.countOrders()));
  assert.ok((await admin.gauges()).accounts.some((account) => account.name === "payee"));
  assert.ok((await all(admin.jobs())).every(({ status }) => ["failed", "operator_review"].includes(status)));
  const { items: [done] } = await admin.jobs({ status: "succeeded", pageSize: 1 }).page();
  assert.equal((await admin.job(done.id)).id, done.id);
  const act = { reason: "to see it refused", idempotencyKey: randomUUID() };
  await assert.rejects(admin.retryJob(done.id, act), { code: "job_not_stopped" });
  await assert.rejects(admin.dropJob(randomUUID(), act), { code: "job_not_found" });
  const review = await admin.reviewOrder(order.orderId);
  assert.ok(review.allowedActions.every((action) => !action.allowed) && review.postings.length > 0);
  await assert.rejects(
    admin.decideOrder(order.orderId, {
      action: "retry", version: review.order.version + 1, reason: "to see it refused", idempotencyKey: randomUUID(),
    }),
    { code: "version_changed" },
  );
  await assert.rejects(
    admin.decideOrder(order.orderId, { action: "refund", reason: "to see it refused", idempotencyKey: randomUUID() }),
    { code: "order_not_in_review" },
  );
  const [{ product, paused }] = await admin.switches();
  const set = await admin.setSwitch(product, { paused, reason: "as it was", idempotencyKey: randomUUID() });
  assert.deepEqual([set.product, set.paused, set.reason], [product, paused, "as it was"]);
  assert.ok((await admin.reconcile()).checked.orders > 0);
  assert.ok((await admin.reconciliation()).at);
  assert.ok(Array.isArray(await all(admin.transfers({ status: "resolved" }))));
  const runs = await all(admin.reconciliations());
  assert.ok(runs.length > 0 && runs.every(({ beganAt, endedAt }) => Date.parse(beganAt) <= Date.parse(endedAt)));
  const alike = await all(admin.reconciliations({ outcome: runs[0].outcome }));
  assert.ok(alike.length > 0 && alike.every(({ outcome }) => outcome === runs[0].outcome));
  const transfer = {
    resolution: "known",
    reason: "to see it refused",
    idempotencyKey: randomUUID(),
  };
  await assert.rejects(admin.resolveTransfer(`0x${"0".repeat(64)}`, 0, transfer), { code: "transfer_not_found" });
  assert.ok((await admin.challengeRetention()).retentionSeconds > 0);
  assert.ok((await admin.pruneChallenges()).deleted >= 0);
  assert.equal((await admin.activity({ days: 2 })).days, 2);
  assert.ok((await admin.pruneActivity()) >= 0);

  await assert.rejects(
    new Roamcard({ baseUrl: dev.baseUrl, operatorToken: "wrong" }).admin.switches(),
    UnauthorizedError,
  );
  await assert.rejects(client.admin.switches(), { message: "the client has no operatorToken" });
  await assert.rejects(client.admin.activity(), UnauthorizedError);
  assert.ok(!JSON.stringify(operator).includes(dev.operatorToken));
});
