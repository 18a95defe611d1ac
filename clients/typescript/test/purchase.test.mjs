// A card bought over REST by @x402/fetch, and what its owner then does with it.
import assert from "node:assert/strict";
import { wrapFetchWithPayment } from "@x402/fetch";
import {
  get,
  json,
  newKey,
  poll,
  post,
  problem,
  purchase,
  purchasePath,
  signChallenge,
  signIn,
} from "./support/api.mjs";
import { cardPrice, paying } from "./support/chain.mjs";
import { newRecipient, open } from "./support/hpke.mjs";
import { payerClient, receiptOf, termsOf } from "./support/payer.mjs";
import { buyer, bystander, chain, dev, scenario } from "./support/shared.mjs";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

scenario("an unpaid purchase answers 402 with terms that the official client can read", async () => {
  const response = await post(dev.baseUrl, purchasePath, { idempotencyKey: newKey() });
  const terms = termsOf(response);
  assert.match(response.headers.get("cache-control") ?? "", /no-store/);
  assert.equal(response.headers.get("payment-response"), null);
  assert.equal(terms.x402Version, 2);
  assert.equal(terms.resource.url, dev.baseUrl + purchasePath);
  assert.equal(terms.accepts.length, 1);
  const [offer] = terms.accepts;
  assert.equal(offer.scheme, "exact");
  assert.equal(offer.network, "eip155:8453");
  assert.equal(offer.asset, dev.usdc);
  assert.equal(offer.payTo, dev.payTo);
  assert.equal(offer.amount, String(cardPrice));
  assert.deepEqual({ name: offer.extra.name, version: offer.extra.version }, { name: "USD Coin", version: "2" });
  const body = await problem(response, 402, "payment_required");
  assert.equal(body.safeToPayAgain, true);
  assert.equal(body.nextAction, "sign_new_payment");
});

for (const scheme of ["eip191", "eip712"]) {
  scenario(`a wallet buys a card, signs in by ${scheme} and reveals it`, async () => {
    const owner = buyer();
    const key = newKey();
    const { order, receipt } = await paying(chain, owner, 1, () => buy(owner, key));
    const session = await signIn(dev.baseUrl, owner, scheme);

    const stored = await get(dev.baseUrl, `/api/orders/${order.orderId}`, session);
    assert.equal(stored.payment.transaction, receipt.transaction);
    const card = await activeCard(session);
    assert.equal((await fulfilled(order.orderId, session)).issuance.cardId, card.id);
    await poll(
      "a balance of 15.00",
      () => get(dev.baseUrl, `/api/cards/${card.id}/balance`, session),
      (b) => b.availableUsdCents === 1500,
    );

    const shown = await reveal(owner, session, card, scheme);
    checkCredentials(shown.credentials, card);
    assert.equal(shown.sealed, undefined);
    const opened = await revealSealed(owner, session, card, scheme);
    assert.deepEqual(opened, shown.credentials);

    const log = dev.lines.join("\n");
    for (const [what, secret] of Object.entries({
      number: shown.credentials.number,
      session: session.authorization.slice(7),
    })) {
      assert.ok(!log.includes(secret), `the log holds the ${what}`);
    }
  });
}

scenario("without a raised spend cap the official client refuses before it signs", async () => {
  const sent = [];
  const watched = (request) => {
    sent.push(request.headers.get("payment-signature"));
    return fetch(request);
  };
  const careful = wrapFetchWithPayment(watched, payerClient(bystander, null));
  await paying(chain, bystander, 0, async () => {
    await assert.rejects(
      post(dev.baseUrl, purchasePath, { idempotencyKey: newKey() }, {}, careful),
      /maxAmountPerPayment/,
    );
  });
  assert.deepEqual(sent, [null], "the requests and their payments");
});

scenario("what belongs to an owner needs the owner's session", async () => {
  await problem(await fetch(`${dev.baseUrl}/api/cards`), 401, "session_invalid");
  await problem(
    await fetch(`${dev.baseUrl}/api/cards`, { headers: { authorization: "Bearer nonsense" } }),
    401,
    "session_invalid",
  );
  const stranger = await signIn(dev.baseUrl, bystander, "eip191");
  assert.deepEqual(await get(dev.baseUrl, "/api/cards", stranger), { cards: [] });
  await problem(await fetch(`${dev.baseUrl}/api/orders/ord_unknown`, { headers: stranger }), 404, "order_not_found");
  await problem(await post(dev.baseUrl, "/api/cards", {}, stranger), 409, "paid_issue_required");
});

