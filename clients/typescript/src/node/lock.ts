// A lock between the programs of all languages, of this machine and of its containers, with nothing but files.
import { closeSync, fstatSync, readFileSync } from "node:fs";
import { link, readdir, readFile, readlink, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { ExposedError, noWriters, openIn } from "./custody.js";

/** How long one holder is waited for: what is done under the lock takes milliseconds. */
const timeoutMs = 30_000;
const retry = 5;
const hasProc = process.platform === "linux";

/** The lock stays with its holder. */
export class LockedError extends Error {}

/** The lock was given to another program, which only a person does. */
export class LostError extends Error {
  constructor() {
    super("the lock was given to another program meanwhile; nothing was changed");
  }
}

/** What a lock's file says of its holder, in all languages. */
interface LockRecord {
  pid: number;
  host: string;
  /** The running system's: its kernel knows which processes there are. */
  boot: string;
  /** Where the pid counts: a container has its own. */
  namespace: string;
  /** Tells processes apart that had the same pid; empty where that is not known. */
  started: string;
  /** Whether the file is locked by flock(2) for as long as the holder has it. Node has no such locks. */
  locked: boolean;
}

/** Who holds a lock, as far as that can be seen from here. */
interface Holder {
  number: number;
  state: "alive" | "gone" | "unknown";
  ageMs: number;
  record?: LockRecord | undefined;
}

/**
 * A turn at a folder. Holders are numbered files: who makes lock-N holds the lock once the holder before has made its
 * free-N, or is known to be dead. A number is made by link(2), which one program wins, with its content in place; the
 * highest one is never removed.
 */
export class Lock {
  constructor(readonly folder: string, readonly number: number) {}

  /** Throws when the lock is no longer this program's. */
  async check(): Promise<void> {
    const { highest, free } = await numbersIn(this.folder);
    if (highest !== this.number || free.has(this.number)) throw new LostError();
  }

  /**
   * Removes what earlier holders have left. A holder that was stopped, and whose lock a person has given away, finds
   * its draft gone: what is read from here on stays as it is.
   */
  async sweep(): Promise<void> {
    const left = (await readdir(this.folder)).filter((name) => {
      const number = /^(?:lock-|free-|.*\.draft-)([1-9]\d*)$/.exec(name)?.[1];
      return number !== undefined && Number(number) < this.number;
    });
    for (const name of left) await rm(join(this.folder, name), { force: true });
  }

  /** Lets go. It makes a name only: after a power cut no file is half written. */
  async release(): Promise<void> {
    const lock = join(this.folder, `lock-${this.number}`);
    await link(lock, join(this.folder, `free-${this.number}`)).catch((error: NodeJS.ErrnoException) =>
      error.code === "EEXIST" ? undefined : writeFile(lock, "0"),
    );
  }
}

/** Runs an action alone among all programs that lock the folder. */
export async function locked<T>(folder: string, action: (lock: Lock) => Promise<T>): Promise<T> {
  const lock = await acquire(folder);
  try {
    await lock.sweep();
    return await action(lock);
  } finally {
    // A lock that cannot be let go is waited for until this process ends.
    await lock.release().catch(() => undefined);
  }
}

async function acquire(folder: string): Promise<Lock> {
  let [last, since] = [0, performance.now()];
  for (;;) {
    const held = await tryLock(folder);
    if (held instanceof Lock) return held;
    if (held.number !== last) [last, since] = [held.number, performance.now()];
    if (performance.now() - since > timeoutMs || (held.state === "unknown" && held.ageMs > timeoutMs))
      throw new LockedError(refusal(folder, held));
    await delay(retry + Math.random() * retry);
  }
}

async function tryLock(folder: string): Promise<Lock | Holder> {
  const { highest, free } = await numbersIn(folder);
  if (highest > 0 && !free.has(highest)) {
    const holder = await holderOf(folder, highest);
    if (holder.state !== "gone") return holder;
  }
  const lock = new Lock(folder, highest + 1);
  const name = join(folder, `lock-${lock.number}`);
  const draft = join(folder, `draft-${process.pid}-${crypto.randomUUID()}`);
  try {
    await writeFile(draft, JSON.stringify(await thisProcess()), { flag: "wx", mode: 0o600 });
    await link(draft, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return { number: lock.number, state: "alive", ageMs: 0 };
  } finally {
    await rm(draft, { force: true });
  }
  try {
    await lock.check();
    return lock;
  } catch (error) {
    await rm(name, { force: true });
    if (!(error instanceof LostError)) throw error;
    return { number: lock.number, state: "alive", ageMs: 0 }; // made late: there is a higher one
  }
}

/** The highest number of a holder, and those that are free. */
async function numbersIn(folder: string): Promise<{ highest: number; free: Set<number> }> {
  const free = new Set<number>();
  let highest = 0;
  for (const name of await readdir(folder)) {
    const [, kind, digits] = /^(lock|free)-([1-9]\d*)$/.exec(name) ?? [];
    if (!kind) continue;
    highest = Math.max(highest, Number(digits));
    if (kind === "free") free.add(Number(digits));
  }
  return { highest, free };
}

/** Looks whether a holder is alive. One that cannot be seen from here is neither alive nor gone. */
async function holderOf(folder: string, number: number): Promise<Holder> {
  let file: number;
  try {
    file = openIn(join(folder, `lock-${number}`), noWriters);
  } catch (error) {
    if (error instanceof ExposedError) throw error;
    return { number, state: "alive", ageMs: 0 }; // a higher one has taken its place
  }
  try {
    const [text, { mtimeMs }] = [readFileSync(file, "utf8"), fstatSync(file)];
    const ageMs = Date.now() - mtimeMs;
    if (text === "0") return { number, state: "gone", ageMs }; // as the clients of before let go
    const record = recordOf(text);
    return { number, state: record ? await seen(record) : "unknown", ageMs, record };
  } finally {
    closeSync(file);
  }
}

function recordOf(text: string): LockRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return value && typeof value === "object" ? (value as LockRecord) : undefined;
  } catch {
    return undefined;
  }
}

