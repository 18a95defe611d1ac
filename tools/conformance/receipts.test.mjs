// Signed offers and receipts, verified by the published package with the keys that it finds by did:web.
import assert from "node:assert/strict";
import { test } from "node:test";
import { x402Client, x402HTTPClient } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  decodeSignedOffers, extractOffersFromPaymentRequired, extractReceiptFromResponse, findAcceptsObjectFromSignedOffer,
  verifyOfferSignatureJWS, verifyReceiptMatchesOffer, verifyReceiptSignatureJWS,
} from "@x402/extensions/offer-receipt";
import { privateKeyToAccount } from "viem/accounts";
import { dev } from "./paying.mjs";

const wallet = privateKeyToAccount(dev.wallets[8].privateKey);
const client = new x402Client().setSpendControls({ maxAmountPerPayment: "$100" });
client.register("eip155:*", new ExactEvmScheme(wallet));
const http = new x402HTTPClient(client);

function post(body, headers = {}) {
  return fetch(`${dev.baseUrl}/api/esim/purchase`, {
    method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body),
  });
}

test("offers and the receipt of a delivered order verify", async () => {
  const body = { idempotencyKey: `receipt-${crypto.randomUUID()}` };
  const asked = await post(body);
  assert.equal(asked.status, 402, await asked.clone().text());
  const terms = http.getPaymentRequiredResponse((name) => asked.headers.get(name), await asked.json());
  const offers = extractOffersFromPaymentRequired(terms);
  assert.equal(offers.length, terms.accepts.length);
  const [offer] = decodeSignedOffers(offers);
  assert.deepEqual(findAcceptsObjectFromSignedOffer(offer, terms.accepts), terms.accepts[0]);
  const { payTo, resourceUrl, validUntil } = await verifyOfferSignatureJWS(offers[0]);
  assert.deepEqual([payTo, resourceUrl], [dev.payTo, `${dev.baseUrl}/api/esim/purchase`]);
  assert.ok(validUntil > Date.now() / 1000);

  const headers = http.encodePaymentSignatureHeader(await http.createPaymentPayload(terms));
  let answer = await post(body, headers);
  for (let order = await answer.clone().json(); order.status !== "fulfilled"; order = await answer.clone().json()) {
    assert.equal(answer.status, 200, JSON.stringify(order));
    answer = await post(body, headers);
  }
  const order = await answer.clone().json();
  const receipt = extractReceiptFromResponse(answer);
  const proof = await verifyReceiptSignatureJWS(receipt);
  assert.deepEqual(
    [proof.orderId, proof.outcome, proof.payer, proof.transaction, proof.amount],
    [order.orderId, "delivered", wallet.address, order.payment.transaction, order.payment.amount],
  );
  assert.equal(verifyReceiptMatchesOffer(receipt, offer, [wallet.address]), true);
  assert.equal(order.receipt, receipt.signature);
  assert.deepEqual(extractReceiptFromResponse(await post(body, headers)), receipt);

  const [head, , signature] = receipt.signature.split(".");
  const changed = Buffer.from(JSON.stringify({ ...proof, orderId: "ord_other" })).toString("base64url");
  await assert.rejects(verifyReceiptSignatureJWS({ format: "jws", signature: [head, changed, signature].join(".") }));
});
