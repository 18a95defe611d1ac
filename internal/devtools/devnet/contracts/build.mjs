// Compiles the contracts next to this file into *.hex, their runtime bytecode.
//
//   node build.mjs            writes the hex files
//   node build.mjs --check    writes nothing; exits 1 when a committed hex file is not what its source compiles to
//
// The compiler and its settings are pinned and metadata is left out, so the same source gives the same bytes anywhere.

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const SOLC = "0.8.37";
const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(here, "../../../../tools/package.json"));
const check = process.argv.includes("--check");

const solc = require("solc");
if (!solc.version().startsWith(`${SOLC}+`)) {
  console.error(`solc ${SOLC} is pinned, found ${solc.version()}`);
  process.exit(2);
}

const files = readdirSync(here).filter((f) => f.endsWith(".sol")).sort();
const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: Object.fromEntries(files.map((f) => [f, { content: readFileSync(join(here, f), "utf8") }])),
      settings: {
        optimizer: { enabled: true, runs: 10000 },
        evmVersion: "cancun",
        metadata: { appendCBOR: false, bytecodeHash: "none" },
        outputSelection: { "*": { "*": ["evm.deployedBytecode.object", "storageLayout"] } },
      },
    }),
  ),
);
const problems = output.errors ?? [];
for (const p of problems) console.error(p.formattedMessage);
if (problems.length > 0) process.exit(1);

let stale = 0;
for (const file of files) {
  const contract = file.replace(/\.sol$/, "");
  const { evm, storageLayout } = output.contracts[file][contract];
  const hex = evm.deployedBytecode.object + "\n";
  const target = join(here, `${contract}.hex`);
  if (process.argv.includes("--layout")) {
    for (const { label, slot, offset } of storageLayout.storage) console.log(contract, slot, offset, label);
  }
  if (!check) {
    writeFileSync(target, hex);
  } else if (!existsSync(target) || readFileSync(target, "utf8") !== hex) {
    console.error(`${contract}.hex is not what ${file} compiles to: run node build.mjs`);
    stale++;
  }
}
process.exit(stale ? 1 : 0);
