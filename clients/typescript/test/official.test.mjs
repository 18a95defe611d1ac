// What another client signs goes out through payingFetch as published, bounded in time, and kept.
import assert from "node:assert/strict";
import { test } from "node:test";
import { wrapFetchWithPayment } from "@x402/fetch";
import { MemoryStore, payingFetch, Roamcard, TermsMismatchError } from "roamcard";
import { FakeService } from "roamcard/testing";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { headerOf, payerClient, signAuthorization, termsOf } from "./support/payer.mjs";

const policy = { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" };
const esims = "/api/esim/purchase";
const cards = "/api/card/purchase";

/** An official client on a paying fetch; `answered` may change what the service answers to it. */
function official(answered = (_request, response) => response) {
  const [service, store] = [new FakeService(), new MemoryStore()];
  const account = privateKeyToAccount(generatePrivateKey());
  const [signed, sent] = [[], []];
  const counting = { ...account, signTypedData: (data) => (signed.push(data), account.signTypedData(data)) };
  const fetch = async (input, init) => {
    const request = new Request(input, init);
    sent.push({
      path: new URL(request.url).pathname,
      body: await request.clone().text(),
      payment: request.headers.get("payment-signature"),
    });
    return answered(request, await service.fetch(request));
  };
  const below = payingFetch({ baseUrl: service.url, fetch, payer: account.address, policy, store });
  const post = (send, path, body, headers = {}) =>
    send(service.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  return {
    service,
    store,
    account,
    signed,
    sent,
    below,
    above: wrapFetchWithPayment(below, payerClient(counting, "$250")),
    post,
  };
}

async function costlier(_request, response) {
  if (response.status !== 402) return response;
  const terms = JSON.parse(atob(response.headers.get("payment-required")));
  terms.accepts[0].amount = "4900000";
  const headers = new Headers(response.headers);
  headers.set("payment-required", btoa(JSON.stringify(terms)));
  return new Response(await response.text(), { status: 402, headers });
}

test("under an official client any eSIM is the cheapest plan at its price", async () => {
  const { service, store, signed, sent, above, post } = official();
  const bought = await (await post(above, esims, { idempotencyKey: "k" })).json();
  const bodies = sent.filter((s) => s.path === esims).map((s) => JSON.parse(s.body));
  assert.ok(
    bodies.length === 2 && bodies.every(({ planId }) => planId && planId === bodies[0].planId),
    JSON.stringify(bodies),
  );
  const again = await (await post(above, esims, { idempotencyKey: "k" })).json();
  assert.deepEqual(
    [again.orderId, again.replayed, signed.length, service.token.transfers.length],
    [bought.orderId, true, 1, 1],
  );
  assert.equal(Object.values((await store.read()).purchases)[0].request.planId, bodies[0].planId);
});

test("under an official client a costlier plan than the published one is not signed", async () => {
  for (const request of [{ idempotencyKey: "k" }, { idempotencyKey: "k", planId: null }]) {
    const { service, signed, above, post } = official(costlier);
    await assert.rejects(post(above, esims, request), TermsMismatchError);
    assert.deepEqual([signed.length, service.token.transfers.length], [0, 0]);
  }
});

test("what buys nothing is not paid for, however a path is spelled", async () => {
  let terms;
  const asked = official((request, response) => {
    const path = new URL(request.url).pathname;
    return path.startsWith("/api/config") || path === cards ? response : terms.clone();
  });
  const { service, account, signed, sent, below, above, post } = asked;
  terms = await post(service.fetch, cards, { idempotencyKey: "k" });
  const payment = headerOf(await signAuthorization(account, termsOf(terms.clone())));
  for (const path of ["/api/esim/plans", "/api/card/%70urchase", "/evil"]) {
    await assert.rejects(post(above, path, { idempotencyKey: "k" }), TermsMismatchError, path);
    for (const name of ["payment-signature", "x-payment"])
      await assert.rejects(post(below, path, {}, { [name]: payment }), TermsMismatchError, path);
  }
  assert.deepEqual([signed.length, sent.filter((s) => s.payment).length], [0, 0]);
});

test("a payment of another way of transfer is not signed", async () => {
  const { signed, above, post } = official(async (_request, response) => {
    if (response.status !== 402) return response;
    const terms = JSON.parse(atob(response.headers.get("payment-required")));
    terms.accepts[0].extra.assetTransferMethod = "permit2";
    const headers = new Headers(response.headers);
    headers.set("payment-required", btoa(JSON.stringify(terms)));
    return new Response(await response.text(), { status: 402, headers });
  });
  await assert.rejects(post(above, cards, { idempotencyKey: "k" }), TermsMismatchError);
  assert.equal(signed.length, 0);
});

test("what was signed for a costlier plan is not sent", async () => {
  const { service, account, sent, below, post } = official();
  const body = { idempotencyKey: "k" };
  const terms = termsOf(await costlier(undefined, await post(service.fetch, esims, body)));
  const payment = headerOf(await signAuthorization(account, terms));
  await assert.rejects(post(below, esims, body, { "payment-signature": payment }), TermsMismatchError);
  assert.deepEqual(sent.filter((s) => s.payment), []);
});

test("a payment that is good for longer than its terms allow is not kept or sent", async () => {
  const { service, store, account, sent, below, post } = official();
  const body = { idempotencyKey: "k" };
  const terms = termsOf(await post(service.fetch, cards, body));
  const now = Math.floor(Date.now() / 1000);
  for (const changes of [
    { validBefore: String(now + 86_400) },
    { validBefore: String(2n ** 256n - 1n) },
    { validBefore: "never" },
    { nonce: "0x12" },
  ]) {
    const payment = await signAuthorization(account, terms).then((p) => ({
      ...p,
      payload: { ...p.payload, authorization: { ...p.payload.authorization, ...changes } },
    }));
    await assert.rejects(
      post(below, cards, body, { "payment-signature": btoa(JSON.stringify(payment)) }),
      TermsMismatchError,
    );
  }
  assert.deepEqual([sent.filter((s) => s.payment), Object.keys((await store.read()).purchases)], [[], []]);
});

test("an answer that is no challenge reaches the client on top as it is", async () => {
  const { above, post } = official((request, response) =>
    request.url.endsWith(cards) ? new Response(null, { status: 204 }) : response,
  );
  assert.equal((await post(above, cards, { idempotencyKey: "k" })).status, 204);
});

test("a top-up of no named amount is resumed as it was asked for", async () => {
  const { service, store, account, above, post } = official();
  await post(above, cards, { idempotencyKey: "card" });
  service.faults.loseAnswer({ on: "paid", times: 99 });
  await assert.rejects(post(above, "/api/card/topup", { idempotencyKey: "k" }));
  service.faults.clear();
  const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer: account, policy, store });
  const [resumed] = await client.resumeAll();
  assert.ok(resumed.order, String(resumed.error));
  assert.equal(service.token.transfers.length, 2);
});

test("a paying fetch with a wallet pays an order at the order's own price", async () => {
  const { service, account } = official();
  const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer: account, policy });
  const opened = await client.orders.createEsim();
  const lying = async (input, init) => {
    const request = new Request(input, init);
    return costlier(request, await service.fetch(request));
  };
  const url = `${service.url}/pay/${opened.orderId}`;
  const pay = (fetch) => payingFetch({ baseUrl: service.url, fetch, signer: account, policy })(url);
  await assert.rejects(pay(lying), TermsMismatchError);
  assert.equal(service.token.transfers.length, 0);
  assert.equal((await (await pay(service.fetch)).json()).orderId, opened.orderId);
  assert.equal(service.token.transfers.length, 1);
});
