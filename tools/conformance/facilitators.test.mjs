// Facilitators that others wrote settle what official x402 clients buy: each alone, on a chain of its own with a block
// every two seconds, next to the relayer, which is measured with them. FACILITATORS names some of them; unverified is
// the npm one without /verify before each /settle.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { hangsAfter, missing, World } from "./settling.mjs";

const timeout = 2 * hangsAfter;
const all = ["relayer", "npm", "unverified", "python", "rust", "insisting"];
const chosen = process.env.FACILITATORS?.split(" ") ?? all;
const rows = [];

for (const settler of chosen) {
  describe(settler, { skip: settler === "relayer" ? undefined : missing(settler), timeout }, () => {
    let world;
    const row = { settler, singly: [], together: [], refused: [] };

    before(async () => {
      world = await World.start(settler);
      rows.push(row);
    });
    after(async () => {
      row.spent = await world?.spent();
      await world?.end();
    });

    test("sells a card, eSIMs and a top-up", { timeout }, async () => {
      const buyer = world.buyer(0);
      const card = await buyer.buys("/api/card/purchase");
      await delivered(world, buyer, card.order);
      const topup = await buyer.buys("/api/card/topup");
      row.card = card.ms;
      row.topup = topup.ms;
      for (let i = 0; i < 7; i++) row.singly.push((await buyer.buys("/api/esim/purchase")).ms);
      row.esim = row.singly[0];
      row.singly.push(card.ms, topup.ms);
      assert.equal((await world.transfers()).length, row.singly.length);
    });

    test("eight buyers at once", { timeout }, async () => {
      const before = (await world.transfers()).length;
      const buyers = [1, 2, 3, 4, 5, 6, 7, 8].map((index) => world.buyer(index));
      const bought = await Promise.all(buyers.map((buyer) => buyer.buys("/api/esim/purchase")));
      row.together = bought.map(({ ms }) => ms);
      row.selling = await world.spent();
      row.repeats = bought.reduce((sum, { repeats }) => sum + repeats, 0);
      assert.equal((await world.transfers()).length, before + buyers.length);
    });

    test("refuses a bad payment of each sort, and sells on", { timeout }, async (t) => {
      for (const [name, bad] of Object.entries(payments)) {
        await t.test(name, { timeout }, async () => {
          const { buyer, asked } = await bad(world);
          const before = (await world.transfers()).length;
          const { status, body } = await buyer.pays(asked);
          assert.ok(status >= 400 && status < 500, `${status} ${JSON.stringify(body)}`);
          if (world.facilitator) row.refused.push({ name, ...(await world.settles(asked.payment)) });
          assert.equal((await world.transfers()).length, before);
          await world.buyer(10).buys("/api/esim/purchase");
          assert.equal((await world.transfers()).length, before + 1);
          const ready = await fetch(`${world.dev.baseUrl}/ready`);
          assert.equal(ready.status, 200, await ready.text());
        });
      }
    });
  });
}

/** The bad payments: each is an eSIM's. */
const payments = {
  async "a bad signature"(world) {
    const buyer = world.buyer(9);
    const asked = await buyer.signed("/api/esim/purchase");
    const { payment } = await world.buyer(11).resigned(asked, {});
    return { buyer, asked: { ...asked, payment } };
  },
  async "an expired one"(world) {
    const buyer = world.buyer(9);
    const { timestamp } = await world.rpc("eth_getBlockByNumber", ["latest", false]);
    const validBefore = String(Number(timestamp) - 60);
    return { buyer, asked: await buyer.resigned(await buyer.signed("/api/esim/purchase"), { validBefore }) };
  },
  async "a wrong amount"(world) {
    const buyer = world.buyer(9);
    const asked = await buyer.signed("/api/esim/purchase");
    const value = String(BigInt(asked.payment.accepted.amount) - 1n);
    return { buyer, asked: await buyer.resigned(asked, { value }) };
  },
  async "a wallet without money"(world) {
    const buyer = world.buyer();
    return { buyer, asked: await buyer.signed("/api/esim/purchase") };
  },
  async "a used nonce"(world) {
    const buyer = world.buyer(9);
    const { nonce } = (await buyer.buys("/api/esim/purchase")).asked.payment.payload.authorization;
    return { buyer, asked: await buyer.resigned(await buyer.signed("/api/esim/purchase"), { nonce }) };
  },
};

after(() => {
  const done = rows.filter(({ spent, selling }) => spent && selling);
  const relayer = done.find(({ settler }) => settler === "relayer");
  const ms = (value) => (value === undefined ? "" : String(Math.round(value)));
  const ratio = (value, of) => (value === undefined || !of ? "" : (value / of).toFixed(2));
  const gas = ({ selling }) => selling.gas / selling.payments;
  table([
    ["settler", "card", "eSIM", "top-up", "singly", "range", "times", "8 at once", "longest", "times", "repeats",
      "gas", "times", "reverted"],
    ...done.map((row) => [
      row.settler, ms(row.card), ms(row.esim), ms(row.topup), ms(median(row.singly)),
      `${ms(Math.min(...row.singly))} to ${ms(Math.max(...row.singly))}`,
      ratio(median(row.singly), median(relayer?.singly)), ms(median(row.together)), ms(Math.max(...row.together)),
      ratio(median(row.together), median(relayer?.together)), String(row.repeats), ms(gas(row)),
      ratio(gas(row), relayer && gas(relayer)), String(row.selling.reverted),
    ]),
  ]);
  console.log("Milliseconds from the paid request to the order: singly is the median of nine. Gas is of one payment,");
  console.log("reverted counts transactions while selling, and times is a ratio to the relayer. What they answer at");
  console.log("/settle to a payment that the service refuses, and what that costs them:");
  table([
    ["facilitator", ...Object.keys(payments), "reverted", "gas of these"],
    ...done.filter(({ refused }) => refused.length > 0).map(({ settler, refused, spent, selling }) => [
      settler, ...Object.keys(payments).map((name) => answered(refused.find((each) => each.name === name))),
      String(spent.reverted - selling.reverted), String(spent.wasted - selling.wasted),
    ]),
  ]);
});

function answered(refusal) {
  return refusal ? `${refusal.status}${refusal.success === undefined ? "" : `, success ${refusal.success}`}` : "";
}

function median(values = []) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

function table(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  for (const line of lines) console.log(`| ${line.map((cell, i) => cell.padEnd(widths[i])).join(" | ")} |`);
}

/** Waits until an order is delivered, as its owner reads it. */
async function delivered(world, buyer, { orderId }) {
  const { account } = buyer;
  const { intentId, message } = (await world.post("/api/auth/challenge", { address: account.address })).body;
  const signature = await account.signMessage({ message });
  const session = await world.post("/api/auth/verify", { address: account.address, intentId, message, signature });
  const headers = { authorization: `Bearer ${session.body.accessToken}` };
  for (;;) {
    const order = await (await fetch(`${world.dev.baseUrl}/api/orders/${orderId}`, { headers })).json();
    if (order.status === "fulfilled") return;
    assert.ok(["settling", "settled", "provisioning"].includes(order.status), JSON.stringify(order));
    await pause(100);
  }
}
