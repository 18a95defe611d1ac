// Everything a stranger may get wrong: told precisely, never a server error, never a payment.
import assert from "node:assert/strict";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { checkProblem, newKey, purchaseLeg, purchasePath } from "./support/api.mjs";
import { headerOf, signAuthorization, signPayment, termsOf } from "./support/payer.mjs";
import { send } from "./support/raw.mjs";
import { bystander, chain, dev, scenario } from "./support/shared.mjs";

const json = { "content-type": "application/json" };
const good = JSON.stringify({ idempotencyKey: "k" });
const text = (value) => JSON.stringify({ idempotencyKey: value });
const curveOrder = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

// [what, status, code, request]; a code of undefined means that only the status is promised.
const requests = [
  ["a key of 200 characters", 402, "payment_required", { body: text("k".repeat(200)) }],
  ["a key of 200 characters outside the basic plane", 402, "payment_required", { body: text("😀".repeat(200)) }],
  [
    "a charset",
    402,
    "payment_required",
    { body: good, headers: { "content-type": "application/json; charset=utf-8" } },
  ],
  ["no body at all", 402, "payment_required", { headers: {} }],
  ["an empty body", 402, "payment_required", { body: "" }],
  ["an empty object", 400, "schema_invalid", { body: "{}" }],
  ["an empty key", 400, "schema_invalid", { body: text("") }],
  ["a key of 201 characters", 400, "schema_invalid", { body: text("k".repeat(201)) }],
  ["a key that is a number", 400, "schema_invalid", { body: text(1) }],
  ["a key that is null", 400, "schema_invalid", { body: text(null) }],
  ["a key that is an object", 400, "schema_invalid", { body: text({}) }],
  ["a key with NUL", 400, "schema_invalid", { body: text("a\0b") }],
  ["half a surrogate pair", 400, "schema_invalid", { body: '{"idempotencyKey":"\\ud800"}' }],
  ["an unknown member", 400, "schema_invalid", { body: '{"idempotencyKey":"k","planId":"p"}' }],
  ["a member in snake_case", 400, "schema_invalid", { body: '{"idempotency_key":"k"}' }],
  ["a member in other case", 400, "schema_invalid", { body: '{"idempotencykey":"k"}' }],
  ["a member twice", 400, "schema_invalid", { body: '{"idempotencyKey":"k","idempotencyKey":"k"}' }],
  [
    "a member twice, once escaped",
    400,
    "schema_invalid",
    { body: '{"idempotencyKey":"k","idempotency\\u004bey":"l"}' },
  ],
  ["a truncated body", 400, "schema_invalid", { body: good.slice(0, -4) }],
  ["something after the body", 400, "schema_invalid", { body: good + good }],
  ["an array", 400, "schema_invalid", { body: `[${good}]` }],
  ["a null body", 400, "schema_invalid", { body: "null" }],
  ["a byte order mark", 400, "schema_invalid", { body: "\ufeff" + good }],
  ["bytes that are not UTF-8", 400, "schema_invalid", { body: Buffer.from('{"idempotencyKey":"\xff"}', "latin1") }],
  ["deep nesting", 400, "schema_invalid", { body: `{"idempotencyKey":${"[".repeat(1500)}${"]".repeat(1500)}}` }],
  ["a query", 400, "schema_invalid", { body: good, path: `${purchasePath}?amountUsdCents=1` }],
  ["a body of 5 kB", 413, "body_too_large", { body: text("k".repeat(5000)) }],
  ["a body of 1 MB", 413, "body_too_large", { body: text("k".repeat(1 << 20)) }],
  ["plain text", 415, "media_type_unsupported", { body: good, headers: { "content-type": "text/plain" } }],
  [
    "a form",
    415,
    "media_type_unsupported",
    { body: "idempotencyKey=k", headers: { "content-type": "application/x-www-form-urlencoded" } },
  ],
  ["no content type", 415, "media_type_unsupported", { body: good, headers: {} }],
  [
    "another charset",
    415,
    "media_type_unsupported",
    { body: good, headers: { "content-type": "application/json; charset=latin1" } },
  ],
  [
    "a compressed body",
    415,
    "media_type_unsupported",
    { body: good, headers: { ...json, "content-encoding": "gzip" } },
  ],
  ["GET", 405, "method_not_allowed", { method: "GET", headers: {} }],
  ["PUT", 405, "method_not_allowed", { method: "PUT", body: good }],
  ["DELETE", 405, "method_not_allowed", { method: "DELETE", headers: {} }],
  ["HEAD", 405, undefined, { method: "HEAD", headers: {} }],
  ["an unknown path", 404, "route_not_found", { body: good, path: "/api/card/purchased" }],
  ["an unknown path to read", 404, "route_not_found", { method: "GET", headers: {}, path: "/nothing" }],
  ["a slash at the end", 404, "route_not_found", { body: good, path: `${purchasePath}/` }],
  ["another case of the path", 404, "route_not_found", { body: good, path: "/api/Card/purchase" }],
  ["an unknown procedure", 404, undefined, { body: "{}", path: "/roamcard.v1.CardService/Nothing" }],
];

