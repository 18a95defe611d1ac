// What crawlers of paid APIs make of the service: @agentcash/discovery, and the validators of the x402 packages.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  checkEndpointSchema,
  checkL2ForOpenAPI,
  checkL4ForOpenAPI,
  discoverOriginSchema,
  getOpenAPI,
  getWarningsForFavicon,
  getWarningsForL2,
  getWarningsForL3,
  getWarningsForL4,
  getWarningsForOpenAPI,
  validatePaymentRequiredDetailed,
} from "@agentcash/discovery";
import { x402HTTPClient } from "@x402/core/client";
import { parsePaymentRequired } from "@x402/core/schemas";
import {
  extractDiscoveryInfo, validateDiscoveryExtension, validateDiscoveryExtensionSpec,
} from "@x402/extensions/bazaar";

const base = process.env.ROAMCARD_URL;
const openapi = await (await fetch(`${base}/openapi.json`)).json();

/** Paid operations at one address; a payable order has its own. */
const paid = Object.entries(openapi.paths)
  .filter(([path]) => !path.includes("{"))
  .flatMap(([path, verbs]) => Object.entries(verbs).map(([verb, operation]) => ({ path, verb, operation })))
  .filter(({ operation }) => operation["x-payment-info"] !== undefined);

/**
 * Warnings that are accepted: that tool knows no bearer tokens, and counts the routes of a document that is never
 * injected whole.
 */
const accepted = ["L2_AUTH_MODE_MISSING", "L3_AUTH_MODE_MISSING", "L2_ROUTE_COUNT_HIGH"];

test("the origin is discovered by its OpenAPI document, with prices", async () => {
  const found = await discoverOriginSchema({ target: base });
  assert.equal(found.found, true);
  assert.equal(found.source, "openapi");
  for (const { path, verb, operation } of paid) {
    const endpoint = found.endpoints.find((e) => e.path === path && e.method.toLowerCase() === verb);
    assert.ok(endpoint, `${verb} ${path} is found`);
    assert.equal(endpoint.authMode, "paid");
    assert.deepEqual(endpoint.protocols, ["x402"]);
    const { price } = operation["x-payment-info"];
    assert.ok(endpoint.price.includes(price.amount ?? price.max), `${path} costs ${endpoint.price}`);
  }
});

test("the audit has nothing to say beyond what is accepted", async () => {
  const document = await getOpenAPI(base).then((r) => r.unwrapOr(null));
  assert.ok(document);
  const warnings = [
    ...getWarningsForOpenAPI(document),
    ...getWarningsForL2(checkL2ForOpenAPI(document)),
    ...getWarningsForL4(checkL4ForOpenAPI(document)),
    ...(await getWarningsForFavicon(base)).unwrapOr([]),
  ];
  assert.deepEqual(warnings.filter((w) => !accepted.includes(w.code)), []);
});

for (const { path, operation } of paid) {
  test(`${path}: an empty probe finds a paid endpoint`, async () => {
    const result = await checkEndpointSchema({ url: base + path, probe: true });
    assert.equal(result.found, true);
    const advice = result.advisories.find((a) => a.method === "POST");
    assert.equal(advice.source, "probe");
    assert.equal(advice.authMode, "paid");
    assert.deepEqual(advice.paymentOptions.map((o) => [o.protocol, o.version, o.scheme, o.network]),
      [["x402", 2, "exact", "eip155:8453"]]);
    const warnings = getWarningsForL3(advice).filter((w) => !accepted.includes(w.code));
    assert.deepEqual(warnings, []);
  });

  test(`${path}: the challenge and its bazaar extension are valid`, async () => {
    const response = await fetch(base + path, { method: "POST" });
    assert.equal(response.status, 402);
    const header = response.headers.get("payment-required");
    assert.ok(header.length < 4096, `the challenge has ${header.length} bytes`);
    const challenge = JSON.parse(Buffer.from(header, "base64").toString());
    const parsed = parsePaymentRequired(challenge);
    assert.equal(parsed.success, true, JSON.stringify(parsed.error));
    assert.equal(challenge.resource.url, base + path);

    const { bazaar } = challenge.extensions;
    assert.deepEqual(validateDiscoveryExtension(bazaar), { valid: true });
    assert.deepEqual(validateDiscoveryExtensionSpec(bazaar), { valid: true });
    assert.equal(bazaar.info.input.method, "POST");

    const detailed = validatePaymentRequiredDetailed(challenge, { compareWithHeaders: response.headers });
    assert.equal(detailed.valid, true, JSON.stringify(detailed.issues));
    assert.equal(detailed.summary.warnCount, 0, JSON.stringify(detailed.issues));

    // A facilitator lists by what is next to the payment: /settle is told the challenge's resource and extensions.
    const { accepts, resource, extensions } = challenge;
    const sent = { x402Version: 2, accepted: accepts[0], payload: {}, resource, extensions };
    const listed = extractDiscoveryInfo(sent, challenge.accepts[0]);
    assert.deepEqual([listed?.resourceUrl, listed?.method], [base + path, "POST"]);

    // The header of version 1, as the reference client writes it, is told what is taken instead.
    const old = new x402HTTPClient().encodePaymentSignatureHeader(
      { x402Version: 1, scheme: "exact", network: "base", payload: {} });
    assert.deepEqual(Object.keys(old), ["X-PAYMENT"]);
    const told = await fetch(base + path, { method: "POST", headers: old });
    assert.equal(told.status, 402);
    assert.match((await told.json()).detail, /x402 version 2 only/);
    const terms = JSON.parse(Buffer.from(told.headers.get("payment-required"), "base64").toString());
    assert.deepEqual([terms.error, parsePaymentRequired(terms).success], ["invalid_x402_version", true]);

    const { price } = operation["x-payment-info"];
    const dollars = Number(challenge.accepts[0].amount) / 1e6;
    if (price.mode === "fixed") assert.equal(dollars, Number(price.amount));
    else assert.ok(dollars >= Number(price.min) && dollars <= Number(price.max));
  });
}

test("there are paid routes", () => assert.ok(paid.length >= 2));
