// Compiles the contracts into *.hex next to their sources: the runtime code of each, and the init code in *.init.hex of
// those that are deployed on public chains.
//
//   node contracts.mjs            writes the hex files
//   node contracts.mjs --check    writes nothing; exits 1 when a committed hex file is not what its source compiles to
//
// The compiler and its settings are pinned and metadata is left out, so the same source gives the same bytes anywhere.
// On that depends the address of what is deployed.

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const SOLC = "0.8.37";
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const check = process.argv.includes("--check");
const folders = [
  { dir: "internal/devtools/devnet/contracts", deployed: false },
  { dir: "internal/chain/settler", deployed: true },
];

const solc = require("solc");
if (!solc.version().startsWith(`${SOLC}+`)) {
  console.error(`solc ${SOLC} is pinned, found ${solc.version()}`);
  process.exit(2);
}

let stale = 0;
const keep = (dir, name, code) => {
  const target = join(root, dir, name);
  const hex = code.object + "\n";
  if (!check) {
    writeFileSync(target, hex);
  } else if (!existsSync(target) || readFileSync(target, "utf8") !== hex) {
    console.error(`${dir}/${name} is not what its source compiles to: run make gen`);
    stale++;
  }
};
for (const { dir, deployed } of folders) {
  const files = readdirSync(join(root, dir)).filter((f) => f.endsWith(".sol")).sort();
  const output = JSON.parse(
    solc.compile(
      JSON.stringify({
        language: "Solidity",
        sources: Object.fromEntries(files.map((f) => [f, { content: readFileSync(join(root, dir, f), "utf8") }])),
        settings: {
          optimizer: { enabled: true, runs: 10000 },
          evmVersion: "cancun",
          metadata: { appendCBOR: false, bytecodeHash: "none" },
          outputSelection: {
            "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object", "storageLayout"] },
          },
        },
      }),
    ),
  );
  const problems = output.errors ?? [];
  for (const p of problems) console.error(p.formattedMessage);
  if (problems.length > 0) process.exit(1);

  for (const file of files) {
    const contract = file.replace(/\.sol$/, "");
    const { evm, storageLayout } = output.contracts[file][contract];
    if (process.argv.includes("--layout")) {
      for (const { label, slot, offset } of storageLayout.storage) console.log(contract, slot, offset, label);
    }
    keep(dir, `${contract}.hex`, evm.deployedBytecode);
    if (deployed) keep(dir, `${contract}.init.hex`, evm.bytecode);
  }
}
process.exit(stale ? 1 : 0);
