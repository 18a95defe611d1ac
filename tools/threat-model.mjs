// Makes docs/threat-model.md and its tables, docs/threat-model/*.md, of what the hostile suite noted: a JSON object a
// line.
//   node tools/threat-model.mjs RESULTS docs [FROM]
// FROM is a folder with such pages, whose rows stay for the attacks that did not run this time. It may be the same one.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [results, to, from] = process.argv.slice(2);

const runs = readFileSync(results, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
// The latest run of an attack stands for it, at the place of its first.
const attacks = [...new Map(runs.map((r) => [r.test, r])).values()];

const whole = attacks.every((a) => a.whole);
const fullSize = '`make torture`, every attack at its full size';

const count = (n, one, many = `${one}s`) => (n > 0 ? `${n.toLocaleString('en')} ${n === 1 ? one : many}` : '');
const bytes = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : n >= 1000 ? `${Math.round(n / 1000)} kB` : '');
const some = (parts) => parts.filter(Boolean).join(', ') || 'next to nothing';
const cell = (text) => text.replaceAll('|', '\\|');

const theirs = (a) => some([
  count(a.requests, 'request'), bytes(a.bytes), count(a.wallets, 'wallet'),
  a.paidUnits > 0 ? `${(a.paidUnits / 1e6).toFixed(2)} USDC paid` : '',
]);
const ours = (a) => some([
  a.cpuMs >= 10 ? `${(a.cpuMs / 1000).toFixed(2)} s of processor` : '',
  count(a.transactions, 'transaction'), a.gwei > 0 ? `${a.gwei.toLocaleString('en')} gwei` : '', count(a.rows, 'row'),
]);
const waits = (a) => (a.ratio
  ? `${(a.quietMs / 1000).toFixed(1)} s → ${(a.attackedMs / 1000).toFixed(1)} s (×${a.ratio.toFixed(1)})`
  : '');

const row = (a) => ({
  test: a.test, by: a.by, failed: a.failed, ratio: a.ratio ?? 0,
  cells: [
    a.by, `${cell(a.aim)}${a.ref ? ` (${a.ref})` : ''}`, cell(a.defence), theirs(a), ours(a), waits(a),
    `\`${a.test}\`${a.failed ? ' **failed**' : ''}`,
  ].join(' | '),
});
const ran = attacks.map(row);

// kept are the rows of such pages, in the order of their numbers.
function kept(dir) {
  if (readFileSync(join(dir, 'threat-model.md'), 'utf8').includes(fullSize) !== whole) {
    throw new Error(`${dir} is of a run of another size`);
  }
  return readdirSync(join(dir, 'threat-model'))
    .flatMap((page) => [...readFileSync(join(dir, 'threat-model', page), 'utf8')
      .matchAll(/^\| (\d+) \| ((\w+) .*`(Test[^`]+)`.*) \|$/gm)])
    .sort(([, a], [, b]) => a - b)
    .map(([, , cells, by, test]) => ({
      test, by, cells, failed: cells.endsWith('**failed**'), ratio: Number(/\(×([\d.]+)\) \| `/.exec(cells)?.[1] ?? 0),
    }));
}
const rows = [...new Map([...(from ? kept(from) : []), ...ran].map((r) => [r.test, r])).values()]
  .map((r, i) => ({ ...r, number: i + 1 }));
const failed = rows.filter((r) => r.failed).length;
const besieged = rows.filter((r) => r.ratio);
const worst = Math.max(0, ...besieged.map((r) => r.ratio)).toFixed(1);

const made = '<!-- Made by tools/threat-model.mjs. -->';

// The tables, each a page. An attack is in the first that takes whoever makes it.
const pages = [
  { name: 'strangers', title: 'strangers', takes: (by) => by === 'stranger' },
  { name: 'wallets', title: 'payers, owners and watchers', takes: (by) => ['payer', 'owner', 'watcher'].includes(by) },
  { name: 'partners', title: 'operators and of those that we ask', takes: () => true },
].map((page) => ({ ...page, rows: [] }));
for (const r of rows) pages.find((page) => page.takes(r.by)).rows.push(r);
const filled = pages.filter((page) => page.rows.length);

mkdirSync(join(to, 'threat-model'), { recursive: true });
writeFileSync(join(to, 'threat-model.md'), `${made}

# Threat model

Made by \`tools/threat-model.mjs\` of runs of the suite \`internal/testing/hostile\`
(${whole ? fullSize : 'at the sizes of `make test`'}):
the real program at the limits of production, its database, a chain and the sandbox's providers, each a process of its
own, attacked over the network. Money is counted in the chain's logs and goods in the sandbox's books, not in the
program's answers; after all attacks the invariants of
\`internal/testing/invariants\` hold over all books, and no session, token, card number or unspent signature is in the
log.

- **Who** needs what: a *stranger* an internet address; a *payer* a wallet with money; an *owner* a card or an order; a
  *watcher* an eye on the chain; an *operator* a token of the service; a *node*, a *facilitator*, a *provider* and a
  *signer*, which has our keys, are those that we ask, after somebody took them over.
- **Costs** are those of its latest run. A wallet that pays and gets what it paid for counts as "paid". Processor time
  is the program's.
- **Honest buyers** are ten at once, six of an eSIM and four of a card, each from the first question to the goods, by
  the official client. The times are those of the slowest of the ten, without and under the attack. \`make torture\`
  fails above twice the time and 3 s; \`make test\` shares its machine and only wants them served.

**${rows.length} attacks: ${rows.length - failed} held, ${failed} failed. ${besieged.length} of them with honest buyers
under way, who waited at most ${worst} times as long.**

| attacks of | attacks | failed |
|---|--:|--:|
${filled.map((page) => `| [${page.title}](threat-model/${page.name}.md) | ${page.rows.length} | ` +
  `${page.rows.filter((r) => r.failed).length} |`).join('\n')}

What one request of a stranger costs at each route is [measured by itself](threat-model/costs.md), by \`make abuse\`;
what strangers may have stored is bounded [table by table](threat-model/tables.md).

Numbers in parentheses are those of the checklists that the suite follows: A of attacks on x402, API of OWASP's list for
APIs, I of the invariants. What a lost or older database does is proven by the drill of \`roamcard recover\`, and what
crashes do by the [fault matrix](fault-matrix.md). How those that we ask are reached, and what they cannot do by it, is
in [the way to others](configuration/network.md); what other users of a wallet's machine can do, and the programs that
it starts, in [the agents' server](agents/server.md#other-users-of-the-machine).
`);
for (const page of filled) {
  writeFileSync(join(to, 'threat-model', `${page.name}.md`), `${made}

# Attacks of ${page.title}

The attacks of the [threat model](../threat-model.md), which says what the columns mean.

| no. | who | would bring | what stops it | cost to the attacker | cost to us | honest buyers | test |
|--:|---|---|---|---|---|---|---|
${page.rows.map((r) => `| ${r.number} | ${r.cells} |`).join('\n')}
`);
}