scenario("bad requests", async (t) => {
  const before = await chain.snapshot(bystander);
  for (const [what, status, code, request] of requests) {
    await t.test(`${what}: ${status}`, async () => {
      const answer = await send(dev.baseUrl, { path: purchasePath, headers: json, ...request });
      check(answer, status, code);
      if (status === 405)
        assert.ok(
          (answer.headers.allow ?? "").split(", ").every((m) => m !== "HEAD"),
          `Allow: ${answer.headers.allow}`,
        );
      if (status === 405 && request.path === undefined) assert.match(answer.headers.allow ?? "", /\bPOST\b/);
      if (status === 404) assert.equal(answer.headers.location, undefined, "a redirect");
    });
  }
  await t.test("HEAD is no bad request on a route to read", async () => {
    const answer = await send(dev.baseUrl, { method: "HEAD", headers: {}, path: "/api/config" });
    assert.equal(answer.status, 200);
  });
  await t.test("names the member that is wrong", async () => {
    for (const [body, path] of [
      ['{"idempotencyKey":"k","planId":"p"}', "planId"],
      ["{}", "idempotencyKey"],
      [text(""), "idempotencyKey"],
    ]) {
      const problem = check(
        await send(dev.baseUrl, { path: purchasePath, headers: json, body }),
        400,
        "schema_invalid",
      );
      assert.deepEqual(
        problem.fields.map((f) => f.path),
        [path],
        body,
      );
      for (const f of problem.fields) assert.ok(f.rule && f.message, JSON.stringify(f));
    }
  });
  await chain.assertPaid(before, [bystander], [0]);
});

const r = {
  network: "invalid_exact_evm_network_mismatch",
  asset: "invalid_payment_requirements",
  recipient: "invalid_exact_evm_recipient_mismatch",
  value: "invalid_exact_evm_payload_authorization_value_mismatch",
  after: "invalid_exact_evm_payload_authorization_valid_after",
  before: "invalid_exact_evm_payload_authorization_valid_before",
  signature: "invalid_exact_evm_signature",
  form: "invalid_exact_evm_failed_to_parse_signature",
};
const stranger = "0x000000000000000000000000000000000000dEaD";
const now = () => Math.floor(Date.now() / 1000);
const signed = (changes, domain) => async (terms, wallet) =>
  headerOf(await signAuthorization(wallet, terms, changes, domain));
const accepted = (changes) => edited((p) => ({ ...p, accepted: { ...p.accepted, ...changes } }));
const authorized = (changes) =>
  edited((p) => ({ ...p, payload: { ...p.payload, authorization: { ...p.payload.authorization, ...changes } } }));
const signature = (change) =>
  edited((p) => ({ ...p, payload: { ...p.payload, signature: change(p.payload.signature) } }));
const edited = (change) => async (terms, wallet) => encode(JSON.stringify(change(await signPayment(wallet, terms))));
const rewritten = (change) => async (terms, wallet) => encode(change(JSON.stringify(await signPayment(wallet, terms))));
const encode = (s) => Buffer.from(s).toString("base64");

function base64url(header) {
  assert.match(header, /[+/]/);
  return header.replaceAll("+", "-").replaceAll("/", "_");
}

// What is no payment at all: [what, how the header is made of (terms, wallet)].
const malformed = [
  ["text that is not base64", () => "not base64!"],
  ["base64 of something else", () => encode("hello")],
  ["base64 of an array", () => encode("[]")],
  ["base64url", async (...to) => base64url(await edited((p) => ({ ...p, extensions: { note: "???>>>~~~" } }))(...to))],
  ["a member twice", rewritten((s) => s.replace('"x402Version":2', '"x402Version":2,"x402Version":2'))],
  ["half of the header", rewritten((s) => s.slice(0, s.length / 2))],
  ["a header of 20 kB", rewritten((s) => s + " ".repeat(15_000))],
  ["no authorization", edited((p) => ({ ...p, payload: { signature: p.payload.signature } }))],
  ["a further member in the authorization", authorized({ memo: "x" })],
  ["a value that is a number", authorized({ value: 25000000 })],
  ["a value with a sign", authorized({ value: "+25000000" })],
  ["a value with a leading zero", authorized({ value: "025000000" })],
  ["a value in hex", authorized({ value: "0x17d7840" })],
  ["a negative value", authorized({ value: "-25000000" })],
  ["a short nonce", authorized({ nonce: "0x01" })],
  ["a payer that is no address", authorized({ from: "0x1234" })],
  ["a signature that is not hex", signature(() => "0xzz")],
];

