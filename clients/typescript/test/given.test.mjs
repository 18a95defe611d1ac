// What identifies something is never empty: nothing is signed and nothing sent for a call that has it so.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { EmptyError, Roamcard, Secret } from "roamcard";
import { OperatorService } from "roamcard/proto";

const sent = [];
const signed = [];
const account = privateKeyToAccount(generatePrivateKey());
const signer = {
  address: account.address,
  signTypedData: (data) => (signed.push(data), account.signTypedData(data)),
  signMessage: (message) => (signed.push(message), account.signMessage(message)),
};
const client = new Roamcard({
  baseUrl: "http://127.0.0.1:9",
  signer,
  operatorToken: "t",
  policy: { mode: "autonomous", maxPerPaymentUsd: "250", maxPerDayUsd: "1000" },
  fetch: async (url) => {
    sent.push(url);
    throw new Error("sent");
  },
});

const act = (empty) => [
  { reason: empty, idempotencyKey: "k" },
  { reason: "r", idempotencyKey: empty },
];
// What every group has, by the places of what identifies something.
const calls = {
  "cards.purchase": (e) => [[{ idempotencyKey: e }]],
  "cards.topUp": (e) => [[{ amountUsdCents: 2500, idempotencyKey: e }]],
  "esim.purchase": (e) => [[{ idempotencyKey: e }], [{ planId: e }]],
  "esim.topUp": (e) => [["ord_1", { idempotencyKey: e }], [e], ["ord_1", { planId: e }]],
  "orders.createCard": (e) => [[{ idempotencyKey: e }]],
  "orders.createTopUp": (e) => [[{ amountUsdCents: 2500, idempotencyKey: e }]],
  "orders.createEsim": (e) => [[{ idempotencyKey: e }], [{ planId: e }]],
  "admin.setSwitch": (e) => [[e, { paused: true, reason: "r", idempotencyKey: "k" }]],
  "orders.watchAll": (e) => [[["ord_1", e]]],
};
for (const name of ["get", "pay", "watch", "waitUntilFulfilled"]) calls[`orders.${name}`] = (e) => [[e]];
for (const name of ["balance", "freeze", "unfreeze", "limits", "details", "transactions"])
  calls[`cards.${name}`] = (e) => [[e]];
calls["cards.setLimits"] = (e) => [[e, {}]];
for (const name of ["status", "profile", "topUps"])
  calls[`esim.${name}`] = (e) => [[e], ["ord_1", { deliveryToken: new Secret(e) }]];
for (const name of ["rotateToken", "cancel"]) calls[`esim.${name}`] = (e) => [[e]];
// The acts of operators about one thing.
for (const { localName: name, input } of OperatorService.methods)
  if (client.admin[name]?.length === 2 && input.field.reason)
    calls[`admin.${name}`] = (e) => [
      [e, { reason: "r", idempotencyKey: "k" }],
      ...act(e).map((options) => ["x", { ...options, action: "refund", resolution: "refund", paused: true }]),
    ];

/** Runs what a call gives. */
async function run(answer) {
  if (answer?.[Symbol.asyncIterator] && !answer.then) for await (const _ of answer) break;
  else await answer;
}

test("nothing is signed or sent for an empty identity", async () => {
  let tried = 0;
  for (const [path, places] of Object.entries(calls)) {
    const [group, name] = path.split(".");
    for (const empty of ["", " \t"])
      for (const given of places(empty)) {
        tried++;
        const what = `${path}(${JSON.stringify(given)})`;
        await assert.rejects(async () => run(client[group][name](...given)), EmptyError, what);
        assert.deepEqual([sent, signed], [[], []], what);
      }
  }
  assert.ok(tried > 100, `only ${tried} calls`);
  await assert.rejects(client.resume(""), EmptyError);
});

test("a URL with a password is refused, and not shown", () => {
  for (const given of [{ baseUrl: "https://me:hunter2@a.example" }, { origin: "HTTPS://hunter2@a.example/" }])
    assert.throws(
      () => new Roamcard({ baseUrl: "https://a.example", ...given }),
      (error) => /has a user or a password/.test(error.message) && !error.message.includes("hunter2"),
    );
  assert.ok(new Roamcard({ baseUrl: "https://a.example/@path/" }));
});
