// x402's extension sign-in-with-x, as its published package has it: an official client that signs in for one request,
// to have the answer of a purchase again and to read what it bought.
import assert from "node:assert/strict";
import { test } from "node:test";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  buildSIWxSchema, createSIWxClientHook, createSIWxPayload, encodeSIWxHeader, parseSIWxHeader, SIGN_IN_WITH_X,
  validateSIWxMessage, verifySIWxSignature, wrapFetchWithSIWx,
} from "@x402/extensions/sign-in-with-x";
import { privateKeyToAccount } from "viem/accounts";
import { dev } from "./paying.mjs";

const path = "/api/esim/purchase";
const [ada, eve] = [4, 5].map((index) => privateKeyToAccount(dev.wallets[index].privateKey));

function post(body, headers = {}, at = path) {
  return fetch(dev.baseUrl + at, {
    method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  });
}

const termsOf = (answer) => decodePaymentRequiredHeader(answer.headers.get("PAYMENT-REQUIRED"));

/** The extension in the challenge of a purchase. */
async function offered(at = path) {
  const asked = await post({ idempotencyKey: "sign-in" }, {}, at);
  assert.equal(asked.status, 402, await asked.clone().text());
  const { length } = asked.headers.get("PAYMENT-REQUIRED");
  assert.ok(length < 4096, `the challenge has ${length} bytes`);
  return termsOf(asked).extensions[SIGN_IN_WITH_X];
}

/** The header of a wallet for a challenge, with changes that it signs, too. */
async function signed(account, changes = {}, extension) {
  const { info, supportedChains: [chain] } = extension ?? await offered();
  const complete = { ...info, ...chain, ...changes };
  return encodeSIWxHeader(await createSIWxPayload(complete, account, complete.uri));
}

const read = (at, header) => fetch(dev.baseUrl + at, { headers: { [SIGN_IN_WITH_X]: header } });

/** Buys once, as an official client does, and returns the body of the purchase and its answer. */
async function bought(account) {
  const body = { idempotencyKey: `siwx-${crypto.randomUUID()}` };
  const client = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
  client.register("eip155:*", new ExactEvmScheme(account));
  const http = new x402HTTPClient(client);
  const asked = await post(body);
  const terms = http.getPaymentRequiredResponse((name) => asked.headers.get(name), await asked.json());
  const payment = await http.createPaymentPayload(terms);
  assert.deepEqual(payment.extensions[SIGN_IN_WITH_X], terms.extensions[SIGN_IN_WITH_X], "the client echoes it");
  const answer = await post(body, http.encodePaymentSignatureHeader(payment));
  assert.equal(answer.status, 200, await answer.clone().text());
  return { body, order: await answer.json() };
}

test("sign-in-with-x is declared as its package declares it", async () => {
  const { info, supportedChains, schema } = await offered();
  assert.deepEqual(buildSIWxSchema().required, schema.required);
  assert.deepEqual(supportedChains, [{ chainId: "eip155:8453", type: "eip191" }]);
  assert.equal(info.domain, new URL(dev.baseUrl).host);
  assert.equal(info.uri, dev.baseUrl + path);
  const payload = parseSIWxHeader(await signed(ada));
  assert.equal((await validateSIWxMessage(payload, new URL(dev.baseUrl))).isValid, true);
  assert.equal((await verifySIWxSignature(payload)).payer, ada.address);
});

test("a wallet has the answer of its purchase again by signing in", async () => {
  const { body, order } = await bought(ada);
  const again = await wrapFetchWithSIWx(fetch, ada)(dev.baseUrl + path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  const answer = await again.json();
  assert.equal(again.status, 200, JSON.stringify(answer));
  assert.deepEqual([answer.orderId, answer.replayed], [order.orderId, true]);
  assert.ok(answer.delivery.token, "its secrets are shown");
  assert.ok(again.headers.get("PAYMENT-RESPONSE"));

  const other = await wrapFetchWithSIWx(fetch, eve)(dev.baseUrl + path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  assert.equal(other.status, 402, "another wallet has bought nothing with this key");
});

test("a client that signs in first buys what it has not bought", async () => {
  const client = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
  client.register("eip155:*", new ExactEvmScheme(ada));
  const http = new x402HTTPClient(client).onPaymentRequired(createSIWxClientHook(ada));
  const body = { idempotencyKey: `siwx-${crypto.randomUUID()}` };
  const orders = [];
  for (let i = 0; i < 2; i++) {
    // As @x402/fetch does it.
    const asked = await post(body);
    const terms = http.getPaymentRequiredResponse((name) => asked.headers.get(name), await asked.json());
    let answer = await post(body, await http.handlePaymentRequired(terms, dev.baseUrl + path));
    assert.equal(answer.status, i === 0 ? 402 : 200, await answer.clone().text());
    if (i === 0) answer = await post(body, http.encodePaymentSignatureHeader(await http.createPaymentPayload(terms)));
    assert.equal(answer.status, 200, await answer.clone().text());
    orders.push((await answer.json()).orderId);
  }
  assert.equal(orders[0], orders[1]);
});

test("a wallet reads what it bought, once for each message", async () => {
  const { order } = await bought(ada);
  const at = `/api/orders/${order.orderId}`;
  const header = await signed(ada);
  const first = await read(at, header);
  assert.equal(first.status, 200, await first.clone().text());
  assert.equal((await first.json()).orderId, order.orderId);
  assert.equal((await read(at, header)).status, 401, "a second time");
  assert.equal((await read(at, await signed(eve))).status, 404, "another wallet");
  assert.equal((await read(`/api/esim/orders/${order.orderId}/credentials`, await signed(ada))).status, 200);
});

test("one of twenty requests with one message is answered", async () => {
  const header = await signed(eve);
  const answers = await Promise.all(Array.from({ length: 20 }, () => read("/api/orders", header)));
  const statuses = answers.map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 200).length, 1, statuses.join());
  assert.ok(statuses.every((status) => [200, 401, 429].includes(status)), statuses.join());
});

test("what was not issued so is refused, and nothing is shown", async () => {
  const { body } = await bought(ada);
  const other = `http://evil.example${path}`;
  for (const [name, header] of Object.entries({
    "another domain": await signed(ada, { domain: "evil.example", uri: other }),
    "another chain": await signed(ada, { chainId: "eip155:84532" }),
    "another resource": await signed(ada, {}, await offered("/api/card/purchase")),
    "a nonce of its own": await signed(ada, { nonce: "abcdefghijklmnop" }),
    "a time of its own": await signed(ada, { issuedAt: new Date().toISOString() }),
    "no base64": "%%%", "no JSON": btoa("{"), "an empty object": btoa("{}"), "a long one": "A".repeat(9000),
  })) {
    const answer = await post(body, { [SIGN_IN_WITH_X]: header });
    const problem = await answer.json();
    assert.deepEqual([answer.status, problem.code], [401, "signature_invalid"], `${name}: ${JSON.stringify(problem)}`);
  }
  // It could be a smart account's signature. Who proves no wallet does not learn that it has bought.
  const stolen = encodeSIWxHeader({ ...parseSIWxHeader(await signed(eve)), address: ada.address });
  const answer = await post(body, { [SIGN_IN_WITH_X]: stolen });
  const problem = await answer.json();
  assert.deepEqual([answer.status, problem.code, problem.orderId], [402, "payment_required", undefined]);
});
