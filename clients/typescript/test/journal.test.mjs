// The journal is that of the clients of every language: clients/testing/journal.json.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Journal, JournalError, MemoryStore, payingFetch } from "roamcard";
import { FileStore } from "roamcard/node";
import { privateKeyToAccount } from "viem/accounts";

const { valid, refused } = JSON.parse(await readFile(join(import.meta.dirname, "../../testing/journal.json"), "utf8"));

async function folderOf(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-journal-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("the journal is that of every language", async (t) => {
  for (const { name, now, book, spent, pending } of valid) {
    await t.test(name, async (t) => {
      const folder = await folderOf(t);
      await writeFile(join(folder, "journal.json"), JSON.stringify(book), { mode: 0o600 });
      const journal = new Journal(new FileStore(folder), () => now);
      assert.deepEqual((await journal.pending()).map((e) => e.key), pending);
      assert.equal(String(await journal.spent()), spent);
      await journal.store.update(() => undefined);
      const generation = (book.generation ?? 0) + 1;
      assert.deepEqual(JSON.parse(await readFile(join(folder, "journal.json"), "utf8")), { ...book, generation });
      assert.equal((await stat(join(folder, "journal.json"))).mode & 0o777, 0o600);
    });
  }
});

test("a journal that cannot be read signs nothing", async (t) => {
  for (const { name, text, reason } of refused) {
    await t.test(name, async (t) => {
      const file = join(await folderOf(t), "journal.json");
      await writeFile(file, text);
      await refuses(new FileStore(file), file, reason);
      assert.equal(await readFile(file, "utf8"), text);
    });
  }
});

test("a journal on a full or read-only disk signs nothing", async (t) => {
  for (const [option, reason] of [["size=64k", "full"], ["ro", "read_only"]]) {
    const folder = await folderOf(t);
    if (spawnSync("mount", ["-t", "tmpfs", "-o", `mode=700,${option}`, "tmpfs", folder]).status !== 0)
      return t.skip("no file system can be mounted here");
    try {
      await onSmallDisk(folder, reason);
    } finally {
      spawnSync("umount", [folder]);
    }
  }
});

async function onSmallDisk(folder, reason) {
  if (reason === "full") await writeFile(join(folder, "filler"), Buffer.alloc(1 << 20)).catch(() => undefined);
  await refuses(new FileStore(folder), join(folder, "journal.json"), reason);
}

test("a disk that is full after the answer loses no answer", async () => {
  const memory = new MemoryStore();
  let changes = 0;
  const full = new JournalError("journal.json", "full", "no space");
  // Payee, reserved and signed are kept, settled is not.
  const store = {
    read: () => memory.read(),
    update: async (change) => (++changes > 3 ? Promise.reject(full) : memory.update(change)),
  };
  const { buy, signed, service } = shop(store);
  assert.equal((await buy("k")).orderId, "ord_1");
  assert.equal((await shop(memory, service).buy("k")).orderId, "ord_1");
  assert.equal(signed.length, 1);
  changes = 2;
  const error = await buy("other").catch((e) => e);
  assert.deepEqual([error.reason, error.idempotencyKey, service.paid.length], ["full", "other", 2]);
});

test("processes that share a folder lose no change, in any language", async (t) => {
  const folder = await folderOf(t);
  const writer = (name, dies) => spawn(process.execPath, ["--input-type=module", "-e", `
    import { FileStore } from "roamcard/node";
    const store = new FileStore(${JSON.stringify(folder)});
    for (let i = 0; i < 30; i++) {
      await store.update((book) => {
        if (${dies} && i === 5) process.kill(process.pid, "SIGKILL");
        book.payees["https://${name}.example/" + i] = "0x1";
      });
    }
  `], { cwd: import.meta.dirname, stdio: "inherit" });
  await Promise.all([writer("a", false), writer("b", false), writer("c", true)].map((child) => once(child, "exit")));
  const { payees } = await new FileStore(folder).read();
  for (const name of ["a", "b"])
    for (let i = 0; i < 30; i++) assert.ok(payees[`https://${name}.example/${i}`], `change ${i} of ${name}`);
});

async function refuses(store, file, reason) {
  const { buy, signed } = shop(store);
  const error = await buy("k").catch((e) => e);
  assert.ok(error instanceof JournalError, String(error));
  assert.deepEqual([error.file, error.reason, signed.length], [file, reason, 0]);
}

// shop is a service in this process that sells cards, and a wallet that buys them.
function shop(store, service = { paid: [] }) {
  const account = privateKeyToAccount(`0x${"46".repeat(32)}`);
  const signed = [];
  const payTo = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
  const asset = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
  const base64 = (value) => Buffer.from(JSON.stringify(value)).toString("base64");
  const answer = async (input) => {
    const request = new Request(input);
    if (request.url.endsWith("/api/config")) {
      return Response.json({
        network: { payTo, asset, assetName: "USD Coin", assetVersion: "2" },
        card: { walletPaymentUsdCents: 2500, defaultOrderUsdCents: 2500 },
      });
    }
    const payment = request.headers.get("payment-signature");
    if (payment) {
      service.paid.push(payment);
      return Response.json({
        orderId: "ord_1",
        kind: "card_issue",
        amountUsdCents: 2500,
        replayed: service.paid.length > 1,
      });
    }
    const offer = {
      scheme: "exact",
      network: "eip155:8453",
      amount: "25000000",
      asset,
      payTo,
      maxTimeoutSeconds: 120,
      extra: { name: "USD Coin", version: "2" },
    };
    return new Response("{}", {
      status: 402,
      headers: { "payment-required": base64({ x402Version: 2, resource: { url: request.url }, accepts: [offer] }) },
    });
  };
  const send = payingFetch({
    baseUrl: "https://roamcard.example", fetch: answer, store, maxReplays: 0,
    policy: { mode: "autonomous", maxPerPaymentUsd: "25", maxPerDayUsd: "100" },
    signer: { address: account.address, signTypedData: (data) => (signed.push(data), account.signTypedData(data)) },
  });
  const buy = async (idempotencyKey) => (await send("https://roamcard.example/api/card/purchase", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ idempotencyKey }),
  })).json();
  return { buy, signed, service };
}
