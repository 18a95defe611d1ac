// An order is followed to its end, whatever becomes of the stream.
import assert from "node:assert/strict";
import { NotFoundError } from "roamcard";
import { behindProxy } from "./support/behind.mjs";
import { buyer, dev, scenario } from "./support/shared.mjs";


const stream = "/roamcard.v1.OrderService/WatchOrder";
const lifecycle = ["settling", "settled", "provisioning", "fulfilled"];

const calls = (proxy, method) => proxy.requests.filter((r) => r.path.endsWith(`/${method}`)).length;

/** Buys a card and follows its order through faults; checks that it was seen to move forwards only, each time once, to its end. */
async function followed(t, ...faults) {
  const { proxy, client } = await behindProxy(t, buyer());
  const { order } = await client.buyCard();
  proxy.inject(...faults.map((fault) => ({ on: stream, ...fault })));
  const seen = [];
  for await (const now of client.watchOrder(order.orderId, { intervalMs: 100 })) seen.push(now);
  const steps = seen.map((now) => lifecycle.indexOf(now.status));
  assert.deepEqual(steps, [...steps].sort((a, b) => a - b), `seen ${seen.map((now) => now.status)}`);
  const states = seen.map((now) => `${now.status} ${now.issuance.status}`);
  assert.equal(new Set(states).size, states.length, `seen ${states}`);
  assert.equal(states.at(-1), "fulfilled active");
  return { proxy, client, order, seen };
}

scenario("an order is followed over one stream, without asking", async (t) => {
  const { proxy, client, order } = await followed(t);
  assert.equal(calls(proxy, "GetOrder"), 0);
  assert.equal(calls(proxy, "WatchOrder"), 1);
  // The same goes for one that is final already.
  const again = [];
  for await (const now of client.watchOrder(order.orderId)) again.push(now.status);
  assert.deepEqual(again, ["fulfilled"]);
});

for (const [name, faults] of Object.entries({
  "in the middle of its first answer": [{ cutMessage: 1 }],
  "in the middle of its second answer": [{ cutMessage: 2 }],
  "again and again": [{ cutMessage: 2 }, { cutMessage: 1 }, { cutMessage: 2 }, { cutMessage: 1 }],
})) {
  scenario(`a stream that is cut ${name} misses no change`, (t) => followed(t, ...faults));
}

scenario("where no stream gets through, the order is asked for again and again", async (t) => {
  const { proxy } = await followed(t, ...Array(10).fill({ status: 501, forward: false }));
  assert.ok(calls(proxy, "WatchOrder") <= 2, "streams that do not get through are given up");
  assert.ok(calls(proxy, "GetOrder") >= 1);
});

scenario("another wallet's order is not followed", async (t) => {
  const { order } = await followed(t);
  const { client } = await behindProxy(t, buyer());
  await assert.rejects(client.watchOrder(order.orderId).next(), NotFoundError);
});

scenario("a session that ended is made anew for a stream too", async (t) => {
  const { proxy, client, order } = await followed(t);
  const { authorization } = proxy.requests.find((r) => r.path === stream);
  assert.equal((await fetch(`${dev.baseUrl}/api/auth/logout`, { method: "POST", headers: { authorization } })).status, 200);
  const { value } = await client.watchOrder(order.orderId, { intervalMs: 100 }).next();
  assert.equal(value.status, "fulfilled");
});
