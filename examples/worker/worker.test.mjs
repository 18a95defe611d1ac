// Calls the Worker as the runtime does, with a Request and an environment. KV is a map; the service is a real one.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import worker from "./dist/worker.js";

const kept = new Map();
const env = {
  WALLET_KEY: process.env.WALLET_KEY,
  ROAMCARD_URL: process.env.ROAMCARD_URL ?? "http://127.0.0.1:8402",
  MAX_USD: "5",
  MAX_DAY_USD: "50",
  CALLERS: JSON.stringify({ [createHash("sha256").update("token of alice").digest("hex")]: "alice" }),
  PURCHASES: {
    get: async (key) => kept.get(key) ?? null,
    put: async (key, value) => void kept.set(key, value),
  },
};

async function ask({ token = "token of alice", key = "trip-1", countryCode = "FR", by = worker, ...vars } = {}) {
  const headers = { authorization: `Bearer ${token}`, "idempotency-key": key };
  const body = JSON.stringify({ countryCode });
  const response = await by.fetch(new Request("https://worker.example/esims", { method: "POST", headers, body }), {
    ...env, ...vars,
  });
  return { status: response.status, cache: response.headers.get("cache-control"), ...(await response.json()) };
}

test("a stranger buys nothing", async () => {
  assert.equal((await ask({ token: "guessed" })).status, 401);
});

test("a caller gets an eSIM, and the same one when it asks again", async () => {
  const first = await ask();
  assert.equal(first.status, 200, first.error);
  assert.match(first.lpa, /^LPA:1\$/);
  assert.equal(first.cache, "no-store");
  const { status, cache, ...body } = first;
  console.log(JSON.stringify(body)); // as the README shows it
  const second = await ask();
  assert.deepEqual(second, { ...first, replayed: true });
});

test("a new isolate, whose journal is empty, gives the same eSIM", async () => {
  const { default: isolate } = await import("./dist/worker.js?another");
  const first = await ask();
  assert.deepEqual(await ask({ by: isolate }), first);
});

test("a key belongs to one request", async () => {
  assert.equal((await ask({ countryCode: "JP" })).status, 409);
});

test("nothing is bought above the cap", async () => {
  assert.equal((await ask({ key: "trip-2", MAX_USD: "0.10" })).status, 422);
});
