// The documented REST routes, as tests call them.
import assert from "node:assert/strict";
import { wrapFetchWithPayment } from "@x402/fetch";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { payerClient } from "./payer.mjs";

export const purchasePath = "/api/card/purchase";

/** A fresh idempotency key; the suffix selects what the sandbox does. */
export function newKey(suffix = "") {
  return `e2e-${randomUUID()}${suffix}`;
}

/** POSTs a JSON body. */
export function post(baseUrl, path, body, headers = {}, send = fetch) {
  return send(baseUrl + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

/** One leg of a purchase: unpaid, or with this PAYMENT-SIGNATURE. */
export function purchaseLeg(baseUrl, key, payment) {
  return post(baseUrl, purchasePath, { idempotencyKey: key }, payment && { "payment-signature": payment });
}

/** A whole purchase by the official client, over a fetch of the caller's choice. */
export function purchase(baseUrl, account, key, send = fetch) {
  const paid = wrapFetchWithPayment(send, payerClient(account));
  return post(baseUrl, purchasePath, { idempotencyKey: key }, {}, paid);
}

/** A fetch for the official client that remembers the PAYMENT-SIGNATURE headers it sent. */
export function recordingFetch() {
  const headers = [];
  const send = (request) => {
    const header = request.headers.get("payment-signature");
    if (header) headers.push(header);
    return fetch(request);
  };
  return { send, headers };
}

/** The JSON of an answer that must have this status. */
export async function json(response, status = 200) {
  const text = await response.text();
  assert.equal(response.status, status, text);
  return text === "" ? undefined : JSON.parse(text);
}

const nextActions = [
  "retry_same_request", "wait_and_retry", "poll_order", "sign_new_payment", "fix_request", "sign_in", "contact_support",
];

/** Checks that an answer is a problem of this status and code, in the documented shape. */
export async function problem(response, status, code) {
  const text = await response.text();
  return checkProblem({ status: response.status, type: response.headers.get("content-type"), text }, status, code);
}

/** Checks the parts of an answer that make it a problem of this status and code. */
export function checkProblem(answer, status, code) {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.type, "application/problem+json", answer.text);
  const body = JSON.parse(answer.text);
  assert.equal(body.code, code, answer.text);
  assert.equal(body.status, status, answer.text);
  assert.equal(body.type, `/problems/${code}`, answer.text);
  for (const name of ["title", "detail", "requestId"])
    assert.ok(typeof body[name] === "string" && body[name] !== "", `${name} of ${answer.text}`);
  for (const name of ["retryable", "safeToPayAgain"])
    assert.equal(typeof body[name], "boolean", `${name} of ${answer.text}`);
  assert.ok(nextActions.includes(body.nextAction), `nextAction of ${answer.text}`);
  return body;
}

/** Signs in and returns the headers of the session. */
export async function signIn(baseUrl, account, scheme) {
  const challenge = await json(
    await post(baseUrl, "/api/auth/challenge", { address: account.address, preferredMessageSchemes: [scheme] }),
  );
  assert.equal(challenge.messageScheme, scheme);
  const signature = await signChallenge(account, challenge);
  const session = await json(
    await post(baseUrl, "/api/auth/verify", {
      address: account.address,
      signature,
      intentId: challenge.intentId,
      messageScheme: scheme,
    }),
  );
  assert.equal(session.wallet, account.address);
  assert.equal(session.tokenType, "Bearer");
  return { authorization: `Bearer ${session.accessToken}` };
}

/** The owner's signature of a challenge, in its scheme. */
export function signChallenge(account, challenge) {
  if (challenge.messageScheme === "eip712") return account.signTypedData(challenge.typedData);
  return account.signMessage({ message: challenge.message });
}

/** What only something that hangs takes, on however busy a machine. */
export const hangsAfter = 300_000;

/** Asks again until the answer satisfies. */
export async function poll(what, ask, satisfies) {
  const deadline = Date.now() + hangsAfter;
  for (;;) {
    const answer = await ask();
    if (satisfies(answer)) return answer;
    assert.ok(Date.now() < deadline, `${what} did not come within ${hangsAfter} ms; last: ${JSON.stringify(answer)}`);
    await delay(200);
  }
}

/** GETs JSON with a session. */
export async function get(baseUrl, path, session) {
  return json(await fetch(baseUrl + path, { headers: session }));
}
