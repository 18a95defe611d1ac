// Checks that all of others that reaches a user has a license which this repository's own goes with, and that those
// with conditions of their own are in NOTICE.
//   node tools/licenses.mjs SBOM NOTICE PYTHON PACKAGE-LOCK…
// SBOM is what cyclonedx-gomod reads from the linked program, PYTHON the interpreter of the Python client's
// environment.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const [sbom, notice, python, ...locks] = process.argv.slice(2);
const allowed = new Set([
  '0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC0-1.0', 'ISC', 'MIT', 'MIT-0', 'PSF-2.0', 'Python-2.0',
  'Unlicense',
]);
// Conditions that linking, or installing next to it, meets; NOTICE names whose they are.
const noted = new Map([
  ['github.com/ethereum/go-ethereum', ['LGPL-3.0-only', 'go-ethereum']],
  ['github.com/hashicorp/hcl/v2', ['MPL-2.0', 'HashiCorp']],
]);
// What a scanner of texts cannot tell, or takes for another; read by a person.
const read = new Map([
  ['github.com/pressly/goose/v3', 'MIT'],
  // Apache-2.0 for what is new, MIT for what was there before; CC-BY-4.0 for its documents.
  ['github.com/modelcontextprotocol/go-sdk', 'Apache-2.0'],
  ['std', 'BSD-3-Clause'],
  ['protobuf-py-ext', 'Apache-2.0'],
  ['khroma', 'MIT'],
]);
// What is spelled in another way, or is taken for another: the texts of golang.org/x.
const alike = new Map([
  ['BSD-Source-Code', 'BSD-3-Clause'], ['BSD', 'BSD-3-Clause'], ['MIT License', 'MIT'],
  ['Apache Software License', 'Apache-2.0'], ['Apache 2.0', 'Apache-2.0'],
]);
const ours = 'github.com/roamcard/roamcard';

const faults = [];
let checked = 0;
const check = (name, found) => {
  const license = read.get(name) ?? found;
  checked++;
  const [condition, word] = noted.get(name) ?? [];
  if (condition === license && readFileSync(notice, 'utf8').includes(word)) return;
  // Any of an OR will do, and all of an AND are needed.
  const fits = (license ?? '').replace(/[()]/g, '').split(' OR ')
    .some((choice) => choice.split(' AND ').every((one) => allowed.has(alike.get(one) ?? one)));
  if (!fits) faults.push(`${name}: ${license || 'no license was found'}`);
};

for (const { name, evidence } of JSON.parse(readFileSync(sbom, 'utf8')).components) {
  if (name === ours || name.startsWith(`${ours}/`)) continue;
  const found = (evidence?.licenses ?? []).map(({ license }) => license.id ?? license.name);
  check(name, found.join(' OR '));
}
for (const file of locks) {
  for (const [path, { dev, license }] of Object.entries(JSON.parse(readFileSync(file, 'utf8')).packages)) {
    // Preact is built into the pages, though it is fetched to build them.
    const name = path.split('node_modules/').at(-1);
    if (path && (!dev || name === 'preact')) check(name, license);
  }
}
// What pip installs with the client, and what that needs.
const listing = `
import importlib.metadata as m, json, re
seen, todo = {}, ["roamcard"]
while todo:
    name = todo.pop()
    if name in seen:
        continue
    try:
        meta = m.metadata(name)
    except m.PackageNotFoundError:
        continue
    kind = [c.split(" :: ")[-1] for c in meta.get_all("Classifier") or [] if c.startswith("License ::")]
    seen[name] = meta.get("License-Expression") or meta.get("License") or " ".join(kind)
    for need in m.requires(name) or []:
        if "extra ==" not in need:
            todo.append(re.match(r"[A-Za-z0-9_.-]+", need)[0].lower())
print(json.dumps(seen))
`;
for (const [name, license] of Object.entries(JSON.parse(execFileSync(python, ['-c', listing], { encoding: 'utf8' })))) {
  if (name !== 'roamcard') check(name, license);
}

for (const fault of faults) console.log(`license: ${fault}`);
if (faults.length === 0) console.log(`${checked} packages have licenses that go with this repository's`);
process.exit(faults.length ? 1 : 0);
