// Reads are made again when they fail in passing, and only then; calls have limits, headers and names of their own.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import {
  ApiError,
  MemoryStore,
  NotFoundError,
  payingFetch,
  Roamcard,
  RoamcardError,
  UnavailableError,
  version,
} from "roamcard";
import { pauses } from "./support/pauses.mjs";
import { answer, problem, scripted } from "./support/scripted.mjs";

const config = answer({ network: { chainId: 8453 } });
const unavailable = problem({ status: 503, code: "dependency_down", retryable: true });
/** A limit in ms that is not the one that ends a call here, on however busy a machine. */
const patience = 600_000;
const signer = {
  address: "0x000000000000000000000000000000000000dEaD",
  signTypedData: () => Promise.reject(new Error("nothing is signed here")),
};

async function client(t, answers, options = {}) {
  const service = await scripted(t, ...answers);
  return { ...service, client: new Roamcard({ baseUrl: service.baseUrl, ...options }) };
}

/** A client of a service that says nothing, and how often it asked: a limit may end before a request gets there. */
async function unanswered(t, options) {
  let asked = 0;
  const counting = (...request) => (asked++, fetch(...request));
  return { ...(await client(t, ["silence"], { ...options, fetch: counting })), asked: () => asked };
}

const passing = {
  "a connection that is reset": "reset",
  "an answer that breaks off": { ...config, headers: { ...config.headers, "content-length": "500" }, cut: 10 },
  "a 503 of the service": unavailable,
  "a 429 of the service": problem({ status: 429, code: "rate_limited", retryable: true }),
  "a 502 of a gateway": { status: 502, headers: { "content-type": "text/html" }, body: "<h1>Bad gateway</h1>" },
  "a 504 of a gateway": { status: 504, headers: {}, body: "" },
};
for (const [name, fault] of Object.entries(passing)) {
  test(`a read is made again after ${name}`, async (t) => {
    pauses(t);
    const { client: roamcard, requests } = await client(t, [fault, fault, config]);
    assert.equal((await roamcard.discovery.config()).network.chainId, 8453);
    assert.equal(requests.length, 3);
    assert.equal(new Set(requests.map((r) => r.body)).size, 1);
    const document = await client(t, [fault, answer({ contractVersion: 1 })]);
    const { data, response } = await document.client.discovery.agent().withRawResponse();
    assert.deepEqual([data, response.status, document.requests.length], [{ contractVersion: 1 }, 200, 2]);
  });
}

test("a read is made again as often as is said, and no more", async (t) => {
  pauses(t);
  for (const [options, call, expected] of [
    [{}, {}, 3],
    [{ maxRetries: 1 }, {}, 2],
    [{ maxRetries: 0 }, {}, 1],
    [{}, { maxRetries: 0 }, 1],
    [{ maxRetries: 0 }, { maxRetries: 1 }, 2],
  ]) {
    const { client: roamcard, requests } = await client(t, [unavailable], options);
    await assert.rejects(roamcard.discovery.config(call), {
      name: "UnavailableError",
      status: 503,
      code: "dependency_down",
    });
    assert.equal(requests.length, expected, JSON.stringify([options, call]));
  }
});

test("a read waits as long as it is asked to, or says so when that is too long", async (t) => {
  const busy = (after) => problem({ status: 429, code: "rate_limited", retryable: true }, { "retry-after": after });
  const asked = pauses(t);
  const { client: roamcard, requests } = await client(t, [busy("7"), config]);
  await roamcard.discovery.config();
  assert.deepEqual([requests.length, asked.length], [2, 1]);
  assert.ok(asked[0] >= 7_000, `${asked[0]} ms`);
  const long = await client(t, [busy("31"), config]);
  await assert.rejects(long.client.discovery.config(), { name: "UnavailableError", retryAfterMs: 31_000 });
  const date = await client(t, [busy(new Date(Date.now() + 3_600_000).toUTCString()), config]);
  await assert.rejects(date.client.discovery.config(), (error) => error.retryAfterMs > 3_500_000);
  assert.deepEqual([long.requests.length, date.requests.length], [1, 1]);
});

test("what does not pass by itself, and what changes something, is not made again", async (t) => {
  const missing = await client(t, [problem({ status: 404, code: "order_not_found" })]);
  await assert.rejects(missing.client.discovery.config(), NotFoundError);
  const broken = await client(t, [problem({ status: 500, code: "internal" })]);
  await assert.rejects(broken.client.discovery.config(), { status: 500 });
  const elsewhere = await client(t, [{ status: 307, headers: { location: "http://127.0.0.1:1/" }, body: "" }]);
  await assert.rejects(elsewhere.client.discovery.config(), /redirect/);
  const large = await client(t, [answer({ network: { payTo: "x".repeat(1 << 21) } })]);
  await assert.rejects(large.client.discovery.config(), /more than/);
  // Sign-in makes a challenge.
  const signing = await client(t, [unavailable], { signer });
  await assert.rejects(signing.client.cards.list(), UnavailableError);
  const resolving = await client(t, [unavailable], { operatorToken: "token" });
  await assert.rejects(
    resolving.client.admin.setSwitch("esim", { paused: true, reason: "test", idempotencyKey: "k" }),
    UnavailableError,
  );
  for (const { requests } of [missing, broken, elsewhere, large, signing, resolving]) assert.equal(requests.length, 1);
});

