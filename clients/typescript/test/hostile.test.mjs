// A service that lies gains nothing: clients/testing/hostile.json says what it lies, what the client then does, and the most
// that it may cost, counted on the chain.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AmbiguousPaymentError, ApiError, MemoryStore, PolicyDeniedError, Roamcard, TermsMismatchError } from "roamcard";
import { startHostileService } from "../../testing/hostile-service.mjs";
import { autonomous } from "./support/behind.mjs";
import { chain, dev, newWallet, scenario } from "./support/shared.mjs";

const cases = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/hostile.json"), "utf8"));
const floods = (name) => /bomb|endless/.test(name);

scenario("a hostile service gains nothing", async (t) => {
  assert.ok(cases.length >= 40, `${cases.length} cases`);
  const waiting = cases.filter(({ name }) => !floods(name));
  // A few at a time: each mostly waits for the chain.
  const workers = Array.from({ length: 6 }, async () => {
    for (let c; (c = waiting.shift()); ) await t.test(c.name, () => play(c));
  });
  await Promise.all(workers);
}, { timeout: 240_000 });

scenario("a hostile service fills no memory", async (t) => {
  for (const c of cases.filter(({ name }) => floods(name))) {
    await t.test(c.name, async () => {
      const before = process.memoryUsage().rss;
      await play(c);
      // The answers of a case have 64 MiB each; the service of the test itself takes some, in this process.
      assert.ok(process.memoryUsage().rss - before < 400 << 20, "what was taken");
    });
  }
}, { timeout: 240_000 });

async function play({ lies, steps, transfers, signatures, caps = {} }) {
  const { account } = await newWallet();
  const service = await startHostileService(dev.baseUrl, dev.rpcUrl, dev.usdc);
  try {
    const signed = [];
    const signer = {
      address: account.address, signMessage: (m) => account.signMessage(m), signTypedData: (data) => (signed.push(data), account.signTypedData(data)),
    };
    const policy = { ...autonomous, ...(caps.day && { maxPerDayUsd: caps.day }) };
    const client = new Roamcard({ baseUrl: service.baseUrl, origin: dev.baseUrl, signer, policy, store: new MemoryStore(), maxReplays: 1, timeoutMs: 20_000 });
    service.lie(lies);
    for (const [i, { do: what, key, expect }] of steps.entries()) {
      const error = await (what === "card" ? client.cards : client.esim).purchase({ idempotencyKey: key }).then(() => undefined, (e) => e);
      assert.ok(expect === "error" ? error : kindOf(error) === expect, `step ${i + 1}: ${kindOf(error)}, ${error}; expected ${expect}`);
      if (error && signed.length > 0 && expect !== "denied") assert.equal(error.idempotencyKey, key, `step ${i + 1}: the key in ${error}`);
    }
    const moved = await chain.transfers(account.address);
    assert.ok(moved.length <= transfers, `${moved.length} transfers, at most ${transfers}`);
    assert.ok(signed.length <= signatures, `${signed.length} signatures, at most ${signatures}`);
    assert.equal(service.told().elsewhere, 0, "requests to another host");
  } finally {
    service.close();
  }
}

function kindOf(error) {
  if (error === undefined) return "ok";
  if (error instanceof AmbiguousPaymentError) return "ambiguous";
  if (error instanceof TermsMismatchError) return "terms";
  if (error instanceof PolicyDeniedError) return "denied";
  return error instanceof ApiError ? "refused" : "other";
}
