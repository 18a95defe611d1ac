// What a key ending in ~NNN makes the sandbox do.
import assert from "node:assert/strict";
import { get, json, newKey, poll, problem, purchase, purchaseLeg, signIn } from "./support/api.mjs";
import { cardPrice, paying } from "./support/chain.mjs";
import { headerOf, settlementOf, signPayment, termsOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

scenario("~002: the issuer refuses for good, and the payment comes back on chain, once", async () => {
  const account = buyer();
  const before = await chain.snapshot(account);
  const had = await chain.received(account.address);
  const bought = await json(await purchase(dev.baseUrl, account, newKey("~002")));
  const session = await signIn(dev.baseUrl, account, "eip191");
  const order = await poll(
    "the refund",
    () => get(dev.baseUrl, `/api/orders/${bought.orderId}`, session),
    (o) => o.status === "refunded",
  );
  assert.equal(order.issuance.status, "refused");
  assert.equal(order.refund.amount, String(cardPrice));
  assert.equal(order.refund.to, account.address);
  const { cards } = await get(dev.baseUrl, "/api/cards", session);
  assert.deepEqual(cards.filter((c) => c.status === "ACTIVE"), []);

  const now = await chain.snapshot(account);
  assert.equal(now.balances[0], before.balances[0], "the payer's balance");
  assert.equal(now.transfers[0].length - before.transfers[0].length, 1, "payments");
  const back = (await chain.received(account.address)).slice(had.length);
  assert.deepEqual(back.map((log) => [log.args.value, log.transactionHash]), [[cardPrice, order.refund.transaction]]);

  const again = await json(await purchase(dev.baseUrl, account, newKey()));
  assert.notEqual(again.orderId, bought.orderId, "a refunded wallet buys again");
});

scenario("~004: an unknown settlement is 503 and never 402, and the same header then answers 200", async () => {
  const account = buyer();
  const key = newKey("~004");
  const before = await chain.snapshot(account);
  const terms = termsOf(await purchaseLeg(dev.baseUrl, key));
  const payment = headerOf(await signPayment(account, terms));

  const first = await purchaseLeg(dev.baseUrl, key, payment);
  const unknown = await problem(first, 503, "settlement_unknown");
  assert.match(first.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  assert.equal(first.headers.get("payment-required"), null);
  assert.match(unknown.orderId, /^ord_/);
  assert.equal(unknown.retryable, true);
  assert.equal(unknown.safeToPayAgain, false);
  assert.equal(unknown.nextAction, "retry_same_request");

  // The same header, and an impatient client that signs anew.
  const [same, anew] = await Promise.all(
    [payment, headerOf(await signPayment(account, terms))].map((p) => purchaseLeg(dev.baseUrl, key, p)),
  );
  for (const response of [same, anew]) {
    const order = await json(response);
    assert.equal(order.orderId, unknown.orderId);
    assert.equal(order.replayed, true);
  }
  assert.deepEqual(settlementOf(anew), settlementOf(same));
  await chain.assertPaid(before, [account], [1]);
});

scenario("~007: without float there is no challenge", async () => {
  const response = await purchaseLeg(dev.baseUrl, newKey("~007"));
  assert.equal(response.headers.get("payment-required"), null);
  const body = await problem(response, 503, "float_unavailable");
  assert.equal(body.retryable, true);
});

scenario("an issuer whose float runs out stops the sale before the challenge", async (t) => {
  const { floatCents } = await (await fetch(`${dev.sandboxUrl}/control/books`)).json();
  const setFloat = async (cents) => {
    const response = await fetch(`${dev.sandboxUrl}/control/float`, {
      method: "POST",
      body: JSON.stringify({ cents }),
    });
    assert.equal(response.status, 200, await response.text());
  };
  t.after(() => setFloat(floatCents));
  await setFloat(2499);
  const refused = await poll(
    "the service's notice of it",
    () => purchaseLeg(dev.baseUrl, newKey()),
    (r) => r.status !== 402,
  );
  assert.equal(refused.headers.get("payment-required"), null);
  await problem(refused, 503, "float_unavailable");
  await setFloat(floatCents);
  await poll("the sale", () => purchaseLeg(dev.baseUrl, newKey()), (r) => r.status === 402);
});
