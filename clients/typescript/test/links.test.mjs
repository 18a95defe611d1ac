// An order is paid at its link, by who has the link and the owner's wallet: one signature and no session.
import assert from "node:assert/strict";
import { AmbiguousPaymentError, ApiError, isMasked, MemoryStore, NotFoundError, PayLink } from "roamcard";
import { newKey } from "./support/api.mjs";
import { all, assertSameBytes, behindProxy, payments } from "./support/behind.mjs";
import { buyer, bystander, chain, dev, scenario } from "./support/shared.mjs";

/** An unpaid order of a new wallet, and what takes its link up: behind the proxy, with signatures counted. */
async function linked(t) {
  const account = buyer();
  const { client, proxy, signatures } = await behindProxy(t, account);
  const { orderId } = await client.orders.createEsim({ idempotencyKey: newKey() });
  const signer = {
    address: account.address,
    signMessage: () => assert.fail("a link needs no session"),
    signTypedData: (data) => (signatures.push(data), account.signTypedData(data)),
  };
  const link = (more = {}) => new PayLink({ baseUrl: proxy.baseUrl, origin: dev.baseUrl, orderId, ...more });
  return { account, client, proxy, signatures, orderId, signer, link };
}

scenario("a link is read, paid and followed with one signature", async (t) => {
  const { account, signatures, orderId, signer, link } = await linked(t);
  const here = link();
  const order = await here.read();
  assert.deepEqual([order.orderId, order.kind, order.status], [orderId, "esim", "payment_required"]);
  assert.ok(isMasked(order.owner, account.address) && order.owner.length < 20);
  await here.ask();
  assert.equal(await here.kept(), undefined);
  const paid = await here.pay(signer);
  assert.ok(!JSON.stringify(paid).includes(paid.watchToken.reveal()));
  const seen = await all(here.watch(paid));
  assert.equal(seen.at(-1).status, "fulfilled");
  // Where streams do not get through, the link itself is asked.
  const cut = (input, init) => {
    if (/WatchOrder/.test(String(input))) throw new TypeError("cut");
    return fetch(input, init);
  };
  const polled = await all(link({ fetch: cut }).watch(paid, { intervalMs: 50 }));
  assert.equal(polled.at(-1).status, "fulfilled");
  assert.equal(signatures.length, 1);
  assert.equal((await chain.transfers(account.address)).length, 1);
  await assert.rejects(here.ask(), (error) => error instanceof ApiError && error.code === "order_not_payable");
});

scenario("a payment at a link outlives the page, and two pages are one payment", async (t) => {
  const { account, proxy, signatures, signer, link } = await linked(t);
  const store = new MemoryStore();
  proxy.inject({ on: "paid", cut: 0 });
  await assert.rejects(link({ store, maxReplays: 0 }).pay(signer), AmbiguousPaymentError);
  assert.equal((await link({ store }).kept()).state, "signed");
  const again = await Promise.all([link({ store }).resume(), link({ store }).pay(signer)]);
  for (const { order, watchToken } of again) assert.ok(order.replayed && watchToken.reveal() !== "");
  assertSameBytes(proxy, signatures, 3);
  assert.equal((await chain.transfers(account.address)).length, 1);
  await assert.rejects(link().resume(), /no payment of this order/);
});

scenario("who is not the owner signs nothing at a link", async (t) => {
  const { proxy, link } = await linked(t);
  const stranger = { address: bystander.address, signTypedData: () => assert.fail("it was signed") };
  await assert.rejects(link().pay(stranger), /belongs to 0x.*; nothing was signed/);
  await assert.rejects(link({ orderId: "ord_none" }).read(), NotFoundError);
  assert.deepEqual(payments(proxy), []);
});

scenario("a masked address is known by its ends", async () => {
  const address = "0x1234567890abcdef1234567890abcdef12345678";
  assert.ok(isMasked("0x1234…5678", address));
  for (const other of ["0x1234…5679", "0x1235…5678", "…", "", "0x"])
    assert.equal(isMasked(other, address), false, other);
});
