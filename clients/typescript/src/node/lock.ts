// A lock between processes that outlives none of them, with nothing but files.
import { link, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** A holder that has not let go for so long is taken for dead: what is done under the lock takes milliseconds. */
const staleAfterMs = 30_000;
const retry = 5;

interface Holder {
  file: string;
  number: number;
}

/**
 * Runs an action alone among all processes that lock the folder. Holders are numbered files: the process that makes the
 * next number holds the lock once the holder before has let go or died. Numbers are made by link(2), which one process
 * wins, with their content in place; the highest one is never removed, so a number made late is seen to be too low. The
 * clients of all languages lock a folder in this way.
 */
export async function locked<T>(folder: string, action: (isHeld: () => Promise<boolean>) => Promise<T>): Promise<T> {
  const holder = await acquire(folder);
  try {
    return await action(async () => (await held(folder)).at(-1) === holder.number);
  } finally {
    // Its own pid of 0 says that it has let go. A lock that cannot be let go is taken when its holder's time is over.
    await write(holder.file, "0").catch(() => undefined);
  }
}

async function acquire(folder: string): Promise<Holder> {
  for (;;) {
    const numbers = await held(folder);
    const highest = numbers.at(-1) ?? 0;
    if (highest === 0 || (await isFree(join(folder, nameOf(highest))))) {
      const holder = await claim(folder, highest + 1);
      if (holder) {
        await Promise.all(numbers.map((n) => rm(join(folder, nameOf(n)), { force: true })));
        return holder;
      }
    }
    await delay(retry + Math.random() * retry);
  }
}

async function claim(folder: string, number: number): Promise<Holder | undefined> {
  const file = join(folder, nameOf(number));
  const draft = join(folder, `draft-${process.pid}-${crypto.randomUUID()}`);
  await write(draft, String(process.pid));
  try {
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return undefined;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
  if ((await held(folder)).at(-1) === number) return { file, number };
  await rm(file, { force: true });
  return undefined;
}

async function held(folder: string): Promise<number[]> {
  const numbers = (await readdir(folder)).map((name) => Number(/^lock-(\d+)$/.exec(name)?.[1] ?? 0));
  return numbers.filter((n) => n > 0).sort((a, b) => a - b);
}

async function isFree(file: string): Promise<boolean> {
  const handle = await open(file).catch(() => undefined);
  if (!handle) return false; // a higher one has taken its place
  try {
    const [text, { mtimeMs }] = await Promise.all([handle.readFile("utf8"), handle.stat()]);
    return !isAlive(Number(text)) || Date.now() - mtimeMs > staleAfterMs;
  } finally {
    await handle.close();
  }
}

function isAlive(pid: number): boolean {
  if (pid === 0) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function nameOf(number: number): string {
  return `lock-${number}`;
}

async function write(file: string, text: string): Promise<void> {
  const handle = await open(file, "w", 0o600);
  try {
    await handle.writeFile(text);
  } finally {
    await handle.close();
  }
}
