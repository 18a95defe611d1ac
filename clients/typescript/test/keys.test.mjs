// One key, one order, one payment: however often, however fast, and by whomever it is sent.
import assert from "node:assert/strict";
import { json, newKey, post, problem, purchase, purchaseLeg, purchasePath, signIn, get } from "./support/api.mjs";
import { paying } from "./support/chain.mjs";
import { headerOf, settlementOf, signPayment, termsOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

scenario("a paid key sent again", async (t) => {
  const account = buyer();
  const key = newKey();
  const first = await purchase(dev.baseUrl, account, key);
  const order = await json(first);

  await t.test("with a further member is refused and moves nothing", () =>
    paying(chain, account, 0, async () => {
      const payment = await freshPayment(account, key);
      for (const extra of [{ planId: "x" }, { amountUsdCents: 2500 }, { idempotency_key: key }]) {
        const response = await post(
          dev.baseUrl,
          purchasePath,
          { idempotencyKey: key, ...extra },
          { "payment-signature": payment },
        );
        const { fields } = await problem(response, 400, "schema_invalid");
        assert.deepEqual(
          fields.map((f) => f.path),
          Object.keys(extra),
        );
      }
    }),
  );

  await t.test("with a new signature answers the stored order and moves nothing", () =>
    paying(chain, account, 0, async () => {
      const again = await purchase(dev.baseUrl, account, key);
      const body = await json(again);
      assert.equal(body.orderId, order.orderId);
      assert.equal(body.replayed, true);
      assert.deepEqual(body.payment, order.payment);
      assert.deepEqual(settlementOf(again), settlementOf(first));
    }),
  );

  await t.test("without a payment tells nothing of the order", async () => {
    const response = await purchaseLeg(dev.baseUrl, key);
    assert.equal(response.headers.get("payment-response"), null);
    const text = await response.clone().text();
    assert.ok(!text.includes(order.orderId) && !text.includes(account.address), text);
    await problem(response, 402, "payment_required");
  });

  await t.test("by another wallet buys that wallet's own card", async () => {
    const other = buyer();
    const body = await paying(chain, other, 1, async () => json(await purchase(dev.baseUrl, other, key)));
    assert.notEqual(body.orderId, order.orderId);
    assert.equal(body.replayed, undefined);
    assert.equal(body.payment.payer, other.address);
  });
});

scenario("a wallet that has bought a card", async (t) => {
  const account = buyer();
  const key = newKey();
  const payment = await freshPayment(account, key);
  const order = await paying(chain, account, 1, async () => json(await purchaseLeg(dev.baseUrl, key, payment)));

  await t.test("cannot pay for another key with the same authorization", () => paying(chain, account, 0, async () => {
    const body = await problem(await purchaseLeg(dev.baseUrl, newKey(), payment), 409, "authorization_already_used");
    assert.equal(body.orderId, undefined, "the other order is nobody's business");
    assert.equal(body.safeToPayAgain, false);
  }));

  await t.test("cannot buy a second one", () => paying(chain, account, 0, async () => {
    await problem(await purchase(dev.baseUrl, account, newKey()), 409, "card_already_exists");
  }));

  await t.test("has one order", async () => {
    const { orders } = await get(dev.baseUrl, "/api/orders", await signIn(dev.baseUrl, account, "eip191"));
    assert.deepEqual(orders.map((o) => o.orderId), [order.orderId]);
  });
});

scenario("ten identical paid requests at once are one order and one transfer", async () => {
  const account = buyer();
  const key = newKey();
  const payment = await freshPayment(account, key);
  await paying(chain, account, 1, async () => {
    const responses = await Promise.all(Array.from({ length: 10 }, () => purchaseLeg(dev.baseUrl, key, payment)));
    await oneOrder(responses);
  });
});

scenario("ten differently signed requests of one key at once are one order and one transfer", async () => {
  const account = buyer();
  const key = newKey();
  const payments = await Promise.all(Array.from({ length: 10 }, () => freshPayment(account, key)));
  await paying(chain, account, 1, async () => {
    await oneOrder(await Promise.all(payments.map((payment) => purchaseLeg(dev.baseUrl, key, payment))));
  });
});

async function oneOrder(responses) {
  const orders = await Promise.all(responses.map((response) => json(response)));
  assert.equal(new Set(orders.map((o) => o.orderId)).size, 1, "the number of orders");
  assert.equal(
    new Set(responses.map((r) => JSON.stringify(settlementOf(r)))).size,
    1,
    "the number of different receipts",
  );
  assert.equal(orders.filter((o) => !o.replayed).length, 1, "the answers that are not repeats");
}

async function freshPayment(account, key) {
  return headerOf(await signPayment(account, termsOf(await purchaseLeg(dev.baseUrl, key))));
}
