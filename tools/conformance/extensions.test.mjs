// Extensions of x402 that the service declares, honoured as their published package has them: an official client that
// names what it pays by @x402/extensions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  appendPaymentIdentifierToExtensions, declarePaymentIdentifierExtension, PAYMENT_IDENTIFIER, validatePaymentIdentifier,
} from "@x402/extensions/payment-identifier";
import { privateKeyToAccount } from "viem/accounts";
import { dev } from "./paying.mjs";

const path = "/api/esim/purchase";

function post(body, headers = {}) {
  return fetch(dev.baseUrl + path, {
    method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  });
}

/** An official client that names each payment so, and asks for a key. */
async function signed(key, id) {
  const client = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
  client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(dev.wallets[8].privateKey)));
  client.onBeforePaymentCreation(async ({ paymentRequired }) => {
    appendPaymentIdentifierToExtensions(paymentRequired.extensions, id);
  });
  const http = new x402HTTPClient(client);
  const asked = await post({ idempotencyKey: key });
  assert.equal(asked.status, 402, await asked.clone().text());
  const terms = http.getPaymentRequiredResponse((name) => asked.headers.get(name), await asked.json());
  const declared = structuredClone(terms.extensions[PAYMENT_IDENTIFIER]);
  const payment = await http.createPaymentPayload(terms);
  assert.equal(payment.extensions[PAYMENT_IDENTIFIER].info.id, id);
  return { declared, headers: http.encodePaymentSignatureHeader(payment) };
}

test("payment-identifier is declared as its package declares it", async () => {
  const { declared } = await signed("extension-declared", "extension-declared");
  assert.deepEqual(declared, declarePaymentIdentifierExtension(false));
  assert.equal(validatePaymentIdentifier(declared).valid, true);
});

test("terms say that a payment settles before the delivery, and the package chooses them", async () => {
  const asked = await post({ idempotencyKey: "extension-flow" });
  const http = new x402HTTPClient(new x402Client());
  const { accepts } = http.getPaymentRequiredResponse((name) => asked.headers.get(name), await asked.json());
  assert.deepEqual(accepts.map(({ extra }) => extra.paymentFlow), ["upfront"]);
  const client = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
  client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(dev.wallets[8].privateKey)));
  assert.equal(client.selectPaymentRequirements(2, accepts), accepts[0]);
});

test("a payment that names its purchase by the key buys it once", async () => {
  const key = `extension-${crypto.randomUUID()}`;
  const { headers } = await signed(key, key);
  const orders = [];
  for (let i = 0; i < 2; i++) {
    const answer = await post({ idempotencyKey: key }, headers);
    assert.equal(answer.status, 200, await answer.clone().text());
    orders.push((await answer.json()).orderId);
  }
  assert.equal(orders[0], orders[1]);
});

test("a payment that names another purchase than the request is not taken", async () => {
  const key = `extension-${crypto.randomUUID()}`;
  const { headers } = await signed(key, `extension-${crypto.randomUUID()}`);
  const answer = await post({ idempotencyKey: key }, headers);
  const problem = await answer.json();
  assert.deepEqual([answer.status, problem.code], [409, "idempotency_key_reused"], JSON.stringify(problem));
  const right = await signed(key, key);
  assert.equal((await post({ idempotencyKey: key }, right.headers)).status, 200);
});
