// The client buys eSIMs; their secrets reach a person, and no log.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { KeyConflictError, MemoryStore, NotFoundError, PolicyDeniedError, Secret, TermsMismatchError } from "roamcard";
import { pagePresenter } from "roamcard/node";
import { newKey } from "./support/api.mjs";
import { assertSameBytes, autonomous, behindProxy, payments } from "./support/behind.mjs";
import { buyer, bystander, chain, scenario } from "./support/shared.mjs";

/** Checks on chain what a wallet paid, one transfer each. */
async function assertPaid(account, ...amounts) {
  assert.deepEqual((await chain.transfers(account.address)).map((log) => log.args.value), amounts.map(BigInt));
}

/** A presenter that keeps the page it was given, as a person's eyes would. */
function looking() {
  const seen = {};
  const presenter = pagePresenter({
    open: async (url) => {
      const response = await fetch(url);
      Object.assign(seen, { html: await response.text(), cache: response.headers.get("cache-control"), again: (await fetch(url)).status });
    },
  });
  return { seen, presenter };
}

scenario("an eSIM is bought by its plan and shown to a person only", async (t) => {
  const account = buyer();
  const store = new MemoryStore();
  const { client, make, signatures, proxy } = await behindProxy(t, account, { store });
  const japan = await client.plans({ countryCode: "JP", type: "country" });
  const [plan] = japan;
  assert.ok(japan.every((p) => p.countryCodes.join() === "JP"));
  const { quote, allowed } = await client.quoteEsim(plan.planId);
  assert.deepEqual([quote.operation, quote.amount, allowed], ["/api/esim/purchase", BigInt(plan.amount), true]);

  const bought = await client.buyEsim({ planId: plan.planId });
  assert.equal(bought.order.delivery.planId, plan.planId);
  await assertPaid(account, plan.amount);
  assertSameBytes(proxy, signatures, 1);
  for await (const now of client.watchOrder(bought.order.orderId, { intervalMs: 100 })) bought.last = now;
  assert.equal(bought.last.delivery.status, "fulfilled");

  const { deliveryToken, order } = bought;
  assert.equal((await client.esimStatus(order.orderId, { deliveryToken })).status, "fulfilled");
  assert.equal((await client.esimStatus(order.orderId)).status, "fulfilled");
  for (const options of [{ deliveryToken }, {}]) {
    const { seen, presenter } = looking();
    assert.deepEqual(await client.installEsim(order.orderId, { presenter, ...options }), { presented: true });
    assert.match(seen.html, /LPA:1\$[^"]+"/);
    assert.match(seen.html, /<img src="data:image\/png;base64,/);
    assert.deepEqual([seen.cache, seen.again], ["no-store", 410]);
  }

  // The secrets show nowhere but where they are asked for.
  const { lpa, iccid } = bought.credentials.reveal();
  const token = deliveryToken.reveal();
  const written = [inspect(bought, { depth: 9 }), String(deliveryToken), `${bought.credentials}`, JSON.stringify([deliveryToken, bought.credentials]), JSON.stringify(await store.read())].join();
  for (const secret of [lpa, iccid, token]) assert.ok(!written.includes(secret));
  assert.match(written, /\[redacted\]/);

  // The holder of another token, and another wallet, see nothing.
  const stranger = (await behindProxy(t, bystander)).client;
  await assert.rejects(stranger.esimStatus(order.orderId), NotFoundError);
  await assert.rejects(client.esimStatus(order.orderId, { deliveryToken: new Secret("wrong") }));
  await assert.rejects(make().installEsim("ord_none", { presenter: looking().presenter }), NotFoundError);
});

scenario("the cheapest eSIM is bought within the caps, once, whatever becomes of the answers", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const { client, proxy, signatures, make } = await behindProxy(t, account);
  const [cheapest] = await client.plans();
  proxy.inject({ on: "paid", cut: 0 }, { on: "paid", status: 503 }, { on: "paid", cut: -5 });
  const [first, second] = await Promise.all([1, 2].map(() => client.buyEsim({ idempotencyKey })));
  assert.equal(first.order.orderId, second.order.orderId);
  assertSameBytes(proxy, signatures, 4);
  // The answers are one, and each has its secrets.
  for (const bought of [first, second]) assert.match(bought.credentials.reveal().lpa, /^LPA:1\$/);
  const again = await make({ store: new MemoryStore() }).buyEsim({ idempotencyKey });
  assert.equal(again.order.orderId, first.order.orderId);
  assert.equal(again.replayed, true);
  await assertPaid(account, cheapest.amount);
  await assert.rejects(client.buyEsim({ idempotencyKey, planId: cheapest.planId }), KeyConflictError);
});

scenario("an eSIM at another price than published, or above the caps, is refused before anything is signed", async (t) => {
  const { client, proxy, signatures, make } = await behindProxy(t, bystander);
  const [cheapest] = await client.plans();
  const dearer = String(BigInt(cheapest.amount) + 10_000n);
  proxy.inject({ on: "unpaid", terms: { amount: dearer } });
  await assert.rejects(client.buyEsim({ planId: cheapest.planId }), TermsMismatchError);
  proxy.inject({ on: "unpaid", terms: { amount: "260000000" } });
  await assert.rejects(client.buyEsim(), PolicyDeniedError);
  await assert.rejects(make({ policy: { ...autonomous, maxPerPaymentUsd: "0.001" } }).buyEsim(), PolicyDeniedError);
  await assert.rejects(make({ policy: { ...autonomous, allow: { operations: ["/api/card/purchase"] } } }).buyEsim(), PolicyDeniedError);
  await assert.rejects(client.buyEsim({ planId: "pln_none" }));
  assert.deepEqual([signatures, payments(proxy)], [[], []]);
});
