// What calls give survives JSON, and lists come in pages.
import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { privateKeyToAccount } from "viem/accounts";
import { OrderSchema } from "roamcard/proto";
import { MemoryStore, PolicyDeniedError, Roamcard, RoamcardError, version } from "roamcard";
import { plain } from "../dist/results.js";
import { all, behindProxy } from "./support/behind.mjs";
import { buyer, dev, scenario } from "./support/shared.mjs";

const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Checks that a result is the same after JSON, and gives it. */
function same(result) {
  assert.deepEqual(JSON.parse(JSON.stringify(result)), result);
  return result;
}

scenario("results are the same after JSON.stringify and JSON.parse", async (t) => {
  const store = new MemoryStore();
  const { client, make, proxy } = await behindProxy(t, buyer(), { store });
  const quotation = same(await client.quote.card());
  assert.deepEqual([quotation.quote.amount, quotation.quote.amountUsd], ["25000000", "25.00"]);
  for (const read of [
    () => client.discovery.config(),
    () => client.discovery.card(),
    () => client.discovery.esim(),
    () => client.discovery.agent(),
  ])
    same(await read());
  assert.match(same(await client.auth.signIn()).expiresAt, iso);

  const bought = await client.cards.purchase();
  const { orderId, operationId, status, order, idempotencyKey, replayed, receipt, requestId } = bought;
  assert.deepEqual(JSON.parse(JSON.stringify(bought)), {
    orderId,
    operationId,
    status,
    order: same(order),
    idempotencyKey,
    replayed,
    receipt,
    requestId,
  });
  assert.match(order.createdAt, iso);
  assert.match(order.payment.settledAt, iso);
  assert.ok(Math.abs(Date.parse(order.createdAt) - Date.now()) < 120_000, order.createdAt);
  const card = same(await bought.waitUntilActive({ intervalMs: 200 }));
  assert.match(card.createdAt, iso);
  assert.match(same(await client.cards.balance(card.id)).asOf, iso);
  for await (const now of client.orders.watch(orderId)) same(now);

  const esim = await client.esim.purchase();
  const text = JSON.stringify(esim);
  assert.deepEqual([JSON.parse(text).deliveryToken, JSON.parse(text).credentials], ["[redacted]", "[redacted]"]);
  for (const secret of [esim.deliveryToken.reveal(), esim.credentials.reveal().matchingId])
    assert.ok(!text.includes(secret), "a secret is written");
  assert.deepEqual([esim.order.credentials, esim.order.delivery.token], [undefined, undefined]);
  same(esim.credentials.reveal());

  proxy.inject({ on: "paid", cut: 0 });
  await assert.rejects(make({ maxReplays: 0 }).cards.topUp({ amountUsdCents: 2500, idempotencyKey: "later" }));
  const [pending] = same(await client.pending());
  assert.match(pending.at, iso);
  const asked = [];
  const asking = make({
    policy: { mode: "human_approval", maxPerDayUsd: "50", approve: (quote) => (asked.push(same(quote)), true) },
  });
  await assert.rejects(asking.cards.topUp({ amountUsdCents: 2500 }), PolicyDeniedError);
  same(await client.resumeAll().then(([{ order: resumed }]) => resumed.order));
});

scenario("over another transport results are the same, and reads are made again", async (t) => {
  const over =
    (requests) =>
    ({ baseUrl, interceptors }) => {
      const counted = (next) => (request) => (requests.push(request.header.get("user-agent")), next(request));
      return createGrpcTransport({ baseUrl, interceptors: [...interceptors, counted] });
    };
  const { make } = await behindProxy(t, buyer());
  const client = make({ baseUrl: dev.baseUrl, transport: over([]) });
  const { data, response } = await client.esim.purchase().withRawResponse();
  assert.deepEqual([response.status, response.requestId], [200, data.requestId]);
  const { createdAt, payment, status } = same(await client.orders.get(data.orderId));
  assert.deepEqual([data.order.createdAt, same(data.order).payment, data.status], [createdAt, payment, status]);
  assert.match(createdAt, iso);
  const requests = [];
  const nobody = make({ baseUrl: "http://127.0.0.1:1", transport: over(requests) });
  await assert.rejects(nobody.discovery.config(), { name: "UnavailableError", status: 0 });
  assert.deepEqual(requests, Array(3).fill(`roamcard-typescript/${version}`));
});

scenario("what operators read is the same after JSON, too", async () => {
  const { admin } = new Roamcard({
    baseUrl: dev.baseUrl,
    operatorToken: dev.operatorToken,
    signer: privateKeyToAccount(dev.operatorWallet.privateKey),
  });
  const report = same(await admin.reconcile());
  assert.match(report.at, iso);
  for (const read of [
    () => admin.switches(),
    () => admin.challengeRetention(),
    () => admin.activity(),
    () => admin.reconciliation(),
  ])
    same(await read());
  for (const list of [admin.orderQueue({ status: "fulfilled" }), admin.feeJobs(), admin.findings(), admin.transfers()])
    same((await list.page()).items);
});

scenario("a time that no calendar has is left out, and the rest of the answer is there", async () => {
  const order = plain(
    create(OrderSchema, {
      orderId: "ord_1",
      createdAt: { seconds: 1n << 60n, nanos: 0 },
      expiresAt: { seconds: 1n, nanos: 5_000_000 },
    }),
  );
  assert.deepEqual([order.orderId, order.createdAt, order.expiresAt], ["ord_1", undefined, "1970-01-01T00:00:01.005Z"]);
});

scenario("a list comes item by item, or page by page, also from where another process left off", async (t) => {
  const { client, make, proxy } = await behindProxy(t, buyer());
  await (await client.cards.purchase()).waitUntilActive({ intervalMs: 200 });
  for (const amountUsdCents of [2500, 2600, 2700])
    await client.orders.createTopUp({ amountUsdCents, idempotencyKey: crypto.randomUUID() });
  const expected = (await all(client.orders.list())).map((o) => o.orderId);
  assert.ok(expected.length >= 2, `${expected.length} orders`);

  const { data: first, response } = await client.orders.list({ pageSize: 1 }).page().withRawResponse();
  assert.deepEqual([first.items.map((o) => o.orderId), first.hasNext, response.status], [[expected[0]], true, 200]);
  const { nextPageToken } = JSON.parse(JSON.stringify(first));
  const there = [];
  for (
    let page = await make().orders.list({ pageSize: 1, pageToken: nextPageToken }).page();
    ;
    page = await page.next()
  ) {
    there.push(...page.items.map((o) => o.orderId));
    if (page.hasNext) continue;
    await assert.rejects(page.next(), RoamcardError);
    break;
  }
  assert.deepEqual(there, expected.slice(1));
  assert.deepEqual(
    (await all(client.orders.list({ pageSize: 1 }))).map((o) => o.orderId),
    expected,
  );
  const plans = await client.plans.list().page();
  assert.deepEqual([plans.items, plans.hasNext], [await all(client.plans.list()), false]);

  // A list that is not used asks for nothing, and nobody is sent in circles.
  const before = proxy.requests.length;
  client.orders.list();
  assert.equal(proxy.requests.length, before);
  const circling = async (input, init) => {
    const answered = await fetch(input, init);
    return String(input).endsWith("/ListOrders")
      ? Response.json({ ...(await answered.json()), nextPageToken: "again" })
      : answered;
  };
  await assert.rejects(all(make({ fetch: circling }).orders.list()), /the same page again/);
});
