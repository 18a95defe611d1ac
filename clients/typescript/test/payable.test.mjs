// Orders created first and paid later at their payable_url, by the official client.
import assert from "node:assert/strict";
import { ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { wrapFetchWithPayment, x402Client, x402HTTPClient } from "@x402/fetch";
import { CardService, OrderService } from "roamcard/proto";
import { get, json, newKey, poll, post, problem, purchase, signIn } from "./support/api.mjs";
import { headerOf, payerClient, receiptOf, signPayment, termsOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

const cardOrders = "/api/card-issue/orders";
const orders = "/api/orders";

/** Runs an action and checks what it moved from the payer to the payee, in USDC's smallest unit. */
async function moving(account, amount, action) {
  const balances = () => Promise.all([account.address, dev.payTo].map((who) => chain.balance(who)));
  const [payer, payee] = await balances();
  const result = await action();
  const now = await balances();
  assert.deepEqual([payer - now[0], now[1] - payee], [amount, amount], "what left the payer and reached the payee");
  return result;
}

/** A fetch that pays up to $250. */
const paying = (account) => wrapFetchWithPayment(fetch, payerClient(account, "$250"));

const alias = (order) => `${dev.baseUrl}/api/x402/pay/${order.orderId}`;

async function open(path, session, body, headers = {}) {
  const order = await json(await post(dev.baseUrl, path, body, { ...session, ...headers }));
  assert.equal(order.status, "payment_required");
  assert.equal(order.payable_url, `${dev.baseUrl}/pay/${order.orderId}`);
  const left = Date.parse(order.expiresAt) - Date.now();
  assert.ok(left > 29 * 60_000 && left <= 30 * 60_000, order.expiresAt);
  return order;
}

/** Pays an order, and checks the answer and the money. */
async function payOnce(account, order, cents, pay) {
  const { first, receipt } = await moving(account, BigInt(cents) * 10_000n, async () => {
    const response = await pay();
    return { first: await json(response), receipt: receiptOf(response) };
  });
  assert.equal(first.orderId, order.orderId);
  assert.equal(first.replayed, undefined);
  assert.equal(first.payable_url, undefined);
  assert.equal(receipt.success, true);
  assert.equal(receipt.transaction, first.payment.transaction);
  return first;
}

scenario("a card order and its funding are paid at payable_url, by GET and POST, there and at the alias", async () => {
  const account = buyer();
  const session = await signIn(dev.baseUrl, account, "eip191");
  await problem(await post(dev.baseUrl, orders, {}, session), 409, "active_card_missing");
  const order = await open(cardOrders, session, {}, { "idempotency-key": newKey() });
  assert.equal(order.kind, "card_issue");
  assert.equal(order.issuance.status, "unpaid");
  assert.deepEqual(
    (await get(dev.baseUrl, `${orders}?status=active`, session)).orders.map((o) => o.orderId),
    [order.orderId],
  );
  for (const [url, method] of [
    [order.payable_url, "GET"],
    [order.payable_url, "POST"],
    [alias(order), "GET"],
    [alias(order), "POST"],
  ]) {
    const terms = termsOf(await fetch(url, { method }));
    assert.equal(terms.resource.url, url);
    assert.equal(terms.accepts[0].amount, "25000000");
  }
  await payOnce(account, order, 2500, () => paying(account)(order.payable_url));
  const [card] = await poll(
    "an active card",
    async () => (await get(dev.baseUrl, "/api/cards", session)).cards,
    ([c]) => c?.status === "ACTIVE",
  );
  await balance(card, session, 1500);

  let credit = 1500;
  for (const [body, cents, method, at] of [
    [{}, 2500, "POST", (o) => o.payable_url],
    [{ amount: "100.01" }, 10001, "GET", alias],
    [{ amount: 30, amountUsdCents: 3000 }, 3000, "POST", alias],
  ]) {
    const funding = await open(orders, session, body);
    assert.equal(funding.amountUsdCents, cents);
    const paid = await payOnce(account, funding, cents, () => paying(account)(at(funding), { method }));
    credit += paid.topup.cardCreditUsdCents;
    await balance(card, session, credit);
    await moving(account, 0n, async () => {
      await problem(await fetch(at(funding), { method }), 409, "order_not_payable");
    });
  }
});

scenario("an owner hands a payment over in the body, once", async () => {
  const account = buyer();
  const stranger = buyer();
  const session = await signIn(dev.baseUrl, account, "eip712");
  const order = await open(cardOrders, session, {});
  const terms = termsOf(await fetch(order.payable_url));
  const submit = (payment, who = session) =>
    post(dev.baseUrl, `${orders}/${order.orderId}/pay`, { paymentSignature: payment }, who);
  await moving(stranger, 0n, async () => {
    const foreign = headerOf(await signPayment(stranger, terms));
    const refused = await submit(foreign);
    assert.ok(refused.headers.get("payment-required"), "the terms");
    await problem(refused, 402, "wrong_payer");
    await problem(await submit(foreign, await signIn(dev.baseUrl, stranger, "eip191")), 404, "order_not_found");
    await problem(await paying(stranger)(order.payable_url), 402, "wrong_payer");
  });
  const payment = headerOf(await signPayment(account, terms));
  await payOnce(account, order, 2500, () => submit(payment));
  for (const again of [payment, headerOf(await signPayment(account, terms))]) {
    const replay = await moving(account, 0n, async () => json(await submit(again)));
    assert.equal(replay.replayed, true);
    assert.equal(replay.orderId, order.orderId);
  }
});

scenario("an order opened with a key is paid by a purchase with that key", async () => {
  const account = buyer();
  const session = await signIn(dev.baseUrl, account, "eip191");
  const key = newKey();
  const order = await open(cardOrders, session, {}, { "idempotency-key": key });
  assert.equal((await open(cardOrders, session, {}, { "idempotency-key": key })).orderId, order.orderId);
  await payOnce(account, order, 2500, () => purchase(dev.baseUrl, account, key));
  const replay = await moving(account, 0n, async () =>
    json(await fetch(order.payable_url, { headers: await signed(account) })),
  );
  assert.equal(replay.replayed, true);
});

scenario("an order is created and paid over gRPC and over Connect", async () => {
  const account = buyer();
  const session = await signIn(dev.baseUrl, account, "eip191");
  const transports = [
    createGrpcTransport({ baseUrl: dev.baseUrl }),
    createConnectTransport({ baseUrl: dev.baseUrl, httpVersion: "1.1" }),
  ];
  const [overGrpc, overConnect] = transports.map((t) => createClient(OrderService, t));
  const { order } = await createClient(CardService, transports[0]).createCardOrder({}, { headers: session });
  assert.equal(order.payableUrl, `${dev.baseUrl}/pay/${order.orderId}`);
  await moving(account, 25_000_000n, () => payOver(overGrpc, account, order));
  await poll(
    "an active card",
    async () => (await get(dev.baseUrl, "/api/cards", session)).cards,
    ([c]) => c?.status === "ACTIVE",
  );
  const funding = await overConnect.createOrder(
    { amount: { kind: { case: "stringValue", value: "25.01" } } },
    { headers: session },
  );
  await moving(account, 25_010_000n, () => payOver(overConnect, account, funding.order));
});

/** Pays an order over a transport: asks, signs, asks again. */
async function payOver(orderService, account, order) {
  const unpaid = await orderService
    .payOrder({ orderId: order.orderId })
    .then(() => assert.fail("paid by nobody"), ConnectError.from);
  const terms = new x402HTTPClient(new x402Client()).getPaymentRequiredResponse((name) => unpaid.metadata.get(name));
  const headers = { "payment-signature": headerOf(await signPayment(account, terms, "$250")) };
  const paid = await orderService.payOrder({ orderId: order.orderId }, { headers });
  assert.equal(paid.order.orderId, order.orderId);
  assert.equal(paid.order.payment.payer, account.address);
}

/** The header of a payment for a card that nobody needs. */
async function signed(account) {
  const terms = termsOf(await post(dev.baseUrl, "/api/card/purchase", { idempotencyKey: newKey() }));
  return { "payment-signature": headerOf(await signPayment(account, terms)) };
}

const balance = (card, session, cents) =>
  poll(
    `a balance of ${cents}`,
    () => get(dev.baseUrl, `/api/cards/${card.id}/balance`, session),
    (b) => b.availableUsdCents === cents,
  );
