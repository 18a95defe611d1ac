// Makes docs/fault-matrix.md and its tables, docs/fault-matrix/*.md, of what the crash suites noted: a JSON object a
// line.
//   node tools/fault-matrix.mjs RESULTS docs [SEED]
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [file, to, seed] = process.argv.slice(2);
const runs = readFileSync(file, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
const docs = new Map(
  [...readFileSync(new URL('../internal/faultpoint/points.go', import.meta.url), 'utf8')
    .matchAll(/\{\s*"([^"]+)",\s*(?:true|false),\s*((?:"[^"]*"(?:\s*\+\s*)?)+),?\s*\}/g)]
    .map(([, name, doc]) => [name, [...doc.matchAll(/"([^"]*)"/g)].map(([, part]) => part).join('')]),
);
const order = [...docs.keys()];
const place = (point) => {
  const [name, pass = '1'] = point.split('@');
  const at = order.indexOf(name);
  return (at < 0 ? order.length : at) * 10 + Number(pass);
};

// One row for each way to fail: what the runs have in common, and their figures.
const rows = new Map();
for (const r of runs) {
  const key = [r.flow, r.mode, r.first].join('\n');
  const row = rows.get(key) ?? {
    ...r, once: 0, again: 0, signed: 0, by: new Set(), violations: 0, failed: 0, slowest: 0,
  };
  row[r.second ? 'again' : 'once']++;
  if (r.signs) row.signed++;
  row.by.add(r.settler);
  row.violations += r.violations;
  if (r.failed) row.failed++;
  row.slowest = Math.max(row.slowest, r.recovery);
  rows.set(key, row);
}
const sorted = [...rows.values()].sort((a, b) =>
  a.flow.localeCompare(b.flow) || a.mode.localeCompare(b.mode) || place(a.first) - place(b.first));
const total = (name) => sorted.reduce((sum, row) => sum + row[name], 0);
const settlers = [...new Set(runs.map((r) => r.settler))].sort().map((s) => `\`${s}\``).join(', ');

const kills = sorted.filter((r) => r.mode === 'kill');
const slowest = Math.max(0, ...kills.map((r) => r.slowest)).toFixed(1);
const atRest = runs.filter((r) => r.second === 'at rest').length;

const failed = total('failed');
const rested = atRest
  ? ` (${atRest} times the point did not come\n  by any more, and it was killed at rest)` : '';
const made = '<!-- Made by tools/fault-matrix.mjs. -->';

// The tables, each a page. A flow is in the first that takes it.
const pages = [
  { name: 'top-ups', title: 'top-ups of cards', takes: (flow) => flow.startsWith('card top-up') },
  { name: 'esims', title: 'eSIMs', takes: (flow) => flow.startsWith('eSIM') },
  { name: 'refunds', title: 'refunds', takes: (flow) => flow.startsWith('refund') },
  {
    name: 'cards-of-vendors', title: "cards over the vendors' fakes",
    takes: (flow) => flow.startsWith('card issue of '),
  },
  { name: 'cards', title: 'cards', takes: () => true },
].map((page) => ({ ...page, rows: [] }));
for (const r of sorted) pages.find((page) => page.takes(r.flow)).rows.push(r);

const row = (r) => {
  const doc = docs.get(r.first.split('@')[0])?.replace(/ Passes: .*/, '') ?? '';
  const counts = [r.once, r.again, r.signed, r.failed, r.violations, `${r.slowest.toFixed(1)} s`].join(' | ');
  return `| ${r.flow} | ${r.mode} | \`${r.first}\` | ${doc} | ${counts} |`;
};
const sum = (page, name) => page.rows.reduce((n, r) => n + r[name], 0);
const filled = pages.filter((page) => page.rows.length).reverse();

mkdirSync(join(to, 'fault-matrix'), { recursive: true });
writeFileSync(join(to, 'fault-matrix.md'), `${made}

# Fault matrix

Made of the runs themselves by \`tools/fault-matrix.mjs\`${seed ? `
(\`make torture\`, seed ${seed}, and \`make test\`)` : ''}: the real program is killed, or a step
of it fails, panics or sleeps, at the named point. It is started again against a database, a chain and an issuer that
live on.

- Orders of settlement: ${settlers}.
- "Again": killed a second time while it recovered, at the same or a later point${rested}.
- "Signed anew": the buyer asked again with another authorization instead of the same header.
- "Every point": all points were armed at once, each for its first pass. What the program pauses between attempts adds
  up.

A run passes when there is one transfer, one card and one withdrawn fee (of a top-up one load, of an eSIM one eSIM), the
order is final within 30 s of the last start (in \`make torture\`), a repeat gets the same order and transaction, and
all invariants of \`internal/testing/invariants\` hold.

**${runs.length} runs: ${runs.length - failed} passed, ${failed} failed, ${total('violations')} violations.
Slowest recovery after a kill: ${slowest} s.**

| flows | ways to fail | runs | failed |
|---|--:|--:|--:|
${filled.map((page) => `| [${page.title}](fault-matrix/${page.name}.md) | ${page.rows.length} | ` +
  `${sum(page, 'once') + sum(page, 'again')} | ${sum(page, 'failed')} |`).join('\n')}
`);
for (const page of filled) {
  writeFileSync(join(to, 'fault-matrix', `${page.name}.md`), `${made}

# Faults in ${page.title}

A row for each flow, way to fail and point of the [fault matrix](../fault-matrix.md), which says what the columns mean.

| flow | mode | point | when the fault strikes | once | again | signed anew | failed | violations | slowest recovery |
|---|---|---|---|--:|--:|--:|--:|--:|--:|
${page.rows.map(row).join('\n')}
`);
}