async function seen({ pid, host, boot, namespace, started }: LockRecord): Promise<Holder["state"]> {
  const own = await thisProcess();
  if (!boot || boot !== own.boot || host !== own.host || !namespace || namespace !== own.namespace) return "unknown";
  if (!Number.isSafeInteger(pid) || pid <= 0) return "unknown";
  return isAlive(pid) && !(await isReplaced(pid, started)) ? "alive" : "gone";
}

let own: Promise<LockRecord> | undefined;

function thisProcess(): Promise<LockRecord> {
  own ??= describe();
  return own;
}

async function describe(): Promise<LockRecord> {
  const [pid, host] = [process.pid, hostname()];
  // One space of pids, whose reboots cannot be told from here.
  if (!hasProc) return { pid, host, boot: `host:${host}`, namespace: `host:${host}`, started: "", locked: false };
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
  const namespace = await readlink("/proc/self/ns/pid").catch(() => "");
  const started = (await processStat("self"))?.started ?? "";
  return { pid, host, boot: boot.trim(), namespace, started, locked: false };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Whether the pid is another process's by now, or that of one that has ended. */
async function isReplaced(pid: number, started: string): Promise<boolean> {
  // A /proc of another namespace tells of others.
  if (!hasProc || (await readlink("/proc/self").catch(() => "")) !== String(process.pid)) return false;
  const stat = await processStat(String(pid));
  return stat !== undefined && ("ZX".includes(stat.state) || (Boolean(started) && stat.started !== started));
}

/** Reads proc_pid_stat(5): the state of a process, and when it started in ticks since the boot. */
async function processStat(name: string): Promise<{ state: string; started: string } | undefined> {
  const text = await readFile(`/proc/${name}/stat`, "utf8").catch(() => undefined);
  // The second field is the program's name, which may have anything in it.
  const fields = text?.slice(text.lastIndexOf(")") + 2).trim().split(" ") ?? [];
  const [state, started] = [fields[0], fields[19]];
  return state && started ? { state, started } : undefined;
}

/** Tells a person why the lock is not taken, and what can be done. */
function refusal(folder: string, { number, state, record }: Holder): string {
  const [lock, free] = [join(folder, `lock-${number}`), join(folder, `free-${number}`)];
  const who = record?.pid ? `process ${record.pid} of host "${record.host}"` : "a program that did not write its name";
  if (state === "alive") return `${lock} is held by ${who}, which is alive; wait for it, or end it`;
  return (
    `${lock} is held by ${who}, which cannot be seen from here, as in another container, machine or boot; ` +
    `if it has ended, make the empty file ${free}`
  );
}
