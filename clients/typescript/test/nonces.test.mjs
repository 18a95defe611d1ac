// The nonce of a purchase: the same in every language, and another one only for a payment that is dead.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ApiError, MemoryStore, nonceOf } from "roamcard";
import { newKey } from "./support/api.mjs";
import { aged } from "./support/aged.mjs";
import { behindProxy, payments } from "./support/behind.mjs";
import { paying } from "./support/chain.mjs";
import { buyer, chain, dev, scenario } from "./support/shared.mjs";

scenario("the nonces are those of every language", async () => {
  const vectors = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/nonces.json"), "utf8"));
  assert.ok(vectors.length > 0);
  for (const { origin, path, payer, key, attempt, nonce } of vectors)
    assert.equal(await nonceOf(origin, path, payer, key, attempt), nonce);
});

scenario("over Connect the nonce is that of the documented path", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const { signatures, client } = await behindProxy(t, account);
  await client.cards.purchase({ idempotencyKey });
  assert.equal(
    signatures[0].message.nonce,
    await nonceOf(dev.baseUrl, "/api/card/purchase", account.address, idempotencyKey),
  );
});

scenario("a payment that is called dead is the only one while the chain can take it", async (t) => {
  const account = buyer();
  const idempotencyKey = newKey();
  const store = new MemoryStore();
  const { proxy, signatures, make } = await behindProxy(t, account, {
    store,
    policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "50" },
  });
  const dead = { on: "paid", dead: true };
  await paying(chain, account, 1, async () => {
    for (let attempt = 0; attempt < 2; attempt++) {
      proxy.inject(dead);
      const error = await make()
        .cards.purchase({ idempotencyKey })
        .catch((e) => e);
      assert.ok(
        error instanceof ApiError && error.retryable && Date.parse(error.retryAt) > Date.now() &&
          error.idempotencyKey === idempotencyKey,
        String(error),
      );
    }
    assert.equal(new Set(payments(proxy)).size, 1);
    // Two days later the chain cannot take it any more, and the next one has a nonce of its own.
    await aged(store, 172_800);
    const refusing = make({ policy: { mode: "human_approval", maxPerPaymentUsd: "25", approve: () => false } });
    await assert.rejects(refusing.cards.purchase({ idempotencyKey }), /not approved/);
    const { replayed } = await make().cards.purchase({ idempotencyKey });
    assert.equal(replayed, false);
  });
  const expected = [0, 1].map((attempt) =>
    nonceOf(dev.baseUrl, "/api/card/purchase", account.address, idempotencyKey, attempt),
  );
  assert.deepEqual(
    signatures.map((s) => s.message.nonce),
    await Promise.all(expected),
  );
});
