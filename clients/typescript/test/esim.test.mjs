// An eSIM bought by the official client: inline, late, again, and by somebody else.
import assert from "node:assert/strict";
import { wrapFetchWithPayment } from "@x402/fetch";
import jsQR from "jsqr";
import { PNG } from "pngjs";
import { get, json, newKey, poll, post, problem, signIn } from "./support/api.mjs";
import { headerOf, payerClient, receiptOf, signPayment, termsOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

const path = "/api/esim/purchase";

/** A whole purchase by the official client, within its own cap of $1. */
const buy = (account, body, headers = {}) =>
  post(dev.baseUrl, path, body, headers, wrapFetchWithPayment(fetch, payerClient(account, null)));

/** One leg with a payment of the test's own. */
const leg = (body, header, more = {}) => post(dev.baseUrl, path, body, { "payment-signature": header, ...more });

const plans = async (query = "") => (await get(dev.baseUrl, `/api/esim/plans${query}`)).plans;
const withToken = (token) => ({ "x-esim-delivery-token": token });
const control = (what, body) => post(dev.sandboxUrl, `/control/esim/${what}`, body).then((r) => json(r));
const supplierBooks = async () => json(await fetch(`${dev.sandboxUrl}/control/esim/books`));

/** What the QR code of an answer says. */
function scan(credentials) {
  const prefix = "data:image/png;base64,";
  assert.ok(credentials.qrPng.startsWith(prefix));
  const picture = PNG.sync.read(Buffer.from(credentials.qrPng.slice(prefix.length), "base64"));
  return jsQR(new Uint8ClampedArray(picture.data), picture.width, picture.height)?.data;
}

function checkCredentials(c) {
  assert.match(c.iccid, /^89\d{16,18}$/);
  assert.equal(c.lpa, `LPA:1$${c.smdpAddress}$${c.matchingId}`);
  assert.equal(scan(c), c.lpa);
  assert.match(c.qrSvg, /^<svg [^]*<\/svg>$/);
  assert.equal(
    c.installUrls.ios,
    `https://esimsetup.apple.com/esim_qrcode_provisioning?carddata=${encodeURIComponent(c.lpa)}`,
  );
  assert.equal(
    c.installUrls.android,
    `https://esimsetup.android.com/esim_qrcode_provisioning?carddata=${encodeURIComponent(c.lpa)}`,
  );
}

/** Checks that since then a payer has paid these amounts, one transfer each. */
async function assertTransfers(account, before, amounts) {
  const logs = (await chain.transfers(account.address)).slice(before.length);
  assert.deepEqual(logs.map((log) => log.args.value), amounts.map(BigInt));
}

scenario("the cheapest plan is bought and installed from the answer", async () => {
  const account = buyer();
  const before = await chain.transfers(account.address);
  const [cheapest] = await plans();
  const response = await buy(account, { idempotencyKey: newKey() });
  assert.match(response.headers.get("cache-control"), /no-store/);
  assert.equal(receiptOf(response).success, true);
  const order = await json(response);
  assert.equal(order.kind, "esim");
  assert.equal(order.status, "fulfilled");
  assert.equal(order.delivery.status, "fulfilled");
  assert.equal(order.delivery.planId, cheapest.planId);
  assert.equal(order.amountUsdCents, cheapest.priceUsdCents);
  checkCredentials(order.credentials);
  await assertTransfers(account, before, [cheapest.amount]);

  const token = withToken(order.delivery.token);
  const days = (Date.parse(order.delivery.tokenExpiresAt) - Date.parse(order.createdAt)) / 86_400_000;
  assert.equal(days, 30);
  const shown = await get(dev.baseUrl, `/api/esim/orders/${order.orderId}`, token);
  assert.equal(shown.status, "fulfilled");
  assert.equal(shown.credentials, undefined);
  assert.equal(shown.delivery.token, undefined);
  const fetched = await fetch(`${dev.baseUrl}/api/esim/orders/${order.orderId}/credentials`, { headers: token });
  assert.match(fetched.headers.get("cache-control"), /no-store/);
  assert.deepEqual(await json(fetched), order.credentials);
});

scenario("the catalogue is wide, filtered, and tells nothing of its supplier", async () => {
  const all = await plans();
  const countries = new Set(all.filter((p) => p.type === "country").flatMap((p) => p.countryCodes));
  assert.ok(
    all.length >= 150 &&
      countries.size >= 60 &&
      new Set(all.filter((p) => p.type === "region").map((p) => p.countryCodes.join())).size >= 8,
  );
  assert.deepEqual(
    all.map((p) => p.priceUsdCents),
    all.map((p) => p.priceUsdCents).sort((a, b) => a - b),
  );
  for (const p of all) {
    assert.deepEqual(Object.keys(p).sort(), [
      "amount",
      "asset",
      "countryCodes",
      ...(p.unlimited ? ["fairUse"] : ["dataMb"]),
      "name",
      "network",
      "planId",
      "priceUsdCents",
      "type",
      "unlimited",
      "validityDays",
    ]);
    assert.equal(p.amount, String(p.priceUsdCents * 10_000));
    assert.ok(p.priceUsdCents >= 1 && p.priceUsdCents <= 25_000);
  }
  const unlimited = all.filter((p) => p.unlimited).map((p) => p.type);
  assert.ok(unlimited.includes("region") && unlimited.includes("country"));
  const japan = await plans("?countryCode=jp");
  assert.ok(japan.some((p) => p.type === "region") && japan.every((p) => p.countryCodes.includes("JP")));
  assert.deepEqual(await plans("?countryCode=JP"), japan);
  assert.ok(
    (await plans("?countryCode=JP&type=country")).every((p) => p.type === "country" && p.countryCodes.join() === "JP"),
  );
  for (const unknown of ["AQ", "XX"]) assert.deepEqual(await plans(`?countryCode=${unknown}`), []);
  for (const query of ["countryCode=J", "countryCode=JPN", "countryCode=", "type=city", "supplier=sandbox"]) {
    await problem(await fetch(`${dev.baseUrl}/api/esim/plans?${query}`), 400, "schema_invalid");
  }
});

scenario("a plan is bought by its id, and a wrong one is not", async () => {
  const account = buyer();
  const plan = (await plans("?countryCode=JP&type=country"))[0];
  const order = await json(await buy(account, { planId: plan.planId, idempotencyKey: newKey() }));
  assert.equal(order.delivery.planId, plan.planId);
  for (const body of [
    { planId: "pln_none" },
    { planId: "" },
    { planId: 7 },
    { planId: null },
    { plan: plan.planId },
    { planId: "x".repeat(65) },
  ]) {
    await problem(await post(dev.baseUrl, path, { ...body, idempotencyKey: newKey() }), 400, "schema_invalid");
  }
});

scenario("with the supplier slowed the answer comes before the eSIM, and the token fetches it later", async () => {
  const account = buyer();
  await control("pace", { allocateMs: 30_000 });
  try {
    const terms = termsOf(await post(dev.baseUrl, path, { idempotencyKey: "unpaid" }));
    const key = newKey();
    const quoted = termsOf(await post(dev.baseUrl, path, { idempotencyKey: key }));
    assert.equal(quoted.accepts[0].amount, terms.accepts[0].amount);
    const header = headerOf(await signPayment(account, quoted));
    // It waits for 15 s; how long a machine takes for that is not asked.
    const order = await json(await leg({ idempotencyKey: key }, header));
    assert.equal(order.delivery.status, "pending");
    assert.equal(order.credentials, undefined);
    const token = withToken(order.delivery.token);
    await problem(
      await fetch(`${dev.baseUrl}/api/esim/orders/${order.orderId}/credentials`, { headers: token }),
      409,
      "order_not_fulfilled",
    );
    const done = await poll(
      "the eSIM",
      () => get(dev.baseUrl, `/api/esim/orders/${order.orderId}`, token),
      (o) => o.delivery.status === "fulfilled",
    );
    assert.equal(done.orderId, order.orderId);
    checkCredentials(await get(dev.baseUrl, `/api/esim/orders/${order.orderId}/credentials`, token));
  } finally {
    await control("pace", { allocateMs: 300 });
  }
});

scenario("a repeat is the same order, and shows secrets only to who proves more than the chain tells", async () => {
  const account = buyer();
  const before = await chain.transfers(account.address);
  const key = newKey();
  const terms = termsOf(await post(dev.baseUrl, path, { idempotencyKey: key }));
  const header = headerOf(await signPayment(account, terms));
  const order = await json(await leg({ idempotencyKey: key }, header));
  const same = (o) => assert.deepEqual([o.orderId, o.payment, o.replayed], [order.orderId, order.payment, true]);

  const again = await json(await leg({ idempotencyKey: key }, header));
  same(again);
  assert.deepEqual(again.credentials, order.credentials);
  assert.equal(again.delivery.token, order.delivery.token);
  const fresh = await json(await leg({ idempotencyKey: key }, headerOf(await signPayment(account, terms))));
  same(fresh);
  assert.deepEqual(fresh.credentials, order.credentials);
  await assertTransfers(account, before, [order.payment.amount]);

  // A key that can be guessed, with a header that can be rebuilt from the chain: the same order, no secrets.
  const short = `k${Date.now() % 1e9}`;
  const shortHeader = headerOf(
    await signPayment(account, termsOf(await post(dev.baseUrl, path, { idempotencyKey: short }))),
  );
  const first = await json(await leg({ idempotencyKey: short }, shortHeader));
  checkCredentials(first.credentials);
  const rebuilt = await json(await leg({ idempotencyKey: short }, shortHeader));
  assert.equal(rebuilt.orderId, first.orderId);
  assert.equal(rebuilt.credentials, undefined);
  assert.equal(rebuilt.delivery.token, undefined);
  // Another payment of the same wallet is on the chain too, and proves no more.
  const spent = await json(await leg({ idempotencyKey: short }, header));
  assert.equal(spent.credentials, undefined);
  // The owner's session proves it.
  const session = await signIn(dev.baseUrl, account, "eip191");
  const owned = await json(await leg({ idempotencyKey: short }, shortHeader, session));
  assert.deepEqual(owned.credentials, first.credentials);
  const stranger = await signIn(dev.baseUrl, buyer(), "eip191");
  assert.equal((await json(await leg({ idempotencyKey: short }, shortHeader, stranger))).credentials, undefined);
  await problem(
    await leg({ idempotencyKey: key, planId: order.delivery.planId }, header),
    409,
    "idempotency_key_reused",
  );
});

scenario("an order is opened by its owner and its token, and by nobody else", async () => {
  const account = buyer();
  const other = buyer();
  const order = await json(await buy(account, { idempotencyKey: newKey() }));
  const foreign = await json(await buy(other, { idempotencyKey: newKey() }));
  const owner = await signIn(dev.baseUrl, account, "eip712");
  const stranger = await signIn(dev.baseUrl, other, "eip191");
  const at = `${dev.baseUrl}/api/esim/orders/${order.orderId}`;
  for (const url of [at, `${at}/credentials`]) {
    await problem(await fetch(url), 401, "session_invalid");
    await problem(await fetch(url, { headers: { authorization: "Bearer rcs_wrong" } }), 401, "session_invalid");
    await problem(await fetch(url, { headers: stranger }), 404, "order_not_found");
    await problem(await fetch(url, { headers: withToken(foreign.delivery.token) }), 404, "order_not_found");
    await problem(await fetch(url, { headers: withToken("edt_wrong") }), 404, "order_not_found");
    await json(await fetch(url, { headers: owner }));
    await json(await fetch(url, { headers: { ...owner, ...withToken("edt_wrong") } }));
    for (const none of ["", "wrong", order.delivery.token.slice(4)]) {
      await problem(await fetch(url, { headers: withToken(none) }), 401, "session_invalid");
      await problem(await fetch(url, { headers: { ...owner, ...withToken(none) } }), 401, "session_invalid");
    }
  }
  await problem(await fetch(`${dev.baseUrl}/api/esim/orders/ord_unknown`, { headers: owner }), 404, "order_not_found");

  const rotate = (headers) => fetch(`${at}/rotate-token`, { method: "POST", headers });
  await problem(await rotate(withToken(order.delivery.token)), 401, "session_invalid");
  await problem(await rotate(stranger), 404, "order_not_found");
  const rotated = await json(await rotate(owner));
  assert.notEqual(rotated.token, order.delivery.token);
  await problem(await fetch(`${at}/credentials`, { headers: withToken(order.delivery.token) }), 404, "order_not_found");
  assert.deepEqual(
    await get(dev.baseUrl, `${at.slice(dev.baseUrl.length)}/credentials`, withToken(rotated.token)),
    order.credentials,
  );
  const listed = (await get(dev.baseUrl, "/api/orders", owner)).orders;
  assert.deepEqual(
    listed.map((o) => [o.orderId, o.credentials, o.delivery.token]),
    [[order.orderId, undefined, undefined]],
  );
});

scenario("the sandbox's triggers: refused by the supplier, price changed, out of stock", async () => {
  const account = buyer();
  const before = await chain.transfers(account.address);
  for (const trigger of ["~008", "~009"]) {
    await problem(await buy(account, { idempotencyKey: newKey(trigger) }), 409, "terms_changed");
  }
  await assertTransfers(account, before, []);
  const order = await json(await buy(account, { idempotencyKey: newKey("~002") }));
  assert.equal(order.credentials, undefined);
  assert.ok(["operator_review", "refund_pending", "refunded"].includes(order.status), order.status);
  const books = await supplierBooks();
  for (const count of Object.values(books.executed)) assert.equal(count, 1);
});

scenario("a plan that runs out between quote and payment costs nothing", async () => {
  const account = buyer();
  const before = await chain.transfers(account.address);
  const plan = (await plans("?countryCode=MU&type=country"))[0];
  const key = newKey();
  const body = { planId: plan.planId, idempotencyKey: key };
  const header = headerOf(await signPayment(account, termsOf(await post(dev.baseUrl, path, body))));
  await control("plans/mu-500mb-1d", { units: 0 });
  try {
    await problem(await leg(body, header), 409, "terms_changed");
    await problem(await post(dev.baseUrl, path, body), 409, "terms_changed");
  } finally {
    await control("plans/mu-500mb-1d", { units: -1 });
  }
  await assertTransfers(account, before, []);
  await poll(
    "the plan's return",
    () => plans("?countryCode=MU&type=country"),
    (found) => found.some((p) => p.planId === plan.planId),
  );
  const order = await json(await leg(body, header));
  assert.equal(order.status, "fulfilled");
});

scenario("an order is created by its owner, paid at its payable_url, and fetched with the session", async () => {
  const account = buyer();
  const session = await signIn(dev.baseUrl, account, "eip191");
  const before = await chain.transfers(account.address);
  const plan = (await plans("?countryCode=IT&type=country"))[0];
  const open = (headers, body = { planId: plan.planId }) => post(dev.baseUrl, "/api/esim/orders", body, headers);
  await problem(await open({ "idempotency-key": "k" }), 401, "session_invalid");
  await problem(await open(session), 400, "idempotency_key_missing");
  await problem(await open({ ...session, "idempotency-key": "x".repeat(201) }), 400, "schema_invalid");
  await problem(await open({ ...session, "idempotency-key": newKey() }, { planId: "pln_none" }), 400, "schema_invalid");
  const key = newKey();
  const order = await json(await open({ ...session, "idempotency-key": key }));
  assert.equal(order.status, "payment_required");
  assert.equal(order.delivery.status, "unpaid");
  assert.deepEqual(order.paymentRequirements, {
    x402Version: 2, scheme: "exact", network: "eip155:8453", asset: dev.usdc, amount: plan.amount, payTo: dev.payTo,
    resource: order.payable_url, maxTimeoutSeconds: 120,
  });
  assert.equal((await json(await open({ ...session, "idempotency-key": key }))).orderId, order.orderId);
  await problem(await open({ ...session, "idempotency-key": key }, {}), 409, "idempotency_key_reused");
  await problem(
    await fetch(`${dev.baseUrl}/api/esim/orders/${order.orderId}/credentials`, { headers: session }),
    409,
    "order_not_fulfilled",
  );
  await problem(
    await fetch(`${dev.baseUrl}/api/esim/orders/${order.orderId}/rotate-token`, { method: "POST", headers: session }),
    409,
    "order_not_fulfilled",
  );
  const paid = await json(await wrapFetchWithPayment(fetch, payerClient(account, null))(order.payable_url));
  assert.equal(paid.orderId, order.orderId);
  assert.equal(paid.credentials, undefined);
  await poll(
    "the eSIM",
    () => get(dev.baseUrl, `/api/esim/orders/${order.orderId}`, session),
    (o) => o.status === "fulfilled",
  );
  checkCredentials(await get(dev.baseUrl, `/api/esim/orders/${order.orderId}/credentials`, session));
  await assertTransfers(account, before, [plan.amount]);
});

scenario("the contract and readiness are public", async () => {
  const contract = await get(dev.baseUrl, "/api/esim/discovery");
  assert.equal(contract.contractVersion, 1);
  assert.equal(contract.fulfillment.inlineWaitMs, 15_000);
  assert.equal(contract.credentials.deliveryTokenDays, 30);
  assert.deepEqual([contract.payment.minPriceUsdCents, contract.payment.maxPriceUsdCents], [1, 25_000]);
  const ready = await get(dev.baseUrl, "/api/esim/ready");
  assert.deepEqual(
    ready.checks.map((c) => c.name),
    [
      "sale", "float", "database", "chain", "transfers", "token", "relayer", "catalogue", "supplier", "workers",
      "coinbase-smart-wallet", "safe",
    ],
  );
});

scenario("an official client buys more data for its eSIM, and nobody else does", async () => {
  const account = buyer();
  const before = await chain.transfers(account.address);
  const official = (payer, at, body) =>
    post(dev.baseUrl, at, body, {}, wrapFetchWithPayment(fetch, payerClient(payer, "$250")));
  const order = await json(await buy(account, { idempotencyKey: newKey() }));
  const at = `/api/esim/orders/${order.orderId}`;
  const read = (what) => get(dev.baseUrl, `${at}/${what}`, withToken(order.delivery.token));
  const had = BigInt((await read("profile")).usage.totalBytes);
  const [plan] = (await read("topups")).plans;
  const idempotencyKey = newKey();
  const body = { idempotencyKey, planId: plan.planId };
  const response = await official(account, `${at}/topup`, body);
  assert.equal(receiptOf(response).success, true);
  const more = await json(response);
  assert.deepEqual([more.kind, more.status], ["esim_topup", "fulfilled"]);
  assert.deepEqual([more.esimTopup.orderId, more.esimTopup.planId], [order.orderId, plan.planId]);
  assert.equal(BigInt((await read("profile")).usage.totalBytes), had + (BigInt(plan.dataMb) << 20n));
  const again = await json(await official(account, `${at}/topup`, body));
  assert.deepEqual([again.orderId, again.replayed], [more.orderId, true]);
  await assertTransfers(account, before, [BigInt(order.amountUsdCents) * 10_000n, plan.amount]);
  const refused = await official(buyer(), `${at}/topup`, { idempotencyKey: newKey(), planId: plan.planId });
  await problem(refused, 404, "order_not_found");
});
