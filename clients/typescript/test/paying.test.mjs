// Auto-pay without the client: over every Connect transport, over REST, and under the official x402 client.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { wrapFetchWithPayment } from "@x402/fetch";
import { MemoryStore, payingFetch, PolicyDeniedError, Roamcard } from "roamcard";
import { FileStore } from "roamcard/node";
import { startFaultProxy } from "../../testing/fault-proxy.mjs";
import { json, newKey, post, problem, purchasePath } from "./support/api.mjs";
import { paying } from "./support/chain.mjs";
import { payerClient } from "./support/payer.mjs";
import { buyer, bystander, chain, dev, scenario } from "./support/shared.mjs";

const policy = { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "100" };

async function proxied(t) {
  const proxy = await startFaultProxy(dev.baseUrl);
  t.after(() => proxy.close());
  return { proxy, baseUrl: proxy.baseUrl, origin: dev.baseUrl };
}

const payments = (proxy) => proxy.requests.map((r) => r.payment).filter(Boolean);

scenario("the client pays over gRPC too", async () => {
  const account = buyer();
  const client = new Roamcard({
    baseUrl: dev.baseUrl,
    signer: account,
    policy,
    transport: (options) => createGrpcTransport(options),
  });
  await paying(chain, account, 1, async () => {
    const { order, receipt } = await client.cards.purchase();
    assert.equal(receipt.transaction, order.payment.transaction);
  });
});

scenario("a paying fetch buys over REST, loses answers, and pays once", async (t) => {
  const account = buyer();
  const { proxy, ...where } = await proxied(t);
  const pay = payingFetch({ ...where, signer: account, policy, store: new MemoryStore() });
  const key = newKey();
  proxy.inject({ on: "unpaid", cut: 10 }, { on: "paid", cut: -5 }, { on: "paid", status: 503 });
  await paying(chain, account, 1, async () => {
    const [one, two] = await Promise.all(
      [1, 2].map(() => post(where.baseUrl, purchasePath, { idempotencyKey: key }, {}, pay)),
    );
    const order = await json(one);
    assert.equal((await json(two)).orderId, order.orderId);
    assert.notEqual(one.headers.get("payment-response"), null);
  });
  assert.equal(payments(proxy).length, 3);
  assert.equal(new Set(payments(proxy)).size, 1);
  assert.equal((await pay(`${where.baseUrl}/health`)).status, 200);
});

scenario("a paying fetch gives answers that are no payment's business as they are", async (t) => {
  const { proxy, ...where } = await proxied(t);
  const pay = payingFetch({ ...where, signer: bystander, policy });
  await problem(await post(where.baseUrl, purchasePath, { idempotencyKey: 7 }, {}, pay), 400, "schema_invalid");
  await assert.rejects(post(where.baseUrl, purchasePath, { idempotencyKey: newKey("~007") }, {}, pay), {
    code: "float_unavailable",
    status: 503,
  });
  assert.deepEqual(payments(proxy), []);
});

scenario("under the official x402 client a lost answer is asked for again with the same bytes", async (t) => {
  const account = buyer();
  const folder = await mkdtemp(join(tmpdir(), "roamcard-store-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const { proxy, ...where } = await proxied(t);
  // Each with its own memory, as after a restart.
  const official = () =>
    wrapFetchWithPayment(
      payingFetch({ ...where, payer: account.address, policy, store: new FileStore(folder) }),
      payerClient(account),
    );
  const key = newKey();
  proxy.inject({ on: "paid", cut: 0 }, { on: "paid", status: 503 });
  await paying(chain, account, 1, async () => {
    const order = await json(await post(where.baseUrl, purchasePath, { idempotencyKey: key }, {}, official()));
    const again = await json(await post(where.baseUrl, purchasePath, { idempotencyKey: key }, {}, official()));
    assert.equal(again.orderId, order.orderId);
    assert.equal(again.replayed, true);
  });
  assert.equal(payments(proxy).length, 4);
  assert.equal(new Set(payments(proxy)).size, 1, "the different payments sent");
});

scenario("under the official x402 client the policy holds before a payment is sent", async (t) => {
  const { proxy, ...where } = await proxied(t);
  const capped = payingFetch({ ...where, payer: bystander.address, policy: { ...policy, maxPerPaymentUsd: "24" } });
  await paying(chain, bystander, 0, () =>
    assert.rejects(
      post(
        where.baseUrl,
        purchasePath,
        { idempotencyKey: newKey() },
        {},
        wrapFetchWithPayment(capped, payerClient(bystander)),
      ),
      PolicyDeniedError,
    ),
  );
  assert.deepEqual(payments(proxy), []);
});
