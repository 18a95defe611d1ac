// The client buys eSIMs: what is no scenario of every client.
import assert from "node:assert/strict";
import {
  ApiError,
  KeyConflictError,
  MemoryStore,
  NotFoundError,
  PolicyDeniedError,
  Secret,
  TermsMismatchError,
} from "roamcard";
import { newKey } from "./support/api.mjs";
import { all, assertSameBytes, autonomous, behindProxy, looking, payments } from "./support/behind.mjs";
import { buyer, bystander, chain, scenario } from "./support/shared.mjs";

scenario("an eSIM is read by its token or its owner's session, and by nobody else", async (t) => {
  const { client } = await behindProxy(t, buyer());
  const { orderId, deliveryToken } = await client.esim.purchase();
  assert.equal((await client.esim.status(orderId, { deliveryToken })).status, "fulfilled");
  assert.equal((await client.esim.status(orderId)).status, "fulfilled");
  const stranger = (await behindProxy(t, bystander)).client;
  await assert.rejects(stranger.esim.status(orderId), NotFoundError);
  assert.equal((await stranger.esim.status(orderId, { deliveryToken })).status, "fulfilled");
  await assert.rejects(client.esim.status(orderId, { deliveryToken: new Secret("wrong") }), ApiError);
  await assert.rejects(client.esim.install("ord_none", { present: looking().presenter }), NotFoundError);
});

scenario("the cheapest eSIM is bought within the caps, once, whatever becomes of the answers", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const { client, proxy, signatures, make } = await behindProxy(t, account);
  const [cheapest] = await all(client.plans.list());
  proxy.inject({ on: "paid", cut: 0 }, { on: "paid", status: 503 }, { on: "paid", cut: -5 });
  const [first, second] = await Promise.all([1, 2].map(() => client.esim.purchase({ idempotencyKey })));
  assert.equal(first.orderId, second.orderId);
  assertSameBytes(proxy, signatures, 4);
  // The answers are one, and each has its secrets.
  for (const bought of [first, second]) assert.match(bought.credentials.reveal().lpa, /^LPA:1\$/);
  const again = await make({ store: new MemoryStore() }).esim.purchase({ idempotencyKey });
  assert.deepEqual([again.orderId, again.replayed], [first.orderId, true]);
  assert.deepEqual((await chain.transfers(account.address)).map((log) => log.args.value), [BigInt(cheapest.amount)]);
  const [, other] = await all(client.plans.list());
  await assert.rejects(client.esim.purchase({ idempotencyKey, planId: other.planId }), KeyConflictError);
});

scenario("an eSIM above the caps, or of no plan, is refused before anything is signed", async (t) => {
  const { client, proxy, signatures, make } = await behindProxy(t, bystander);
  proxy.inject({ on: "unpaid", terms: { amount: "260000000" } });
  await assert.rejects(client.esim.purchase(), TermsMismatchError);
  await assert.rejects(
    make({ policy: { ...autonomous, maxPerPaymentUsd: "0.001" } }).esim.purchase(),
    PolicyDeniedError,
  );
  await assert.rejects(
    make({ policy: { ...autonomous, allow: { operations: ["/api/card/purchase"] } } }).esim.purchase(),
    PolicyDeniedError,
  );
  await assert.rejects(client.esim.purchase({ planId: "pln_none" }), ApiError);
  assert.deepEqual([signatures, payments(proxy)], [[], []]);
});