async function buy(owner, key) {
  const response = await purchase(dev.baseUrl, owner, key);
  const order = await json(response);
  assert.match(response.headers.get("cache-control") ?? "", /no-store/);
  const receipt = receiptOf(response);
  assert.equal(receipt.success, true);
  assert.equal(receipt.network, "eip155:8453");
  assert.equal(receipt.payer.toLowerCase(), owner.address.toLowerCase());
  const mined = await chain.client.getTransactionReceipt({ hash: receipt.transaction });
  assert.equal(mined.status, "success");

  assert.match(order.orderId, /^ord_/);
  assert.match(order.operationId, uuid);
  assert.equal(order.kind, "card_issue");
  assert.ok(["settled", "provisioning", "fulfilled"].includes(order.status), order.status);
  assert.equal(order.amountUsdCents, 2500);
  assert.equal(order.replayed, undefined);
  assert.equal(order.issuance.cardIssueFeeUsdCents, 1000);
  assert.equal(order.issuance.expectedAvailableAfterIssueUsdCents, 1500);
  assert.ok(Math.abs(Date.parse(order.createdAt) - Date.now()) < 60_000, order.createdAt);
  const { settledAt, ...payment } = order.payment;
  assert.ok(Math.abs(Date.parse(settledAt) - Date.now()) < 60_000, settledAt);
  assert.deepEqual(payment, {
    payer: owner.address,
    network: "eip155:8453",
    asset: dev.usdc,
    amount: String(cardPrice),
    transaction: receipt.transaction,
  });
  return { order, receipt };
}

async function activeCard(session) {
  const { cards } = await poll(
    "an ACTIVE card",
    () => get(dev.baseUrl, "/api/cards", session),
    ({ cards }) => cards[0]?.status === "ACTIVE",
  );
  assert.equal(cards.length, 1);
  assert.match(cards[0].id, uuid);
  assert.match(cards[0].last4, /^\d{4}$/);
  return cards[0];
}

function fulfilled(orderId, session) {
  return poll(
    "a fulfilled order",
    () => get(dev.baseUrl, `/api/orders/${orderId}`, session),
    (o) => o.status === "fulfilled",
  );
}

/** Reveals a card; a used challenge must not open it again. */
async function reveal(owner, session, card, scheme, recipientKey) {
  const path = `/api/cards/${card.id}`;
  const challenge = await json(
    await post(
      dev.baseUrl,
      `${path}/reveal-challenge`,
      { preferredMessageSchemes: [scheme], ...(recipientKey && { recipientKey }) },
      session,
    ),
  );
  assert.equal(challenge.messageScheme, scheme);
  const answer = {
    intentId: challenge.intentId,
    messageScheme: scheme,
    signature: await signChallenge(owner, challenge),
  };
  const response = await post(dev.baseUrl, `${path}/reveal`, answer, session);
  assert.match(response.headers.get("cache-control") ?? "", /no-store/);
  const shown = await json(response);
  assert.equal(shown.cardId, card.id);
  await problem(await post(dev.baseUrl, `${path}/reveal`, answer, session), 401, "challenge_invalid");
  return shown;
}

async function revealSealed(owner, session, card, scheme) {
  const recipient = newRecipient();
  const { sealed, credentials } = await reveal(owner, session, card, scheme, recipient.publicKey);
  assert.equal(credentials, undefined);
  assert.equal(sealed.suite, "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM");
  const plain = open(recipient, {
    enc: Buffer.from(sealed.enc, "base64"), ciphertext: Buffer.from(sealed.ciphertext, "base64"),
    info: Buffer.from("roamcard card reveal v1"), aad: Buffer.from(card.id),
  });
  return JSON.parse(plain);
}

function checkCredentials(credentials, card) {
  assert.match(credentials.number, /^\d{12,19}$/);
  assert.ok(luhn(credentials.number), "the number's check digit");
  assert.equal(credentials.number.slice(-4), card.last4);
  assert.match(credentials.securityCode, /^\d{3,4}$/);
  assert.ok(credentials.expiryMonth >= 1 && credentials.expiryMonth <= 12, "the month of expiry");
  assert.ok(credentials.expiryYear >= new Date().getFullYear(), "the year of expiry");
}

function luhn(number) {
  const sum = [...number].reverse().reduce((total, digit, i) => {
    const doubled = i % 2 === 0 ? Number(digit) : Number(digit) * 2;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}
