// What is sealed is opened by its receiver, and by nobody else.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { DhkemX25519HkdfSha256 } from "@hpke/core";
import { Recipient, suiteName } from "../dist/hpke.js";
import { sealedPresenter } from "../dist/sealed.js";

const vector = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/hpke.json"), "utf8"));
const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
const text = (value) => new TextEncoder().encode(value);

/** The receiver of the vector. */
async function receiver() {
  const kem = new DhkemX25519HkdfSha256();
  const [privateKey, publicKey] = await Promise.all([
    kem.deserializePrivateKey(bytes(vector.privateKey).buffer),
    kem.deserializePublicKey(bytes(vector.publicKey).buffer),
  ]);
  return Recipient.create({ privateKey, publicKey });
}

test("the vector of another library is opened, and nothing else than the vector", async () => {
  const recipient = await receiver();
  assert.equal(Buffer.from(recipient.publicKey).toString("hex"), vector.publicKey);
  assert.equal(vector.suite, suiteName);
  const parts = () => [bytes(vector.enc), bytes(vector.ciphertext), text(vector.info), text(vector.aad)];
  assert.equal(new TextDecoder().decode(await recipient.open(...parts())), vector.plaintext);
  for (let i = 0; i < 4; i++) {
    const changed = parts();
    changed[i][0] ^= 1;
    await assert.rejects(recipient.open(...changed), `part ${i} is changed`);
  }
  await assert.rejects((await Recipient.create()).open(...parts()), "another receiver");
});

test("a presenter has a key for each card, and says of what it cannot open no more than that", async () => {
  const shown = [];
  const presenter = sealedPresenter(async (card) => (shown.push(card), { presented: true }));
  const [first, second] = await Promise.all([presenter.prepare(), presenter.prepare()]);
  assert.notEqual(first.recipientKey, second.recipientKey);
  assert.equal(Buffer.from(first.recipientKey, "base64").length, 32);
  const sealed = {
    suite: vector.suite,
    enc: Buffer.from(vector.enc, "hex").toString("base64"),
    ciphertext: Buffer.from(vector.ciphertext, "hex").toString("base64"),
  };
  await assert.rejects(first.show(vector.aad, sealed), {
    name: "RevealError",
    message: "what was sealed cannot be opened",
  });
  await assert.rejects(first.show(vector.aad, { ...sealed, suite: "none" }), { name: "RevealError" });
  assert.deepEqual(shown, []);
});
