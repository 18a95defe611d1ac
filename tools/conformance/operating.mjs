// What the tests of the console share: what operators find, and a browser that is at the console.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { encodeFunctionData, parseAbi } from "viem";
import { dev, ownerAt, rpc, shot, tabWith } from "./paying.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const still = { name: "prefers-reduced-motion", value: "reduce" };

/** The places of the console. */
export const places = [
  "orders", "approvals", "transfers", "findings", "books", "fees", "closings", "cancellations", "jobs", "switches",
  "gauges", "audit",
];

/** Asks an operators' route, by the buyers' origin. */
export async function admin(path, body, token = dev.operatorToken) {
  const answer = await fetch(`${dev.baseUrl}/api/admin/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": "application/json", "idempotency-key": crypto.randomUUID() }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(`${path}: ${answer.status} ${JSON.stringify(value)}`), value);
  return value;
}

/** Waits until a read gives what is wanted. */
export async function until(what, read, holds, ms = 120_000) {
  for (const end = Date.now() + ms; ; ) {
    const value = await read();
    if (holds(value)) return value;
    if (Date.now() > end) throw new Error(`${what}: still ${JSON.stringify(value).slice(0, 500)}`);
    await new Promise((done) => setTimeout(done, 250));
  }
}

/** The token of the treasurer whom tools/conformance.sh names in the server's configuration. No token of another one
 * that `minted` makes can approve what was asked for by one of them: their minter could have kept both. */
export const second = { name: "ben", token: "the-second-operators-token" };

/** The token of a new operator. */
export async function minted(name, role) {
  const { secret } = await admin("tokens", { name, role, expiresInSeconds: 3600, reason: "for a story" });
  return secret;
}

/** A plan that costs more than an amount, in cents. */
export async function planAbove(cents) {
  const { plans } = await (await fetch(`${dev.baseUrl}/api/esim/plans`)).json();
  const plan = plans.find(({ priceUsdCents }) => priceUsdCents > cents);
  assert.ok(plan, `no plan costs more than ${cents}`);
  return plan.planId;
}

/** Asks the sandbox of suppliers and issuers for something. */
export async function sandbox(path, body, method = body === undefined ? "GET" : "POST") {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${dev.sandboxUrl}/${path}`, {
    method, ...(body !== undefined && { headers, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

/** Makes the supplier refuse the next order without a trace. */
const spoil = () => sandbox("esim-access/control/faults", { op: "order", mode: "rate_limited" });

const types = {
  TransferWithAuthorization: [
    { name: "from", type: "address" }, { name: "to", type: "address" }, { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" }, { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
  CancelAuthorization: [{ name: "authorizer", type: "address" }, { name: "nonce", type: "bytes32" }],
};

/** An eSIM that a development wallet has bought and paid, whatever becomes of its delivery. */
export function bought(index, key, planId) {
  return paid(index, "/api/esim/purchase", { idempotencyKey: key, planId });
}

/** A card that a development wallet has bought and paid. */
export function boughtCard(index, key) {
  return paid(index, "/api/card/purchase", { idempotencyKey: key });
}

async function paid(index, path, what) {
  const owner = await ownerAt(index);
  const url = `${dev.baseUrl}${path}`;
  const body = JSON.stringify(what);
  const headers = { "content-type": "application/json" };
  const asked = await fetch(url, { method: "POST", headers, body });
  assert.equal(asked.status, 402, await asked.text());
  const terms = JSON.parse(Buffer.from(asked.headers.get("payment-required"), "base64"));
  const [accepted] = terms.accepts;
  const now = Math.floor(Date.now() / 1000);
  const authorization = {
    from: owner.account.address, to: accepted.payTo, value: accepted.amount, validAfter: "0",
    validBefore: String(now + accepted.maxTimeoutSeconds),
    nonce: `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`,
  };
  const domain = {
    name: accepted.extra.name, version: accepted.extra.version, chainId: dev.chainId, verifyingContract: accepted.asset,
  };
  const signature = await owner.account.signTypedData({
    domain, types, primaryType: "TransferWithAuthorization", message: authorization,
  });
  const payment = { x402Version: 2, resource: terms.resource, accepted, payload: { signature, authorization } };
  const answer = await fetch(url, {
    method: "POST", body,
    headers: { ...headers, "payment-signature": Buffer.from(JSON.stringify(payment)).toString("base64") },
  });
  const order = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(order));
  const requestId = answer.headers.get("x-request-id");
  return { owner, order, requestId, price: BigInt(accepted.amount), nonce: authorization.nonce, domain };
}

/** Orders that wait for an operator, oldest first: the supplier was asked, and has no trace of them. */
export async function inReview(indexes, key, planId) {
  for (const _ of indexes) await spoil();
  const orders = await Promise.all(indexes.map((index) => bought(index, `${key}-${process.pid}-${index}`, planId)));
  for (const { order } of orders) await reviewed(order.orderId);
  return orders.sort((a, b) => (a.order.orderId < b.order.orderId ? -1 : 1));
}

/** Waits until an order is in review. */
export function reviewed(orderId) {
  return until("in review", () => admin(`orders/${orderId}/review`), ({ order }) => order.status === "operator_review");
}

const token = parseAbi(["function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)"]);
const word = (value) => value.toString(16).replace(/^0x/, "").padStart(64, "0");

/** Calls the token as a development wallet. */
async function calls(address, data) {
  await rpc("anvil_setBalance", [address, "0xde0b6b3a7640000"]);
  await rpc("anvil_impersonateAccount", [address]);
  const transaction = await rpc("eth_sendTransaction", [{ from: address, to: dev.usdc, data }]);
  await rpc("anvil_stopImpersonatingAccount", [address]);
  return { transaction };
}

/** Sends USDC of a development wallet to the service, for no order, or to somebody else. */
export function sent(address, units, to = dev.payTo) {
  return calls(address, `0xa9059cbb${word(BigInt(to))}${word(units)}`);
}

/**
 * Buys, and has the payment undone for good, with what was bought delivered: its block is reorganised away, and the
 * authorization is cancelled in a block of the new chain, which becomes final.
 */
export async function undone(buy) {
  // Blocks are made of transactions alone meanwhile: the payment must not become final before it is undone.
  await rpc("evm_setIntervalMining", [0]);
  await rpc("evm_setAutomine", [true]);
  try {
    const sale = await buy();
    const { owner: { account }, order, nonce, domain } = sale;
    const { payments: [{ transaction }] } = await admin(`orders/${order.orderId}`);
    const { blockNumber } = await rpc("eth_getTransactionByHash", [transaction]);
    const signature = await account.signTypedData({
      domain, types, primaryType: "CancelAuthorization", message: { authorizer: account.address, nonce },
    });
    const data = encodeFunctionData({ abi: token, args: [account.address, nonce, signature] });
    await rpc("anvil_reorg", [Number(await rpc("eth_blockNumber", [])) - Number(blockNumber) + 1, []]);
    await calls(account.address, data);
    return sale;
  } finally {
    await rpc("evm_setIntervalMining", [1]);
    await rpc("anvil_mine", ["0x3"]);
  }
}

/** What an account holds of USDC. */
export async function held(address) {
  return BigInt(await rpc("eth_call", [{ to: dev.usdc, data: `0x70a08231${word(BigInt(address))}` }, "latest"]));
}

/** A tab at the console's sign-in. */
export async function atConsole(browser, { language, before } = {}) {
  const { tab, notes } = await tabWith(browser, [], { language });
  await tab.setViewport({ width: 1280, height: 900 });
  if (before) await tab.evaluateOnNewDocument(before);
  const answer = await tab.goto(dev.consoleUrl);
  assert.ok([200, 304].includes(answer.status()), `the console answers ${answer.status()}`);
  return { tab, notes, answer };
}

/** Types the token, and waits for the menu. */
export async function signIn(tab, token = dev.operatorToken) {
  await tab.waitForSelector("input.secret");
  await tab.type("input.secret", token);
  await tab.keyboard.press("Enter");
}

/** A tab of a signed-in operator, where the keys are listened to: the place is given the focus by then. */
export async function operating(browser, { token, ...options } = {}) {
  const at = await atConsole(browser, options);
  await signIn(at.tab, token);
  await at.tab.waitForSelector("#menu nav");
  await at.tab.waitForFunction(() => document.activeElement?.id === "main");
  return at;
}

/** Goes to a place of the console, and waits until it is there. */
export async function goTo(tab, fragment) {
  const [place] = fragment.slice(2).split(/[/?]/);
  await tab.evaluate((to) => (location.hash = to), fragment);
  const there = (wanted) => document.querySelector("[aria-current=page]")?.hash === `#/${wanted}`;
  await tab.waitForFunction(there, { timeout: 60_000 }, place);
  await tab.waitForSelector("main h1");
  await settledPage(tab);
}

/** Waits until a list or an order is there and nothing is read any more. */
export async function settledPage(tab) {
  await tab.waitForFunction(() => !document.querySelector('[aria-busy="true"]'), { timeout: 60_000 });
}

/** Checks a state: nothing that keeps people out, nothing from elsewhere, no complaint; and keeps pictures. */
export async function looked(tab, notes, name) {
  await settledPage(tab);
  assert.deepEqual(notes.complaints, [], name);
  const elsewhere = notes.asked.filter((url) => !/^(data|blob):/.test(url) && new URL(url).origin !== dev.consoleUrl);
  assert.deepEqual(elsewhere, [], name);
  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 360]]) {
    await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }, still]);
    await tab.setViewport({ width, height: 900 });
    await settledPage(tab);
    const found = await tab.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
    const violations = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.target).join(" ")}`);
    assert.deepEqual(violations, [], `axe, ${name}, ${scheme}, ${width} px`);
    assert.ok(
      await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      `${name} is wider than ${width} px`,
    );
    await shot(tab, `console-${name}-${scheme}-${width}`);
  }
  await tab.setViewport({ width: 1280, height: 900 });
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }, still]);
}

/** Fills in a dialog's reason and confirms it. */
export async function confirm(tab, reason) {
  await tab.waitForSelector("dialog[open] textarea");
  await tab.type("dialog[open] textarea", reason);
  await tab.click("dialog[open] button[type=submit]");
}

/** Presses a button in the row that has a text. */
export async function pressIn(tab, text, name) {
  const find = (wanted, button) => {
    const row = [...document.querySelectorAll("[data-row]")].find((each) => each.innerText.includes(wanted));
    return [...(row?.querySelectorAll("button") ?? [])].find((each) => each.innerText === button && !each.disabled);
  };
  const handle = await tab.waitForFunction(find, { timeout: 60_000 }, text, name).catch(async (error) => {
    const said = await tab.evaluate(() => document.body.innerText);
    throw new Error(`no row has "${text}" and "${name}" in: ${said}`, { cause: error });
  });
  await handle.asElement().click();
}
