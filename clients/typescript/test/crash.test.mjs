// The server is killed while it takes a payment, and started again on the same data.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { privateKeyToAccount } from "viem/accounts";
import { get, json, newKey, poll, purchase, recordingFetch, signIn } from "./support/api.mjs";
import { Chain } from "./support/chain.mjs";
import { startCutter } from "./support/cut.mjs";
import { dataFolder, removeFolder, startDev, startDevnet, startSandbox } from "./support/dev.mjs";

// When the kill comes, in milliseconds after the paid request went out: at different steps of the settlement. Once each
// is enough here, for tests of the program's own kill it at every step; with ROAMCARD_TORTURE, which tools/stories.sh
// sets, it is killed at more of them.
const more = process.env.ROAMCARD_TORTURE;
const serverAlone = more ? [0, 10, 30, 100] : [30];
const everything = more ? [0, 10, 150, 400] : [150];

test("kill -9 while a payment is taken, with the chain and the issuer going on", { timeout: 600_000 }, async (t) => {
  const folder = await dataFolder();
  t.after(() => removeFolder(folder));
  const devnet = await startDevnet(folder);
  t.after(() => devnet.stop());
  const sandbox = await startSandbox(folder);
  t.after(() => sandbox.stop());
  await surviveKills(
    t,
    () => startDev(folder, "--rpc-url", devnet.rpcUrl, "--sandbox-url", sandbox.sandboxUrl),
    serverAlone,
  );
});

test("kill -9 of everything while a payment is taken", { timeout: 600_000 }, async (t) => {
  const folder = await dataFolder();
  t.after(() => removeFolder(folder));
  await surviveKills(t, () => startDev(folder), everything);
});

/** For each moment: a purchase, a kill, a restart, and the same purchase again. */
async function surviveKills(t, start, moments) {
  let server = await start();
  t.after(() => server.kill());
  for (const [i, ms] of moments.entries()) {
    await t.test(`after ${ms} ms: one transfer, one card`, async () => {
      const account = privateKeyToAccount(server.wallets[i].privateKey);
      const key = newKey();
      const before = await new Chain(server).snapshot(account);
      await loseServer(server, account, key, ms);
      server = await start();
      try {
        await buysOnce(server, account, key, before);
      } catch (error) {
        console.error(`--- the log since the restart\n${server.lines.slice(-150).join("\n")}\n---`);
        throw error;
      }
    });
  }
  assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.lines.slice(-40).join("\n"));
}

/** Buys a card and kills the server so long after the payment went out. */
async function loseServer(server, account, key, ms) {
  let killed;
  const cutter = await startCutter(server.baseUrl, {
    when: "answered",
    onForwarded: () => {
      killed = delay(ms).then(() => server.kill());
    },
  });
  const sent = recordingFetch();
  await assert.rejects(purchase(cutter.baseUrl, account, key, sent.send), /fetch failed/);
  await killed;
  await cutter.close();
  assert.equal(sent.headers.length, 1, "the payments sent");
}

async function buysOnce(server, account, key, before) {
  const chain = new Chain(server);
  const order = await json(await purchase(server.baseUrl, account, key));
  const session = await signIn(server.baseUrl, account, "eip191");
  await poll(
    "a fulfilled order",
    () => get(server.baseUrl, `/api/orders/${order.orderId}`, session),
    (o) => o.status === "fulfilled",
  );
  await chain.assertPaid(before, [account], [1]);

  const { orders } = await get(server.baseUrl, "/api/orders", session);
  assert.deepEqual(orders.map((o) => o.orderId), [order.orderId]);
  const { cards } = await get(server.baseUrl, "/api/cards", session);
  assert.deepEqual(
    cards.map((c) => c.status),
    ["ACTIVE"],
  );
  await poll(
    "a balance of 15.00",
    () => get(server.baseUrl, `/api/cards/${cards[0].id}/balance`, session),
    (b) => b.availableUsdCents === 1500,
  );
  const books = await (await fetch(`${server.sandboxUrl}/control/books`)).json();
  const twice = Object.entries(books.executed).filter(([, times]) => times !== 1);
  assert.deepEqual(twice, [], "what the issuer executed more than once");
}
