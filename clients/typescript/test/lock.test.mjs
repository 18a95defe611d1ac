// A lock whose owner cannot be seen is not dead; and nothing is written over what another program wrote.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, readlink, rm, utimes, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { JournalError } from "roamcard";
import { FileStore } from "roamcard/node";

const linux = process.platform === "linux";

async function folderOf(t) {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-lock-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const note = (folder, name) =>
  new FileStore(folder).update((book) => {
    book.payees[`https://${name}.example`] = "0x1";
  });
const noted = async (folder) => Object.keys((await new FileStore(folder).read()).payees).map((url) => url.slice(8, -8));
const failed = (reason, text) => (error) =>
  error instanceof JournalError && error.reason === reason && error.message.includes(text);

async function recordOf(changes) {
  const host = hostname();
  const record = { pid: 4_000_000, host, boot: `host:${host}`, namespace: `host:${host}`, started: "1", locked: false };
  if (linux) {
    record.boot = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    record.namespace = await readlink("/proc/self/ns/pid");
  }
  return JSON.stringify({ ...record, ...changes });
}

/** Leaves a lock in a folder, as a holder of an hour ago. */
async function holds(folder, record) {
  const lock = join(folder, "lock-7");
  await writeFile(lock, record);
  const hourAgo = new Date(Date.now() - 3_600_000);
  await utimes(lock, hourAgo, hourAgo);
  return join(folder, "free-7");
}

test("the lock of a holder that cannot be seen is not taken", async (t) => {
  for (const [name, record] of Object.entries({
    "another container": await recordOf({ namespace: "pid:[1]" }),
    "another container of another language": await recordOf({ namespace: "pid:[1]", locked: true }),
    "another host": await recordOf({ host: "elsewhere" }),
    "another boot": await recordOf({ boot: "0-0-0" }),
    "no boot": await recordOf({ boot: "" }),
    "an older client": "4000000",
    "half a record": '{"pid": 40',
    "a number": "7.5",
    nothing: "",
  })) {
    const folder = await folderOf(t);
    const free = await holds(folder, record);
    await assert.rejects(note(folder, "a"), failed("locked", free), name);
    assert.deepEqual(await noted(folder), []);
    await writeFile(free, ""); // a person has looked, and says that it has ended
    await note(folder, "a");
    assert.deepEqual(await noted(folder), ["a"]);
  }
});

test("the lock of a dead holder is taken", async (t) => {
  for (const record of [
    await recordOf({}), // no such process
    await recordOf(linux ? { pid: process.pid } : {}), // the pid of another process
    "0", // let go by an older client
  ]) {
    const folder = await folderOf(t);
    await holds(folder, record);
    await note(folder, "a");
    assert.deepEqual(await noted(folder), ["a"]);
  }
});

test("a writer of an older generation changes nothing", async (t) => {
  const payees = '"payees": {"https://other.example": "0x1"}';
  const other = `{"schema": "roamcard.journal", "version": 2, ${payees}, "purchases": {}`;
  const write = (text) => (folder) => writeFileSync(join(folder, "journal.json"), text);
  for (const [name, meanwhile, kept] of [
    ["a lock given away", (folder) => writeFileSync(join(folder, "free-1"), ""), []],
    ["another generation", write(`${other}, "generation": 1}`), ["other"]],
    ["another text", write(`${other}}`), ["other"]],
  ]) {
    const folder = await folderOf(t);
    const update = new FileStore(folder).update((book) => {
      meanwhile(folder);
      book.payees["https://stale.example"] = "0x1";
    });
    await assert.rejects(update, failed("failed", "nothing was changed"), name);
    assert.deepEqual(await noted(folder), kept, name);
    assert.deepEqual((await readdir(folder)).filter((file) => file.includes("draft")), []);
  }
});
