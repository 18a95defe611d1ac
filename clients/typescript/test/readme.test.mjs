// What the README shows works, as it stands; so do the examples.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chain, dev, newWallet, scenario } from "./support/shared.mjs";
import { complaints, runnable, snippetsOf } from "./support/snippets.mjs";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..");

/** Runs a module of this package in a folder of its own, as a person would. */
async function runModule(file, cwd, walletKey) {
  // A browser that looks at the page, in place of a person's.
  const env = {
    ...process.env,
    WALLET_KEY: walletKey,
    BASE_RPC_URL: dev.rpcUrl,
    PATH: `${join(cwd, "bin")}:${process.env.PATH}`,
    ROAMCARD_URL: dev.baseUrl,
    ROAMCARD_WALLET_KEY: walletKey,
    ROAMCARD_JOURNAL: ".roamcard",
    ROAMCARD_MODE: "autonomous",
    ROAMCARD_MAX_PER_PAYMENT_USD: "25",
    ROAMCARD_MAX_PER_DAY_USD: "100",
  };
  const { stdout } = await run(process.execPath, [file], { cwd, env });
  return stdout;
}

async function workFolder(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-readme-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "bin"));
  const testing = join(root, "dist/testing/index.js");
  const person = `import("${testing}").then(({ look }) => look(process.argv[1]))`;
  const opens = `#!/bin/sh\nexec "${process.execPath}" -e '${person}' "$1"\n`;
  await writeFile(join(folder, "bin/xdg-open"), opens, { mode: 0o755 });
  return folder;
}

/** Checks how many payments a wallet has made, as the chain has them. */
async function assertPayments(account, count) {
  assert.equal((await chain.transfers(account.address)).length, count);
}

scenario("the strict compiler has nothing against the snippets of any README", async () => {
  const own = await snippetsOf(join(root, "README.md"), "ts");
  const service = (
    await Promise.all(["README.md", "docs/buying.md"].map((page) => snippetsOf(join(root, "../..", page), "ts")))
  ).flat();
  assert.deepEqual([own.length, service.length], [10, 2]);
  const code = ['import { fromEnv } from "roamcard/node";', "const client = await fromEnv();", "client.cards.buy();"];
  code.push('const done = (await client.orders.get("ord_1")).status === "fulfiled";');
  // The service's own are one module, the second a part of the first. What is wrong is checked with what is right, for
  // most of the compiler's time is for the types of the packages.
  const told = await complaints([...own, service.join("\n"), code.join("\n")]);
  assert.equal(told.length, 2, told.join("\n"));
  assert.match(told[0], /^snippet 12, line 3: Property 'buy' does not exist/);
  assert.match(told[1], /^snippet 12, line 4: .* '"fulfiled"' have no overlap/);
});

scenario("the README's snippets run, one after the other, for one card", async (t) => {
  const all = (await snippetsOf(join(root, "README.md"), "ts")).map((code) =>
    code.replaceAll("http://127.0.0.1:8402", dev.baseUrl),
  );
  const snippets = all.filter((code) => !code.includes("roamcard/browser"));
  assert.equal(snippets.length, 9);
  const folder = await workFolder(t);
  const { key, account } = await newWallet();
  const smart = await chain.smartAccount(account);
  const dist = join(root, "dist");
  const code = await runnable(snippets);
  const names = snippets.map((_, i) => `snippet-${process.pid}-${i}.mjs`);
  // In one process, one after the other: each by itself would load the packages again.
  const whole = `all-${process.pid}.mjs`;
  t.after(() => Promise.all([...names, whole].map((name) => rm(join(dist, name), { force: true }))));
  await Promise.all(names.map((name, i) => writeFile(join(dist, name), code[i])));
  await writeFile(join(dist, whole), names.map((name) => `await import("./${name}");\n`).join(""));
  const output = await runModule(join(dist, whole), folder, key);
  assert.match(output, /was shown/);
  assert.match(output, /NotFoundError \S{8,}/);
  // One card, one top-up, one eSIM and one order that was made first: the later purchases repeat the first.
  await assertPayments(account, 4);
  assert.ok(output.includes(`${smart.address} paid, and is ${smart.address}`), output);
  await assertPayments(smart, 1);
});

scenario("the examples run", async (t) => {
  const { key, account } = await newWallet();
  const folder = await workFolder(t);
  assert.match(await runModule(join(root, "examples/buy-card.mjs"), folder, key), /Card \S+ ending in \d{4} is ACTIVE/);
  assert.match(await runModule(join(root, "examples/top-up.mjs"), folder, key), /24\.50 US dollars/);
  assert.match(await runModule(join(root, "examples/buy-esim.mjs"), folder, key), /fulfilled; the eSIM was seen/);
  await assertPayments(account, 3);
});
