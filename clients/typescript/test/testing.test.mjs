// roamcard/testing: the fake answers as the service does, and every fault is survived.
import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { InsufficientFundsError, payingFetch, Roamcard } from "roamcard";
import { FakeService, FaultProxy } from "roamcard/testing";
import { privateKeyToAccount } from "viem/accounts";
import { walk } from "../../testing/journey.mjs";

const key = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const policy = { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" };

function buyer(service, more = {}) {
  return new Roamcard({
    baseUrl: service.url,
    fetch: service.fetch,
    signer: privateKeyToAccount(key),
    policy,
    ...more,
  });
}

test("the fake answers as the service does", async (t) => {
  const service = new FakeService();
  await service.listen();
  t.after(() => service.close());
  const shapes = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/shapes.json"), "utf8"));
  assert.deepEqual(await walk(service.url, key), shapes);
});

test("a client buys at the fake as at the service", async () => {
  const service = new FakeService();
  const client = buyer(service);
  const card = await (await client.cards.purchase({ idempotencyKey: "card" })).waitUntilActive({ intervalMs: 1 });
  await client.cards.topUp({ amountUsdCents: 3000, idempotencyKey: "topup" });
  assert.equal((await client.cards.balance(card.id)).availableUsdCents, 1500 + 2940);
  const open = await client.orders.createEsim({ idempotencyKey: "open" });
  for (let i = 0; i < 2; i++) assert.equal((await client.orders.pay(open)).status, "fulfilled");
  const esim = await client.esim.purchase({ idempotencyKey: "esim" });
  const again = await client.esim.purchase({ idempotencyKey: "esim" });
  assert.deepEqual([again.orderId, again.replayed], [esim.orderId, true]);
  assert.ok(esim.credentials);
  assert.equal(service.token.transfers.length, 4);
  await assert.rejects(client.cards.purchase({ idempotencyKey: "second" }), { code: "card_already_exists" });
});

test("a client of the REST routes buys at the fake", async () => {
  const service = new FakeService();
  const pay = payingFetch({ baseUrl: service.url, fetch: service.fetch, signer: privateKeyToAccount(key), policy });
  service.faults.loseAnswer({ on: "paid" });
  const answer = await pay(`${service.url}/api/card/purchase`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ idempotencyKey: "k" }),
  });
  assert.deepEqual([answer.status, (await answer.json()).replayed, service.token.transfers.length], [200, true, 1]);
});

test("a poor wallet, and a signature of another one, are told", async () => {
  const service = new FakeService({ balance: 1n });
  await assert.rejects(buyer(service).esim.purchase({ idempotencyKey: "k" }), InsufficientFundsError);
  const other = privateKeyToAccount(`0x${"01".repeat(32)}`);
  const forger = { ...privateKeyToAccount(key), signTypedData: (data) => other.signTypedData(data) };
  await assert.rejects(buyer(new FakeService(), { signer: forger }).esim.purchase({ idempotencyKey: "k" }), {
    code: "payment_rejected",
  });
});

const paid = { on: "paid" };
const faults = {
  loseAnswer: (f) => f.loseAnswer(paid),
  "loseAnswer, before": (f) => f.loseAnswer({ ...paid, before: true }),
  "loseAnswer, thrice": (f) => f.loseAnswer({ ...paid, times: 3 }),
  "loseAnswer, unpaid": (f) => f.loseAnswer({ on: "unpaid" }),
  cutAnswer: (f) => f.cutAnswer(paid, 20),
  "cutAnswer, end": (f) => f.cutAnswer(paid, -1),
  unavailable: (f) => f.unavailable(paid),
  "unavailable, before": (f) => f.unavailable({ ...paid, before: true }),
  page: (f) => f.page(paid),
  repeat: (f) => f.repeat(paid),
  delay: (f) => f.delay(paid, 60_000),
  answer: (f) => f.answer(paid, { status: 502, contentType: "text/html", body: "<html>" }),
};
for (const [name, fault] of Object.entries(faults)) {
  test(`fault: ${name}`, async () => {
    const service = new FakeService();
    fault(service.faults);
    await buyer(service, name === "delay" ? { timeoutMs: 2_000 } : {}).esim.purchase({ idempotencyKey: "k" });
    assert.equal(service.token.transfers.length, 1);
    assert.ok(service.faults.requests.some((r) => r.fault), "the fault hit nothing");
  });
}

test("a proxy puts faults before a real service", async (t) => {
  const service = new FakeService();
  await service.listen();
  const proxy = await FaultProxy.start(service.url);
  t.after(() => Promise.all([proxy.close(), service.close()]));
  proxy.faults.cutAnswer({ on: "paid" }, 10);
  proxy.faults.loseAnswer({ on: "paid" });
  const client = new Roamcard({ baseUrl: proxy.url, origin: service.url, signer: privateKeyToAccount(key), policy });
  await assert.rejects(fetch(`${proxy.url}/nothing`).then((r) => assert.equal(r.status, 200)));
  const order = await client.esim.purchase({ idempotencyKey: "k" });
  assert.deepEqual([order.replayed, service.token.transfers.length], [true, 1]);
  assert.equal(proxy.faults.requests.filter((r) => r.fault).length, 2);
});

test("the README's test runs", async (t) => {
  const root = join(import.meta.dirname, "..");
  const [, code] = /```js\n([\s\S]*?)```/.exec(await readFile(join(root, "README.md"), "utf8"));
  const file = join(root, "dist", `testing-${process.pid}.mjs`);
  await writeFile(file, code);
  t.after(() => rm(file));
  await import(file);
});
