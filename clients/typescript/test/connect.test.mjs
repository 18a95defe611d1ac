// The same purchase over every protocol that a Connect client speaks.
import assert from "node:assert/strict";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport as nodeConnect, createGrpcTransport } from "@connectrpc/connect-node";
import { createConnectTransport as webConnect, createGrpcWebTransport } from "@connectrpc/connect-web";
import { wrapFetchWithPayment, x402HTTPClient } from "@x402/fetch";
import { CardService, ProblemSchema } from "roamcard/proto";
import { newKey } from "./support/api.mjs";
import { cardPrice, paying } from "./support/chain.mjs";
import { payerClient, settlementOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

/** Answers 402 on any transport: signs once and sends the same request again. */
const paysBy = (client) => (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    if (
      !(error instanceof ConnectError) ||
      !error.metadata.has("payment-required") ||
      request.header.has("payment-signature")
    )
      throw error;
    const http = new x402HTTPClient(client);
    const required = http.getPaymentRequiredResponse((name) => error.metadata.get(name));
    const payload = await client.createPaymentPayload(required);
    for (const [name, value] of Object.entries(http.encodePaymentSignatureHeader(payload)))
      request.header.set(name, value);
    return next(request);
  }
};

const byFetch = (useBinaryFormat) => (client) =>
  webConnect({ baseUrl: dev.baseUrl, useBinaryFormat, fetch: client ? wrapFetchWithPayment(fetch, client) : fetch });
const byInterceptor = (create, options) => (client) =>
  create({ baseUrl: dev.baseUrl, interceptors: client ? [paysBy(client)] : [], ...options });

const transports = {
  "connect-web JSON with the wrapped fetch": byFetch(false),
  "connect-web binary with the wrapped fetch": byFetch(true),
  "connect-node over HTTP/1.1": byInterceptor(nodeConnect, { httpVersion: "1.1" }),
  "connect-node over HTTP/2": byInterceptor(nodeConnect, { httpVersion: "2" }),
  "gRPC": byInterceptor(createGrpcTransport, {}),
  "gRPC-Web": byInterceptor(createGrpcWebTransport, {}),
};

for (const [name, transportOf] of Object.entries(transports)) {
  scenario(`a card is bought over ${name}`, async () => {
    const account = buyer();
    const key = newKey();
    await seesTheTerms(transportOf(), key);
    await paying(chain, account, 1, async () => {
      const cards = createClient(CardService, transportOf(payerClient(account)));
      const { order, settlement } = await buy(cards, key);
      assert.equal(order.replayed, undefined);
      assert.equal(order.kind, "card_issue");
      assert.equal(order.amountUsdCents, 2500);
      assert.equal(order.payment.payer, account.address);
      assert.equal(order.payment.amount, String(cardPrice));
      assert.equal(order.issuance.expectedAvailableAfterIssueUsdCents, 1500);

      const again = await buy(cards, key);
      assert.equal(again.order.orderId, order.orderId);
      assert.equal(again.order.replayed, true);
      assert.deepEqual(again.settlement, settlement, "PAYMENT-RESPONSE of the repeat");
    });
  });
}

/** Without a payment every protocol shows the same problem and the terms. */
async function seesTheTerms(transport, key) {
  const error = await createClient(CardService, transport).purchaseCard({ idempotencyKey: key }).then(
    () => assert.fail("the purchase was not refused"),
    (reason) => ConnectError.from(reason),
  );
  assert.equal(error.code, Code.FailedPrecondition, error.message);
  assert.ok(error.metadata.has("payment-required"), "PAYMENT-REQUIRED is missing");
  const [problem] = error.findDetails(ProblemSchema);
  assert.equal(problem?.code, "payment_required");
  assert.equal(problem.status, 402);
  assert.equal(problem.nextAction, "sign_new_payment");
  assert.notEqual(problem.requestId, "");
  const internal = [...error.metadata.keys()].filter((name) => name.startsWith("x-internal"));
  assert.deepEqual(internal, [], "internal headers that reach the client");
}

async function buy(cards, key) {
  const response = { headers: new Headers() };
  const keep = (headers) => {
    const answered = headers.get("payment-response");
    if (answered !== null) response.headers.set("payment-response", answered);
  };
  const { order } = await cards.purchaseCard({ idempotencyKey: key }, { onHeader: keep, onTrailer: keep });
  const settlement = settlementOf(response);
  assert.equal(settlement.success, true);
  assert.equal(settlement.transaction, order.payment.transaction);
  return { order, settlement };
}
