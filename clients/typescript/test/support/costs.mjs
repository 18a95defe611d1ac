// Loaded before a file of tests (node --import): adds to the file that ROAMCARD_COSTS names what each of its tests took
// of the processors, with the processes that it ended, one JSON line each. What tests do at the same time is counted
// for the one that ends first.
import { appendFileSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { afterEach } from "node:test";

const file = process.env.ROAMCARD_COSTS;
// The runner itself loads this, too.
if (file && process.env.NODE_TEST_CONTEXT) {
  const seconds = new Map();
  let counted = spent();
  const count = (name) => {
    const now = spent();
    seconds.set(name, (seconds.get(name) ?? 0) + now - counted);
    counted = now;
  };
  afterEach((t) => count((t.fullName ?? t.name).split(" > ")[0]));
  process.on("exit", () => {
    count("(beginning and end)");
    const suite = process.env.ROAMCARD_SUITE ?? "typescript";
    const of = basename(process.argv[1]);
    const lines = [...seconds].map(([name, took]) =>
      JSON.stringify({ suite, test: `${of}: ${name}`, seconds: Math.round(took * 100) / 100 }));
    appendFileSync(file, `${lines.join("\n")}\n`);
  });
}

/** The processors' seconds of this process, and on Linux of the children that it ended. */
function spent() {
  const { user, system } = process.cpuUsage();
  let children = 0;
  try {
    const fields = readFileSync("/proc/self/stat", "latin1").replace(/^.*\) /, "").split(" ");
    children = (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    // Elsewhere the children are not counted.
  }
  return (user + system) / 1e6 + children;
}