test("who gives up waits for no further try, and a call has a limit of its own", async (t) => {
  const gone = new AbortController();
  const slow = await client(t, [
    problem({ status: 503, code: "dependency_down", retryable: true }, { "retry-after": "20" }),
  ]);
  const call = slow.client.discovery.config({ signal: gone.signal });
  setTimeout(() => gone.abort(new Error("enough")), 100);
  await assert.rejects(call, { message: "enough" });

  const silent = await unanswered(t, { timeoutMs: patience });
  const began = Date.now();
  await assert.rejects(
    silent.client.discovery.config({ timeoutMs: 200 }),
    (error) => error instanceof ApiError && error.status === 0,
  );
  await assert.rejects(silent.client.discovery.agent({ timeoutMs: 200 }));
  assert.ok(Date.now() - began < patience / 2);
  assert.equal(silent.asked(), 2, "a time that is over is not tried again");
});

test("payments have the limit of their call for each request", async (t) => {
  const { client: roamcard, asked } = await unanswered(t, {
    signer,
    maxReplays: 1,
    store: new MemoryStore(),
    timeoutMs: patience,
  });
  const began = Date.now();
  await assert.rejects(roamcard.cards.purchase({ timeoutMs: 150 }), RoamcardError);
  assert.ok(Date.now() - began < patience / 2);
  assert.equal(asked(), 2);
});

test("a call has the caller's headers, the package's name, and the client's own", async (t) => {
  assert.equal(version, JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")).version);
  const { client: roamcard, requests, baseUrl } = await client(t, [config]);
  await roamcard.discovery.config({ headers: { "x-trace": "7" } });
  await roamcard.discovery.agent({ headers: { "x-trace": "8" } });
  await payingFetch({ baseUrl, signer, policy: { mode: "human_approval" } })(`${baseUrl}/api/config`);
  assert.deepEqual(
    requests.map((r) => r.headers["x-trace"]),
    ["7", "8", undefined],
  );
  for (const { headers } of requests) assert.equal(headers["user-agent"], `roamcard-typescript/${version}`);
  for (const name of ["Payment-Signature", "authorization", "idempotency-key", "x-esim-delivery-token"]) {
    await assert.rejects(roamcard.discovery.config({ headers: { [name]: "x" } }), {
      message: `the header ${name.toLowerCase()} is set by the client itself`,
    });
  }
  assert.equal(requests.length, 3);
});

test("an error of a gateway has its HTTP status, and no answer has none", async (t) => {
  const gone = await client(t, [{ status: 502, headers: {}, body: "" }, "reset"]);
  await assert.rejects(gone.client.discovery.config(), { name: "UnavailableError", status: 0 });
  const { client: roamcard } = await client(t, [
    { status: 403, headers: { "content-type": "text/html" }, body: "<h1>Forbidden</h1>" },
  ]);
  await assert.rejects(roamcard.discovery.config(), {
    name: "ApiError",
    status: 403,
    code: "http_403",
    retryable: false,
  });
});

const steering = "\u001b[2J\u009b31m\u202e\r\n\u0000paid";
const escaped = "\\u{1b}[2J\\u{9b}31m\\u{202e}\\u{d}\\u{a}\\u{0}paid";

test("control characters of an answer are escaped in messages, errors and their causes as printed", async (t) => {
  const { client: roamcard } = await client(t, [problem({ status: 404, code: "x\u0007", detail: steering })]);
  const error = await roamcard.discovery.config().then(assert.fail, (e) => e);
  assert.ok(error.message.includes(escaped), error.message);
  const garbled = await client(
    t,
    [{ status: 200, headers: { "content-type": "application/json" }, body: `${steering} is no JSON` }],
    { maxRetries: 0 },
  );
  const unread = await garbled.client.discovery.config().then(assert.fail, (e) => e);
  const refused = await client(t, [answer({ detail: steering }, 400)]);
  const document = await refused.client.discovery.agent().then(assert.fail, (e) => e);
  assert.ok(document.message.includes(escaped), document.message);
  for (const failed of [error, unread, document]) {
    for (let e = failed; e instanceof Error; e = e.cause) {
      for (const text of [e.message, e.stack])
        assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/, text);
    }
    assert.deepEqual(JSON.parse(JSON.stringify(failed)).name, failed.name);
  }
});

test("an error is written with what there is to act on", async (t) => {
  const { client: roamcard } = await client(t, [
    problem({
      status: 409,
      code: "card_already_exists",
      nextAction: "fix_request",
      requestId: "req-1",
      orderId: "ord_1",
    }),
  ]);
  const error = await roamcard.discovery.config().then(assert.fail, (e) => e);
  const { name, status, code, nextAction, requestId, orderId, retryable, message } = JSON.parse(JSON.stringify(error));
  assert.deepEqual(
    { name, status, code, nextAction, requestId, orderId, retryable, message },
    {
      name: "ConflictError",
      status: 409,
      code: "card_already_exists",
      nextAction: "fix_request",
      requestId: "req-1",
      orderId: "ord_1",
      retryable: false,
      message: "409 card_already_exists: not now",
    },
  );
});
