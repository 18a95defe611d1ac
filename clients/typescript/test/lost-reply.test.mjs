// The answer to a paid request is lost on the way, and the client asks again.
import assert from "node:assert/strict";
import { json, newKey, poll, purchase, purchaseLeg, recordingFetch } from "./support/api.mjs";
import { paying } from "./support/chain.mjs";
import { startCutter } from "./support/cut.mjs";
import { settlementOf } from "./support/payer.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

for (const [moment, when] of [["right after the request", "forwarded"], ["as the answer begins", "answered"]]) {
  scenario(`a connection cut ${moment} costs the buyer nothing but another call`, async (t) => {
    const account = buyer();
    const key = newKey();
    const cutter = await startCutter(dev.baseUrl, { when });
    t.after(() => cutter.close());
    const before = await chain.snapshot(account);

    const lost = recordingFetch();
    await assert.rejects(purchase(cutter.baseUrl, account, key, lost.send), {
      name: "TypeError",
      message: "fetch failed",
    });
    assert.equal(cutter.cuts, 1);
    assert.equal(lost.headers.length, 1);

    const again = recordingFetch();
    const second = await purchase(cutter.baseUrl, account, key, again.send);
    const order = await json(second);
    // Either of the two may be the one that buys: a busy server may have refused the first.
    assert.notEqual(again.headers[0], lost.headers[0], "the official client signs anew");

    // The header whose answer was lost, byte for byte.
    const third = await purchaseLeg(dev.baseUrl, key, lost.headers[0]);
    const repeated = await json(third);
    assert.equal(repeated.orderId, order.orderId);
    assert.equal(repeated.replayed, true);
    assert.deepEqual(settlementOf(third), settlementOf(second));

    await chain.assertPaid(before, [account], [1]);
    const [{ transactionHash }] = await chain.transfers(account.address);
    assert.equal(order.payment.transaction, transactionHash);
  });
}

scenario("a payment whose every answer is lost still buys the card", async (t) => {
  const account = buyer();
  const key = newKey();
  const cutter = await startCutter(dev.baseUrl, { times: 3, when: "answered" });
  t.after(() => cutter.close());
  await paying(chain, account, 1, async () => {
    const sent = recordingFetch();
    for (let i = 0; i < 3; i++) await assert.rejects(purchase(cutter.baseUrl, account, key, sent.send), /fetch failed/);
    await poll("the transfer", () => chain.transfers(account.address), (logs) => logs.length > 0);
    const order = await json(await purchaseLeg(dev.baseUrl, key, sent.headers[0]));
    assert.equal(order.replayed, true);
  });
});
