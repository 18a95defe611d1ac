// One development server for all tests of a run, and a wallet of its own for whoever asks. ROAMCARD_READY names the
// ready file of a server that runs already, which others may use at the same time; without it the run has a server of
// its own.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { hangsAfter } from "./api.mjs";
import { Chain } from "./chain.mjs";
import { dataFolder, removeFolder, startDev } from "./dev.mjs";

/** The shared server; its members are there once a scenario runs. */
export const dev = {};

/** The shared server's chain. */
export let chain;

/** A funded wallet for tests in which nothing may be bought. */
export let bystander;

let folder;
let wallets;

before(async () => {
  if (process.env.ROAMCARD_READY) {
    Object.assign(dev, JSON.parse(await readFile(process.env.ROAMCARD_READY, "utf8")), { lines: [] });
  } else {
    folder = await dataFolder();
    Object.assign(dev, await startDev(folder));
  }
  chain = new Chain(dev);
  // Not the wallets that the server names: those are anybody's.
  wallets = await Promise.all(Array.from({ length: 100 }, async () => (await newWallet()).account));
  bystander = wallets.pop();
});

after(async () => {
  const end = await dev.stop?.();
  if (folder) await removeFolder(folder);
  if (end)
    assert.deepEqual(
      end,
      { code: 0, signal: null },
      `how roamcard ended on SIGTERM\n${dev.lines.slice(-40).join("\n")}`,
    );
});

/** A new wallet with 1,000 USDC, and its key. */
export async function newWallet(usdc = 1_000_000_000n) {
  const key = generatePrivateKey();
  const account = privateKeyToAccount(key);
  await chain.mint(account.address, usdc);
  return { key, account };
}

/** A funded wallet that nobody else in this run uses. */
export function buyer() {
  const wallet = wallets.shift();
  assert.ok(wallet, "there is no further wallet");
  return wallet;
}

/** A test that shows what the server logged meanwhile when it fails. */
export function scenario(name, run, options = {}) {
  test(name, { timeout: 2 * hangsAfter, ...options }, (t) => explained(name, () => run(t)));
}

/** Runs an action, and shows what the server logged meanwhile when it fails. */
export async function explained(name, run) {
  const from = dev.lines.length;
  try {
    return await run();
  } catch (error) {
    console.error(`--- the server's log during "${name}"\n${dev.lines.slice(from).slice(-120).join("\n")}\n---`);
    throw error;
  }
}
