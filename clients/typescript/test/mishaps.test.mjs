// What goes wrong around a payment on the caller's side.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AmbiguousPaymentError, JournalError, MemoryStore, PaymentError, Roamcard } from "roamcard";
import { FakeService } from "roamcard/testing";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { aged } from "./support/aged.mjs";

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
    const make = (more) =>
      new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy, store, maxReplays: 0, ...more });
    service.faults.loseAnswer({ on: "paid", before: true });
    await assert.rejects(make().cards.purchase({ idempotencyKey: "k" }), AmbiguousPaymentError);

    const asked = [];
    const fetch = async (input, init) => {
      const request = new Request(input, init);
      if (request.url === rpcUrl) {
        const { method } = await request.json();
        asked.push(method);
        const tomorrow = Math.floor(Date.now() / 1000) + 86_400;
        return Response.json({
          result: method === "eth_call" ? "0x0" : { number: "0x1", timestamp: `0x${tomorrow.toString(16)}` },
        });
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

/** A wallet whose first payment the service called dead, and whose time is over by so many seconds. */
async function afterADeadPayment(seconds) {
  const { make, signer, store, signatures } = refusing(() => true);
  await assert.rejects(make().cards.purchase({ idempotencyKey: "k" }), { status: 402, idempotencyKey: "k" });
  await aged(store, 120 + seconds);
  return { make, signer, signatures };
}

/** A wallet whose payments the service refuses: those that `dead` says are called dead. */
function refusing(dead) {
  const [service, store] = [new FakeService(), new MemoryStore()];
  const account = privateKeyToAccount(generatePrivateKey());
  let signatures = 0;
  const signer = { ...account, signTypedData: (data) => (signatures++, account.signTypedData(data)) };
  const fetch = async (input, init) => {
    const request = new Request(input, init);
    const paid = request.headers.has("payment-signature");
    request.headers.delete("payment-signature");
    const answer = await service.fetch(request);
    if (!paid || !dead()) return answer;
    const headers = new Headers(answer.headers);
    headers.set("payment-response", btoa(JSON.stringify({ success: false, transaction: "", network: "eip155:8453" })));
    return new Response(answer.body, { status: answer.status, headers });
  };
  const make = (more) => new Roamcard({ baseUrl: service.url, fetch, signer, policy, store, maxReplays: 0, ...more });
  return { make, signer, store, signatures: () => signatures };
}

const refusals = {
  "the cap of a payment": { policy: { ...policy, maxPerPaymentUsd: "1" } },
  "the cap of a day": { policy: { ...policy, maxPerDayUsd: "30" } },
  "nobody to ask": { policy: { mode: "human_approval" } },
  "a no": { policy: { mode: "human_approval", approve: () => false } },
  "a question that fails": { policy: { mode: "human_approval", approve: () => { throw new Error("no screen"); } } },
  "another payee": { policy: { ...policy, allow: { payTo: "0x000000000000000000000000000000000000dEaD" } } },
};
for (const [what, more] of Object.entries(refusals)) {
  test(`a refusal to sign again names the key: ${what}`, async () => {
    const { make, signatures } = await afterADeadPayment(300);
    const error = await make(more).cards.purchase({ idempotencyKey: "k" }).then(assert.fail, (e) => e);
    assert.ok(error instanceof PaymentError && error.idempotencyKey === "k", String(error));
    assert.equal(signatures(), 1);
  });
}

test("a wallet that does not sign again, and a caller who gives up then, name the key", async () => {
  const { make, signer } = await afterADeadPayment(300);
  const unwilling = { ...signer, signTypedData: () => Promise.reject(new Error("no")) };
  const refused = make({ signer: unwilling }).cards.purchase({ idempotencyKey: "k" });
  await assert.rejects(refused, { name: "PaymentError", idempotencyKey: "k" });
  const giving = new AbortController();
  const approve = () => (giving.abort(), new Promise(() => {}));
  const client = make({ policy: { mode: "human_approval", approve } });
  const givenUp = client.cards.purchase({ idempotencyKey: "k", signal: giving.signal });
  await assert.rejects(givenUp, { name: "AmbiguousPaymentError", idempotencyKey: "k" });
});

test("a clock that is ahead signs nothing while a payment is live", async () => {
  for (const [seconds, signed] of [[55, 1], [65, 2]]) {
    const { make, signatures } = await afterADeadPayment(seconds);
    await assert.rejects(make().cards.purchase({ idempotencyKey: "k" }), { status: 402, idempotencyKey: "k" });
    assert.equal(signatures(), signed, `${seconds} s after its end`);
  }
});

test("a payment that is called dead only when it is repeated has a nonce of its own after it", async () => {
  const answers = [false, true, true];
  const { make, store } = refusing(() => answers.shift());
  const buy = () => assert.rejects(make().cards.purchase({ idempotencyKey: "k" }), { status: 402 });
  for (let sent = 0; sent < 3; sent++) await buy();
  await aged(store, 300);
  answers.push(false, false);
  await buy();
  const [{ attempt, authorizations }] = Object.values((await store.read()).purchases);
  assert.deepEqual([attempt, new Set(authorizations.map((a) => a.nonce)).size, authorizations.length], [1, 2, 2]);
});

test("a sign-in that was given up is not waited for by the next call", async () => {
  const service = new FakeService();
  const account = privateKeyToAccount(generatePrivateKey());
  let asked = 0;
  const never = new Promise(() => {});
  const signer = { ...account, signMessage: (data) => (++asked === 1 ? never : account.signMessage(data)) };
  const client = new Roamcard({ baseUrl: service.url, fetch: service.fetch, signer, policy });
  const [giving, staying] = [new AbortController(), new AbortController()];
  const first = client.auth.signIn({ signal: giving.signal });
  const second = client.auth.signIn({ signal: staying.signal });
  const gaveUp = assert.rejects(first, { message: "enough" });
  while (asked === 0) await new Promise((done) => setTimeout(done, 1));
  giving.abort(new Error("enough"));
  await gaveUp;
  assert.equal(asked, 1, "somebody still waits for the wallet");
  staying.abort(new Error("enough, too"));
  await assert.rejects(second, { message: "enough, too" });
  assert.ok((await client.auth.signIn()).expiresAt);
  assert.equal(asked, 2);
});

test("who gives up a reveal waits for no wallet", async () => {
  const account = privateKeyToAccount(generatePrivateKey());
  const giving = new AbortController();
  const silent = () => (giving.abort(new Error("enough")), new Promise(() => {}));
  const signer = {
    ...account, signMessage: (data) => (data.message.includes("Reveal.") ? silent() : account.signMessage(data)),
  };
  const service = new FakeService();
  const fetch = async (input, init) => {
    const request = new Request(input, init);
    if (!request.url.endsWith("/CreateRevealChallenge")) return service.fetch(request);
    const { id, recipientKey } = await request.json();
    const key = recipientKey.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
    const message = `${new URL(service.url).host} wants you to sign in with your Ethereum account:\n` +
      `${account.address}\n\nReveal.\n\n` +
      `URI: ${service.url}\nVersion: 1\nChain ID: 8453\nNonce: 12345678\nResources:\n- urn:roamcard:card:${id}\n` +
      `- urn:roamcard:recipient-key:${key}`;
    return Response.json({ intentId: "i", message, messageScheme: "eip191" });
  };
  const client = new Roamcard({ baseUrl: service.url, fetch, signer, policy });
  const present = { prepare: async () => ({ recipientKey: btoa("x".repeat(32)), show: assert.fail }) };
  await assert.rejects(client.cards.reveal("card_1", { present, signal: giving.signal }), { message: "enough" });
});
