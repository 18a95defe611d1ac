// Stories that are made up of crashes, lies and lost answers: after each event no key has two live authorizations, and
// no day more than its cap. ROAMCARD_SEED and ROAMCARD_RUNS repeat a story; tools/stories.sh runs thousands.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

test("whatever happens, nothing is paid twice", async (t) => {
  const [seed, runs] = [
    Number(process.env.ROAMCARD_SEED ?? Date.now() % 2 ** 31),
    Number(process.env.ROAMCARD_RUNS ?? 40),
  ];
  t.diagnostic(`seed ${seed}, ${runs} runs`);
  // In processes of their own: a story's clock and timers are made up, and the test runner's watching takes half of the
  // time.
  const half = Math.max(75, Math.ceil(runs / 2));
  const parts = [
    [seed, Math.min(half, runs)],
    [seed + half, runs - half],
  ].filter(([, some]) => some > 0);
  await Promise.all(
    parts.map(async ([from, some]) => {
      const child = spawn(process.execPath, [join(import.meta.dirname, "support/stories.mjs"), from, some], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [said, code] = await Promise.all([text(child.stdout), new Promise((ended) => child.once("close", ended))]);
      assert.equal(code, 0, said);
      t.diagnostic(said.trim());
    }),
  );
});
