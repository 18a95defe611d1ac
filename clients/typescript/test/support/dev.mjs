// The development server as a child process: started, watched, stopped, killed.
import { spawn } from "node:child_process";
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const binary = resolve(process.env.ROAMCARD_BIN ?? join(import.meta.dirname, "../../../../bin/roamcard"));
// What only a process that hangs takes, on however busy a machine.
const stopWithin = 300_000;
const keptLines = 4000;

/** Makes a folder for the data of a development server. */
export async function dataFolder() {
  const folder = await mkdtemp(join(tmpdir(), "roamcard-e2e-"));
  // PostgreSQL refuses to run as root and then runs as another user, who has to get in.
  await chmod(folder, 0o755);
  return folder;
}

/** Removes a data folder, also while a killed server's children still write into it. */
export function removeFolder(folder) {
  return rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
}

/**
 * Starts `roamcard dev` on a data folder and resolves once its ready file is there. What the ready file tells is spread
 * over the result. Further arguments go to the command.
 */
export function startDev(data, ...args) {
  return startReady("dev", data, "--addr", "127.0.0.1:0", ...args);
}

/** Starts `roamcard devnet`, the chain alone. */
export function startDevnet(data) {
  return startReady("devnet", data, "--port", "0");
}

/** Starts `roamcard sandbox`, the card issuer alone. */
export function startSandbox(data) {
  return startReady("sandbox", data, "--addr", "127.0.0.1:0");
}

async function startReady(command, data, ...args) {
  const readyFile = join(data, `${command}.ready.json`);
  await rm(readyFile, { force: true });
  const child = startRoamcard([command, "--data", data, "--ready-file", readyFile, ...args]);
  return Object.assign(child, await readOnce(readyFile, child));
}

/** Starts the binary with these arguments. */
function startRoamcard(args) {
  const child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"] });
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) {
    let rest = "";
    stream.setEncoding("utf8").on("data", (text) => {
      const parts = (rest + text).split("\n");
      rest = parts.pop();
      lines.push(...parts);
      lines.splice(0, lines.length - keptLines);
    });
  }
  const ended = new Promise((settle) => {
    child.once("error", (error) => settle({ error }));
    child.once("exit", (code, signal) => settle({ code, signal }));
  });
  return {
    pid: child.pid,
    /** Resolves when the process has ended, with its code and signal. */
    ended,
    /** The lines it wrote, at most the last few thousand. */
    lines,
    /** Stops it as an operator would and resolves with how it ended. */
    async stop() {
      child.kill("SIGTERM");
      const end = await Promise.race([ended, delay(stopWithin, undefined, { ref: false })]);
      if (end === undefined) {
        child.kill("SIGKILL");
        await ended;
        throw new Error(`roamcard did not stop within ${stopWithin} ms\n${lines.slice(-40).join("\n")}`);
      }
      return end;
    },
    /** Kills it as a power cut would. */
    async kill() {
      child.kill("SIGKILL");
      return ended;
    },
  };
}

// readOnce reads a file once it is there, or fails when the process that is to write it has ended.
async function readOnce(file, child) {
  for (;;) {
    const text = await readFile(file, "utf8").catch(() => "");
    if (text !== "") return JSON.parse(text);
    const end = await Promise.race([child.ended, delay(50)]);
    if (end !== undefined) {
      throw new Error(`roamcard ended before it was ready: ${JSON.stringify(end)}\n${child.lines.join("\n")}`, {
        cause: end.error,
      });
    }
  }
}
