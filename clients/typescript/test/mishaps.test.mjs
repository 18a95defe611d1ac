// What goes wrong around a payment on the caller's side.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AmbiguousPaymentError, JournalError, MemoryStore, Roamcard } from "roamcard";
import { FakeService } from "roamcard/testing";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const policy = { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" };
const rpcUrl = "http://node.test/";

/** A store that fails to do what `broken` names. */
class BreakingStore extends MemoryStore {
  broken = "";

  async read() {
    if (this.broken === "read") throw new JournalError("journal.json", "failed", "no read");
    return super.read();
  }

  async update(change) {
    if (this.broken === "update") throw new JournalError("journal.json", "failed", "no update");
    return super.update(change);
  }
}

for (const broken of ["update", "read"]) {
  test(`what the chain shows but cannot be kept is not proven: no ${broken}`, async () => {
    const service = new FakeService();
    const store = new BreakingStore();
    const account = privateKeyToAccount(generatePrivateKey());
    let signatures = 0;
    const signer = { ...account, signTypedData: (data) => (signatures++, account.signTypedData(data)) };
    const make = (more) => new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy, store, maxReplays: 0, ...more });
    service.faults.loseAnswer({ on: "paid", before: true });
    await assert.rejects(make().cards.purchase({ idempotencyKey: "k" }), AmbiguousPaymentError);

    const asked = [];
    const fetch = async (input, init) => {
      const request = new Request(input, init);
      if (request.url === rpcUrl) {
        const { method } = await request.json();
        asked.push(method);
        const tomorrow = Math.floor(Date.now() / 1000) + 86_400;
        return Response.json({ result: method === "eth_call" ? "0x0" : { number: "0x1", timestamp: `0x${tomorrow.toString(16)}` } });
      }
      if (!request.headers.has("payment-signature")) return service.fetch(request);
      request.headers.delete("payment-signature");
      const answer = await service.fetch(request);
      // It is kept that it was refused, and from then on nothing.
      await store.update(({ purchases }) => Object.values(purchases).forEach((entry) => (entry.state = "refused")));
      store.broken = broken;
      return answer;
    };
    const error = await make({ fetch, rpcUrl }).cards.purchase({ idempotencyKey: "k" }).then(assert.fail, (e) => e);
    assert.deepEqual([error.status, error.idempotencyKey, signatures], [402, "k", 1], String(error));
    if (broken === "update") assert.ok(asked.includes("eth_call") && error.retryAt !== undefined, asked.join());
  });
}
