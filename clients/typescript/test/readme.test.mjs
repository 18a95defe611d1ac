// What the README shows works, as it stands; so do the examples.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { paying } from "./support/chain.mjs";
import { chain, dev, scenario } from "./support/shared.mjs";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..");

/** Runs a module of this package in a folder of its own, as a person would. */
async function runModule(file, cwd, walletKey) {
  // A browser that looks at the page, in place of a person's.
  const env = { ...process.env, WALLET_KEY: walletKey, ROAMCARD_URL: dev.baseUrl, PATH: `${join(cwd, "bin")}:${process.env.PATH}` };
  const { stdout } = await run(process.execPath, [file], { cwd, env, timeout: 60_000 });
  return stdout;
}

async function workFolder(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-readme-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "bin"));
  const look = `#!/bin/sh\nexec "${process.execPath}" -e 'fetch(process.argv[1]).then((r) => r.text())' "$1"\n`;
  await writeFile(join(folder, "bin/xdg-open"), look, { mode: 0o755 });
  return folder;
}

async function wallet() {
  const key = generatePrivateKey();
  const account = privateKeyToAccount(key);
  await chain.mint(account.address, 1_000_000_000n);
  return { key, account };
}

scenario("the README's snippets run, one after the other, for one card", async (t) => {
  const readme = await readFile(join(root, "README.md"), "utf8");
  const snippets = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code.replaceAll("http://127.0.0.1:8402", dev.baseUrl));
  assert.equal(snippets.length, 4);
  const folder = await workFolder(t);
  const { key, account } = await wallet();
  // One card and one top-up: the later purchases repeat the first.
  await paying(chain, account, 2, async () => {
    for (const [i, code] of snippets.entries()) {
      const file = join(root, "dist", `snippet-${process.pid}-${i}.mjs`);
      await writeFile(file, code);
      t.after(() => rm(file, { force: true }));
      await runModule(file, folder, key);
    }
  });
});

scenario("the examples run", async (t) => {
  const { key, account } = await wallet();
  const folder = await workFolder(t);
  await paying(chain, account, 1, async () => {
    assert.match(await runModule(join(root, "examples/buy-card.mjs"), folder, key), /Card \S+ ending in \d{4} is ACTIVE/);
  });
  await paying(chain, account, 1, async () => {
    assert.match(await runModule(join(root, "examples/top-up.mjs"), folder, key), /24\.50 US dollars/);
  });
});