// What is a payment that does not do: [what, the reason in the new challenge, how the header is made].
const refused = [
  ["version 1", "invalid_x402_version", edited((p) => ({ ...p, x402Version: 1 }))],
  ["the scheme upto", "invalid_exact_evm_scheme", accepted({ scheme: "upto" })],
  [
    "permit2",
    "unsupported_payload_type",
    edited((p) => ({ ...p, payload: { signature: p.payload.signature, permit2Authorization: {} } })),
  ],
  ["another network accepted", r.network, accepted({ network: "eip155:84532" })],
  ["another spelling of the network", r.network, accepted({ network: "eip155:08453" })],
  ["another asset accepted", r.asset, accepted({ asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e" })],
  ["another payee accepted", r.recipient, accepted({ payTo: stranger })],
  ["another amount accepted", r.value, accepted({ amount: "24999999" })],
  ["another payee signed", r.recipient, signed({ to: stranger })],
  ["a unit less", r.value, signed({ value: "24999999" })],
  ["a unit more", r.value, signed({ value: "25000001" })],
  ["nothing", r.value, signed({ value: "0" })],
  ["everything", r.value, signed({ value: String(2n ** 256n - 1n) })],
  ["an expired authorization", r.before, async (...to) => signed({ validBefore: String(now() - 1) })(...to)],
  ["an authorization about to expire", r.before, async (...to) => signed({ validBefore: String(now() + 10) })(...to)],
  [
    "an authorization for ten years",
    r.before,
    async (...to) => signed({ validBefore: String(now() + 315360000) })(...to),
  ],
  ["an authorization for later", r.after, async (...to) => signed({ validAfter: String(now() + 60) })(...to)],
  ["the name of the test token", r.signature, signed({}, { name: "USDC" })],
  ["another version of the token", r.signature, signed({}, { version: "1" })],
  ["the domain of another chain", r.signature, signed({}, { chainId: 84532 })],
  ["the domain of another token", r.signature, signed({}, { verifyingContract: stranger })],
  ["somebody else's signature", r.signature, authorized({ from: stranger })],
  ["an altered nonce", r.signature, authorized({ nonce: `0x${"01".repeat(32)}` })],
  ["the upper half of s", r.signature, signature(highS)],
  ["a v of 29", r.signature, signature((s) => `${s.slice(0, -2)}1d`)],
  // Of an account that shows no code, and may have it soon.
  ["a signature of 66 bytes", r.signature, signature((s) => `${s}00`)],
  ["the signature of a contract wallet", r.signature, signature((s) => `0x${s.slice(2).repeat(3)}`)],
  ["a compact signature of 64 bytes", r.form, signature((s) => s.slice(0, 130))],
  ["an empty signature", r.form, signature(() => "0x")],
  ["a wallet without money", "invalid_exact_evm_insufficient_balance",
    async (terms) => headerOf(await signPayment(privateKeyToAccount(generatePrivateKey()), terms))],
];

// What no signature of the same account can pay: a client that is asked again would sign again, for ever.
const ofOtherKinds = [
  ["the signature of an account that no factory makes", signature((s) => s + "6492".repeat(16))],
];

scenario("bad payments", async (t) => {
  const before = await chain.snapshot(bystander);
  const key = newKey();
  const terms = termsOf(await purchaseLeg(dev.baseUrl, key));
  const pay = (header) =>
    send(dev.baseUrl, {
      path: purchasePath,
      headers: { ...json, "payment-signature": header },
      body: JSON.stringify({ idempotencyKey: key }),
    });
  for (const [what, make] of malformed) {
    await t.test(`${what}: 400`, async () => {
      const answer = await pay(await make(terms, bystander));
      check(answer, 400, "payment_malformed");
      assert.equal(answer.headers["payment-required"], undefined, "PAYMENT-REQUIRED for what is no payment");
      assert.equal(answer.headers["payment-response"], undefined, "PAYMENT-RESPONSE without a settlement");
    });
  }
  for (const [what, reason, make] of refused) {
    await t.test(`${what}: 402`, async () => {
      const answer = await pay(await make(terms, bystander));
      check(answer, 402, "payment_rejected");
      assert.equal(answer.headers["payment-response"], undefined, "PAYMENT-RESPONSE without a settlement");
      checkChallenge(answer, terms, reason);
    });
  }
  for (const [what, make] of ofOtherKinds) {
    await t.test(`${what}: 403, and no challenge`, async () => {
      const answer = await pay(await make(terms, bystander));
      check(answer, 403, "payer_kind_not_accepted");
      assert.equal(answer.headers["payment-required"], undefined, "PAYMENT-REQUIRED for an account that cannot pay");
    });
  }
  await t.test("two payment headers: 400", async () => {
    // Neither would be taken alone, so a service that reads only one of them moves nothing either.
    const header = await signed({ value: "24999999" })(terms, bystander);
    check(await pay([header, header]), 400, "payment_malformed");
  });
  await t.test("two payments in one header: 400", async () => {
    const header = await signed({ value: "24999999" })(terms, bystander);
    check(await pay(`${header}, ${header}`), 400, "payment_malformed");
  });
  await t.test("an empty payment header: 400 or the ordinary 402", async () => {
    const answer = await pay("");
    check(answer, answer.status === 400 ? 400 : 402, answer.status === 400 ? "payment_malformed" : "payment_required");
  });
  await t.test("a header of 100 kB: 400 or 431", async () => {
    const answer = await pay("A".repeat(100_000));
    assert.ok([400, 431].includes(answer.status), `status ${answer.status}`);
  });
  await t.test("a good payment with a bad body is a bad request: 400", async () => {
    const header = headerOf(await signPayment(bystander, terms));
    for (const body of ["{}", '{"idempotencyKey":"k","x":1}', ""]) {
      const answer = await send(dev.baseUrl, {
        path: purchasePath,
        headers: { ...json, "payment-signature": header },
        body,
      });
      check(answer, 400, "schema_invalid");
    }
  });
  await chain.assertPaid(before, [bystander], [0]);
});

scenario("a browser of another origin may pay", async () => {
  const origin = "https://shop.example";
  const asked = ["content-type", "payment-signature", "access-control-expose-headers"];
  const preflight = await send(dev.baseUrl, {
    method: "OPTIONS",
    path: purchasePath,
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": asked.toSorted().join(","),
    },
  });
  assert.ok(preflight.status === 200 || preflight.status === 204, `status ${preflight.status}: ${preflight.text}`);
  assert.ok(["*", origin].includes(preflight.headers["access-control-allow-origin"]), "Access-Control-Allow-Origin");
  const allowed = (preflight.headers["access-control-allow-headers"] ?? "").toLowerCase();
  for (const name of asked) assert.ok(allowed.includes(name), `${name} in Access-Control-Allow-Headers: ${allowed}`);

  const answer = await send(dev.baseUrl, { path: purchasePath, headers: { ...json, origin }, body: good });
  const exposed = (answer.headers["access-control-expose-headers"] ?? "").toLowerCase();
  for (const name of ["payment-required", "payment-response", "retry-after"])
    assert.ok(exposed.includes(name), `${name} in ${exposed}`);
});

function check(answer, status, code) {
  assert.ok(answer.status < 500, `a server error: ${answer.status} ${answer.text}`);
  assert.equal(answer.status, status, answer.text);
  return code && checkProblem(answer, status, code);
}

/** A refused payment is told why, and how to pay right. */
function checkChallenge(answer, terms, reason) {
  const fresh = termsOf({
    status: answer.status,
    headers: new Headers({ "payment-required": answer.headers["payment-required"] }),
  });
  assert.equal(fresh.error, reason);
  const { extra: { quoteId: _, ...extra }, ...offer } = fresh.accepts[0];
  const { extra: { quoteId: __, ...wantExtra }, ...want } = terms.accepts[0];
  assert.deepEqual({ ...offer, extra }, { ...want, extra: wantExtra });
}

/** The twin of a signature that recovers to the same account, which USDC refuses. */
function highS(text) {
  const s = curveOrder - BigInt(`0x${text.slice(66, 130)}`);
  const v = text.slice(130) === "1b" ? "1c" : "1b";
  return text.slice(0, 66) + s.toString(16).padStart(64, "0") + v;
}
