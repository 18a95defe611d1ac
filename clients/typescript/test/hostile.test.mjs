// A service that lies gains nothing: clients/testing/hostile.json says what it lies, what the client then does, and the
// most that it may cost, counted on the chain.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { startHostileService } from "../../testing/hostile-service.mjs";
import { autonomous } from "./support/behind.mjs";
import { buy } from "./support/hostile-client.mjs";
import { pauses } from "./support/pauses.mjs";
import { chain, dev, newWallet, scenario } from "./support/shared.mjs";

const cases = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/hostile.json"), "utf8"));
/** How many MiB a flood has here, and a client may take: about half of it does for an honest purchase. */
const flood = 128;
const most = 96;
const floods = (name) => /bomb|endless/.test(name);

scenario("a hostile service gains nothing", async (t) => {
  assert.ok(cases.length >= 40, `${cases.length} cases`);
  const others = cases.filter(({ name }) => !floods(name));
  await t.test("that only lies", async (t) => {
    pauses(t);
    await playAll(t, others.filter((c) => !sells(c)));
  });
  // It may take time between two requests.
  await t.test("that sells in the end", (t) => playAll(t, others.filter(sells)));
});

const sells = ({ steps }) => steps.some(({ expect }) => expect === "ok");

// playAll plays a few at a time: each mostly waits for the chain.
async function playAll(t, waiting) {
  const workers = Array.from({ length: 6 }, async () => {
    for (let c; (c = waiting.shift()); ) await t.test(c.name, () => play(c));
  });
  await Promise.all(workers);
}

scenario("a hostile service fills no memory", async (t) => {
  for (const c of cases.filter(({ name }) => floods(name)))
    await t.test(c.name, () => play({ ...c, lies: c.lies.map(larger) }, buyAlone));
});

// larger makes a flood stand out from what a client takes by itself.
function larger(lie) {
  return { ...lie, ...(lie.bomb && { bomb: flood }), ...(lie.endless && { endless: flood }) };
}

// buyAlone buys in a process of its own: the service of the test has its floods in this one.
async function buyAlone(options) {
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(import.meta.dirname, "support/hostile-client.mjs"),
    JSON.stringify(options),
  ]);
  const { ends, kibibytes } = JSON.parse(stdout);
  assert.ok(kibibytes < most * 1024, `the client took ${kibibytes} KiB`);
  return ends;
}

async function play({ lies, steps, transfers, signatures, caps = {} }, run = buy) {
  const { key: walletKey, account } = await newWallet();
  const service = await startHostileService(dev.baseUrl, dev.rpcUrl, dev.usdc);
  try {
    const policy = { ...autonomous, ...(caps.day && { maxPerDayUsd: caps.day }) };
    service.lie(lies);
    const ends = await run({ baseUrl: service.baseUrl, origin: dev.baseUrl, walletKey, policy, steps });
    assert.equal(ends.length, steps.length);
    for (const [i, { expect }] of steps.entries()) {
      const end = ends[i];
      assert.ok(
        expect === "error" ? end.kind !== "ok" : end.kind === expect,
        `step ${i + 1}: ${end.kind}, ${end.text}; expected ${expect}`,
      );
      if (end.kind === "ok" || end.signed === 0 || expect === "denied") continue;
      assert.ok(end.told && end.told === end.key, `step ${i + 1}: the key ${end.told} in ${end.text}`);
    }
    const moved = await chain.transfers(account.address);
    assert.ok(moved.length <= transfers, `${moved.length} transfers, at most ${transfers}`);
    const { signed } = ends.at(-1);
    assert.ok(signed <= signatures, `${signed} signatures, at most ${signatures}`);
    assert.equal(service.told().elsewhere, 0, "requests to another host");
  } finally {
    service.close();
  }
}
