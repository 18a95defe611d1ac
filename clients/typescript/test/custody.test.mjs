// What belongs to a wallet stays with its user: the cases of all languages, clients/testing/custody.json.
import assert from "node:assert/strict";
import {
  chmodSync, existsSync, lchownSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { JournalError } from "roamcard";
import { commandSigner, FileStore, fromEnv, pagePresenter } from "roamcard/node";
import { makeFolder, programEnvironment } from "../dist/node/custody.js";

const cases = JSON.parse(readFileSync(join(import.meta.dirname, "../../testing/custody.json"), "utf8"));
const user = process.geteuid?.();

function folderOf(t) {
  const folder = mkdtempSync(join(tmpdir(), "roamcard-custody-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Sets variables for a test. */
function set(t, variables) {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name];
    process.env[name] = value;
    t.after(() => (before === undefined ? delete process.env[name] : (process.env[name] = before)));
  }
}

/** Makes what a case is about. What is another user's can be made by root alone. */
function make(root, { folder, file, link, to, mode, owner }) {
  const path = join(root, folder ?? file ?? link);
  const book = '{"schema": "roamcard.journal", "version": 2, "payees": {}, "purchases": {}}';
  if (folder) mkdirSync(path);
  else if (link) symlinkSync(to.replaceAll("{root}", root), path);
  else writeFileSync(path, file.endsWith(".json") ? book : "0");
  if (owner) lchownSync(path, owner, -1);
  if (mode) chmodSync(path, Number.parseInt(mode, 8));
}

const isOthers = (given) => given.some(({ owner }) => owner) && user !== 0;
const exposed = (told) => (error) =>
  error instanceof JournalError && error.reason === "exposed" && error.message.endsWith(`: ${told}`);

test("a journal that others may write, or replace, is refused", { skip: user === undefined }, async (t) => {
  for (const { name, make: given, home, journal, absent, refused, locked } of cases.journals) {
    await t.test(name, { skip: isOthers(given) }, async (t) => {
      const root = folderOf(t);
      for (const one of given) make(root, one);
      if (home) set(t, { HOME: join(root, home) });
      const told = (text) => text.replaceAll("{root}", root).replaceAll("{user}", user);
      const store = new FileStore(join(root, journal));
      const note = () => store.update((book) => (book.payees["https://a.example"] = "0x1"));
      if (refused) await assert.rejects(store.read(), exposed(told(refused)));
      if (refused ?? locked) await assert.rejects(note(), exposed(told(refused ?? locked)));
      else await note();
      if (!refused) assert.equal(Object.keys((await store.read()).payees).length, locked ? 0 : 1);
      if (absent) assert.equal(existsSync(join(root, absent)), false);
    });
  }
});

test("a folder is made for its user alone", { skip: user === undefined }, (t) => {
  const folder = join(folderOf(t), "new");
  makeFolder(join(folder, "journal"));
  for (const made of [folder, join(folder, "journal")]) assert.equal(lstatSync(made).mode & 0o7777, 0o700);
});

test("a file with a key that others may use is refused", { skip: user === undefined }, async (t) => {
  for (const { name, mode, owner, refused } of cases.secrets) {
    await t.test(name, { skip: owner && user !== 0 }, async (t) => {
      const file = join(folderOf(t), "key");
      writeFileSync(file, "46".repeat(32));
      if (owner) lchownSync(file, owner, -1);
      chmodSync(file, Number.parseInt(mode, 8));
      set(t, { ROAMCARD_WALLET_KEY: "", ROAMCARD_SIGNER: "", ROAMCARD_WALLET_KEY_FILE: file });
      const client = fromEnv({ baseUrl: "https://roamcard.example" });
      if (!refused) return assert.match((await client).address, /^0x/);
      const told = refused.replaceAll("{file}", file).replaceAll("{user}", user);
      await assert.rejects(client, (error) => error.message.includes(told));
    });
  }
});

test("programs get what they need of the environment, and no key", (t) => {
  const { given, named, kept } = cases.environment;
  const names = [...given, ...named, ...kept].filter((name) => name !== "path" || process.platform !== "win32");
  set(t, Object.fromEntries(names.map((name) => [name, `of ${name}`])));
  const got = programEnvironment(named);
  assert.deepEqual(
    names.filter((name) => got[name] === `of ${name}`),
    [...given, ...named],
  );
});

test("the signer and the browser see no key", { skip: process.platform !== "linux" }, async (t) => {
  const folder = folderOf(t);
  const [seen, program] = [join(folder, "seen"), join(folder, "xdg-open")];
  writeFileSync(program, `#!/bin/sh\nenv >"${seen}.new" && mv "${seen}.new" "${seen}"\n`, { mode: 0o755 });
  set(t, {
    ROAMCARD_WALLET_KEY: "a key", ROAMCARD_OPERATOR_TOKEN: "a token", VAULT_ADDR: "of its own",
    PATH: `${folder}:${process.env.PATH}`,
  });
  const environment = () => {
    const text = readFileSync(seen, "utf8");
    rmSync(seen);
    assert.match(text, /^PATH=/m);
    return text;
  };
  const signer = commandSigner({ address: "0x1", command: program, environment: ["VAULT_ADDR"] });
  await signer.signTypedData({});
  const signers = environment();
  assert.match(signers, /^VAULT_ADDR=of its own$/m);
  const esim = {
    lpa: "LPA:1$smdp.example$MATCH-1", iccid: "8901234567890123456", smdpAddress: "smdp.example", matchingId: "MATCH-1",
    qrPng: "data:image/png;base64,AAAA",
  };
  const waiting = new AbortController();
  const shown = pagePresenter().presentEsim({ reveal: () => esim }, waiting.signal);
  while (!existsSync(seen)) await new Promise((done) => setImmediate(done));
  waiting.abort();
  await shown.catch(() => undefined);
  const browsers = environment();
  for (const text of [signers, browsers]) assert.doesNotMatch(text, /ROAMCARD_|a key|a token/);
  assert.doesNotMatch(browsers, /VAULT_ADDR/);
});
