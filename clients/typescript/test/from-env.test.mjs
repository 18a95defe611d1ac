// A client as the environment describes it.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, fromEnv } from "roamcard/node";
import { autonomous } from "./support/behind.mjs";
import { paying } from "./support/chain.mjs";
import { bystander, chain, dev, newWallet, scenario } from "./support/shared.mjs";

/**
 * Runs an action in an environment that has these variables of ours, and no other. The scenarios run one after the
 * other.
 */
async function within(variables, action) {
  const ours = Object.entries(process.env).filter(([name]) => /^(ROAMCARD|XDG_STATE)_/.test(name));
  for (const [name] of ours) delete process.env[name];
  Object.assign(process.env, variables);
  try {
    return await action();
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
    Object.assign(process.env, Object.fromEntries(ours));
  }
}

const mistakes = (variables, options) =>
  within(variables, () => fromEnv(options)).then(assert.fail, (error) => {
    assert.ok(error instanceof ConfigError, String(error));
    return error;
  });

async function folder(t) {
  const made = await mkdtemp(join(tmpdir(), "roamcard-env-"));
  t.after(() => rm(made, { recursive: true, force: true }));
  return made;
}

scenario("the environment makes a client that buys within its policy, and keeps its journal", async (t) => {
  const { key, account } = await newWallet();
  const journal = await folder(t);
  const variables = {
    ROAMCARD_URL: dev.baseUrl,
    ROAMCARD_WALLET_KEY: key,
    ROAMCARD_MODE: "autonomous",
    ROAMCARD_MAX_PER_PAYMENT_USD: "25",
    ROAMCARD_MAX_PER_DAY_USD: "25.00",
    ROAMCARD_JOURNAL: journal,
    ROAMCARD_RPC_URL: dev.rpcUrl,
    ROAMCARD_SIGNER: "",
  };
  await within(variables, async () => {
    const client = await fromEnv();
    assert.equal(client.address, account.address);
    await paying(chain, account, 1, () => client.cards.purchase({ idempotencyKey: "once" }));
    await assert.rejects(client.cards.topUp({ amountUsdCents: 2500 }), { name: "PolicyDeniedError" });
    const again = await (await fromEnv()).cards.purchase({ idempotencyKey: "once" });
    assert.equal(again.replayed, true);
  });
  assert.equal(JSON.parse(await readFile(join(journal, "journal.json"), "utf8")).schema, "roamcard.journal");
});

scenario("a key from a file, a command, or nobody at all", async (t) => {
  const { key, account } = await newWallet();
  const file = join(await folder(t), "key");
  await writeFile(file, `${key.slice(2)}\n`, { mode: 0o600 });
  assert.equal(
    (await within({ ROAMCARD_URL: dev.baseUrl, ROAMCARD_WALLET_KEY_FILE: file }, () => fromEnv())).address,
    account.address,
  );

  process.env.TEST_WALLET_KEY = key;
  t.after(() => delete process.env.TEST_WALLET_KEY);
  const program = `${process.execPath} ${join(import.meta.dirname, "support/signer.mjs")}`;
  const behind = {
    ROAMCARD_URL: dev.baseUrl,
    ROAMCARD_SIGNER: program,
    ROAMCARD_SIGNER_ENV: "TEST_WALLET_KEY TEST_OTHER",
    ROAMCARD_SIGNER_ADDRESS: account.address,
    ROAMCARD_JOURNAL: await folder(t),
  };
  await within(behind, async () => {
    const client = await fromEnv({ policy: autonomous });
    await paying(chain, account, 1, () => client.cards.purchase());
  });

  const reader = await within({ ROAMCARD_URL: dev.baseUrl }, () => fromEnv());
  assert.ok((await reader.plans.list().page()).items.length > 0);
  assert.throws(() => reader.address, /no signer/);
});

scenario("without a mode a person is asked, and what the code says goes first", async (t) => {
  const variables = {
    ROAMCARD_URL: "http://127.0.0.1:1",
    ROAMCARD_MAX_PER_PAYMENT_USD: "25",
    ROAMCARD_JOURNAL: await folder(t),
  };
  const { quote: denied } = await within(variables, () => fromEnv({ baseUrl: dev.baseUrl, signer: bystander }));
  const { allowed, reason } = await denied.card();
  assert.deepEqual([allowed, /needs an approve function/.test(reason)], [false, true]);
  const asked = [];
  const approve = (quote) => (asked.push(quote.amountUsd), false);
  const client = await within(variables, () => fromEnv({ baseUrl: dev.baseUrl, signer: bystander, approve }));
  await assert.rejects(client.cards.purchase(), { name: "ApprovalDeniedError" });
  assert.deepEqual(asked, ["25.00"]);
});

scenario("all mistakes are told at once, by name, and without a secret", async (t) => {
  const secret = "0xf00dfeed";
  const error = await mistakes({
    ROAMCARD_WALLET_KEY: secret,
    ROAMCARD_MODE: "automatic",
    ROAMCARD_MAX_PER_PAYMENT_USD: "25,00",
    ROAMCARD_MAX_PER_DAY_USD: "1e3",
    ROAMCARD_APPROVE_ABOVE_USD: "much",
    ROAMCARD_RPC_URL: "ftp://node",
    ROAMCARD_OPERATOR_TOKEN_FILE: join(await folder(t), "none"),
  });
  assert.deepEqual(error.mistakes.map((m) => m.split(" ")[0]).sort(), [
    "ROAMCARD_APPROVE_ABOVE_USD",
    "ROAMCARD_MAX_PER_DAY_USD",
    "ROAMCARD_MAX_PER_PAYMENT_USD",
    "ROAMCARD_MODE",
    "ROAMCARD_OPERATOR_TOKEN_FILE",
    "ROAMCARD_RPC_URL",
    "ROAMCARD_URL",
    "ROAMCARD_WALLET_KEY",
  ]);
  assert.ok(!error.message.includes(secret.slice(2)), error.message);
  const url = { ROAMCARD_URL: dev.baseUrl };
  for (const [variables, name] of [
    [{ ROAMCARD_SIGNER: "sign" }, /ROAMCARD_SIGNER and ROAMCARD_SIGNER_ADDRESS need each other/],
    [{ ROAMCARD_SIGNER: "sign", ROAMCARD_SIGNER_ADDRESS: "0x1" }, /ROAMCARD_SIGNER_ADDRESS is no address/],
    [
      { ROAMCARD_WALLET_KEY: secret, ROAMCARD_WALLET_KEY_FILE: "/key" },
      /ROAMCARD_WALLET_KEY and ROAMCARD_WALLET_KEY_FILE are both set/,
    ],
    [{ ROAMCARD_WALLET_KEY: "0".repeat(64) }, /ROAMCARD_WALLET_KEY is no private key/],
    [{ ROAMCARD_MAX_PER_DAY_USD: "0.00" }, /ROAMCARD_MAX_PER_DAY_USD is not more than 0/],
    [{ ROAMCARD_MAX_PER_PAYMENT_USD: "25.001" }, /ROAMCARD_MAX_PER_PAYMENT_USD is no amount/],
    [{ ROAMCARD_URL: "roamcard.example" }, /ROAMCARD_URL is no http or https URL/],
  ]) {
    const { message, mistakes: told } = await mistakes({ ...url, ...variables });
    assert.match(message, name);
    assert.ok(told.length === 1 || variables.ROAMCARD_URL, message);
  }
});
