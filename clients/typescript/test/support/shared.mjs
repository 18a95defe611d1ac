// One development server for all tests of a run, and a wallet of its own for whoever asks.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
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
  folder = await dataFolder();
  Object.assign(dev, await startDev(folder));
  wallets = dev.wallets.map((wallet) => privateKeyToAccount(wallet.privateKey));
  bystander = wallets.pop();
  chain = new Chain(dev);
  // More wallets than the development server names.
  for (let i = 0; i < 50; i++) {
    const account = privateKeyToAccount(generatePrivateKey());
    await chain.mint(account.address, 1_000_000_000n);
    wallets.push(account);
  }
});

after(async () => {
  const end = await dev.stop?.();
  if (folder) await removeFolder(folder);
  if (end) assert.deepEqual(end, { code: 0, signal: null }, `how roamcard ended on SIGTERM\n${dev.lines.slice(-40).join("\n")}`);
});

/** A funded wallet that nobody else in this run uses. */
export function buyer() {
  const wallet = wallets.shift();
  assert.ok(wallet, "the development server has no further wallet");
  return wallet;
}

/** A test that shows what the server logged meanwhile when it fails. */
export function scenario(name, run) {
  test(name, { timeout: 120_000 }, async (t) => {
    const from = dev.lines.length;
    try {
      await run(t);
    } catch (error) {
      console.error(`--- the server's log during "${name}"\n${dev.lines.slice(from).slice(-120).join("\n")}\n---`);
      throw error;
    }
  });
}
