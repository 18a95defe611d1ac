// A card topped up by the official client, and the operators' calls for the issue fee.
import assert from "node:assert/strict";
import { wrapFetchWithPayment } from "@x402/fetch";
import { get, json, newKey, poll, post, problem, purchase, signIn } from "./support/api.mjs";
import { paying } from "./support/chain.mjs";
import { payerClient, termsOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

const topupPath = "/api/card/topup";
const jobsPath = "/api/admin/card-issue-fee/jobs";

/** A whole top-up by the official client. */
const topUp = (account, body) =>
  post(dev.baseUrl, topupPath, body, {}, wrapFetchWithPayment(fetch, payerClient(account, "$250")));

/** Buys a card and waits until the fee is off it. */
async function withCard(account) {
  await json(await purchase(dev.baseUrl, account, newKey()));
  const session = await signIn(dev.baseUrl, account, "eip191");
  const [card] = await poll(
    "an active card",
    async () => (await get(dev.baseUrl, "/api/cards", session)).cards,
    ([c]) => c?.status === "ACTIVE",
  );
  await balance(card, session, 1500);
  return { session, card };
}

const balance = (card, session, cents) =>
  poll(
    `a balance of ${cents}`,
    () => get(dev.baseUrl, `/api/cards/${card.id}/balance`, session),
    (b) => b.availableUsdCents === cents,
  );

scenario("a top-up credits the payer's card with what the fee leaves, once", async () => {
  const account = buyer();
  const { session, card } = await paying(chain, account, 1, () => withCard(account));
  const key = newKey();
  await paying(chain, account, 1, async () => {
    const order = await json(await topUp(account, { amountUsdCents: 2500, idempotencyKey: key }));
    assert.equal(order.kind, "card_topup");
    assert.deepEqual(
      { ...order.topup, status: undefined },
      { status: undefined, grossUsdCents: 2500, loadFeeUsdCents: 50, cardCreditUsdCents: 2450 },
    );
    await balance(card, session, 1500 + 2450);
    const stored = await poll(
      "the credit",
      () => get(dev.baseUrl, `/api/orders/${order.orderId}`, session),
      (o) => o.status === "fulfilled",
    );
    assert.equal(stored.topup.status, "credited");
    // The default is the same request, said in fewer words.
    const again = await json(await topUp(account, { idempotencyKey: key }));
    assert.equal(again.orderId, order.orderId);
    assert.equal(again.replayed, true);
    await problem(await topUp(account, { amountUsdCents: 5000, idempotencyKey: key }), 409, "idempotency_key_reused");
  });
  await balance(card, session, 1500 + 2450);
});

scenario("a wallet without a card is refused before its payment is taken", async () => {
  const account = buyer();
  await paying(chain, account, 0, async () => {
    await problem(await topUp(account, { idempotencyKey: newKey() }), 409, "active_card_missing");
  });
});

scenario("a top-up costs 25.00 to 250.00", async () => {
  for (const [cents, units] of [
    [2500, "25000000"],
    [2501, "25010000"],
    [25000, "250000000"],
    [undefined, "25000000"],
  ]) {
    const response = await post(dev.baseUrl, topupPath, { amountUsdCents: cents, idempotencyKey: newKey() });
    assert.equal(response.status, 402);
    assert.equal(termsOf(response).accepts[0].amount, units);
  }
  for (const cents of [0, 2499, 25001, "2500", 2500.5, -2500, null]) {
    await problem(
      await post(dev.baseUrl, topupPath, { amountUsdCents: cents, idempotencyKey: newKey() }),
      400,
      "schema_invalid",
    );
  }
  const discovery = await get(dev.baseUrl, `${topupPath}/discovery`);
  assert.deepEqual(discovery.limits, {
    minOrderUsdCents: 2500,
    defaultOrderUsdCents: 2500,
    maxOrderUsdCents: 25000,
    loadFeeBps: 200,
    loadFeeRounding: "floor",
  });
});

scenario("a refused fee withdrawal is retried by an operator, as the next version, once for each key", async () => {
  const account = buyer();
  const operator = { authorization: `Bearer ${dev.operatorToken}` };
  const order = await paying(chain, account, 1, async () => json(await purchase(dev.baseUrl, account, newKey("~003"))));
  const list = async (query = "") => (await get(dev.baseUrl, jobsPath + query, operator)).jobs;
  const [job] = await poll(
    "the failure",
    async () => (await list("?status=failed")).filter((j) => j.orderId === order.orderId),
    (jobs) => jobs.length === 1,
  );
  assert.equal(job.version, 1);
  assert.equal(job.amountUsdCents, 1000);

  const path = `${jobsPath}/${job.id}`;
  const retry = (headers, body = { reason: "the issuer was asked to allow it" }) =>
    post(dev.baseUrl, `${path}/retry`, body, { ...operator, ...headers });
  await problem(await retry({}), 400, "idempotency_key_missing");
  await problem(await retry({ "idempotency-key": "a" }, {}), 400, "schema_invalid");
  await problem(await retry({ "idempotency-key": "a" }, { reason: "x".repeat(501) }), 400, "schema_invalid");
  await problem(await fetch(dev.baseUrl + jobsPath), 401, "operator_token_invalid");
  await problem(
    await fetch(dev.baseUrl + jobsPath, { headers: { authorization: "Bearer rco_wrong" } }),
    401,
    "operator_token_invalid",
  );
  await problem(
    await post(dev.baseUrl, `${jobsPath}/00000000-0000-4000-8000-000000000000/reconcile`, {}, operator),
    404,
    "job_not_found",
  );

  const reconciled = await json(await fetch(`${dev.baseUrl}${path}/reconcile`, { method: "POST", headers: operator }));
  assert.equal(reconciled.status, "failed");
  const key = newKey();
  const [one, two] = await Promise.all([retry({ "idempotency-key": key }), retry({ "idempotency-key": key })]);
  assert.equal((await json(one)).version, 2);
  assert.equal((await json(two)).version, 2);
  await problem(await retry({ "idempotency-key": key }, { reason: "another" }), 409, "idempotency_key_reused");
  // The card refuses every withdrawal in this scenario: the next version fails for itself.
  const [again] = await poll(
    "the next failure",
    async () => (await list("?status=failed")).filter((j) => j.id === job.id),
    ([j]) => j?.version === 2,
  );
  assert.notEqual(again.reference, job.reference);
  const books = await (await fetch(`${dev.sandboxUrl}/control/books`)).json();
  for (const reference of [job.reference, again.reference])
    assert.ok((books.executed[reference] ?? 0) <= 1, "a withdrawal was made twice");
});

scenario("a fee that was taken cannot be retried", async () => {
  const operator = { authorization: `Bearer ${dev.operatorToken}` };
  const [job] = await poll(
    "a taken fee",
    async () => (await get(dev.baseUrl, `${jobsPath}?status=succeeded`, operator)).jobs,
    (jobs) => jobs.length > 0,
  );
  const response = await post(
    dev.baseUrl,
    `${jobsPath}/${job.id}/retry`,
    { reason: "no" },
    { ...operator, "idempotency-key": newKey() },
  );
  await problem(response, 409, "provider_failure_unconfirmed");
});
