// Makes docs/threat-model.md of what the hostile suite noted: a JSON object a line.
//   node tools/threat-model.mjs RESULTS [PAGE] > docs/threat-model.md
// PAGE is such a page, whose rows stay for the attacks that did not run this time. Write to another file first.
import { readFileSync } from 'node:fs';

const runs = readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
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
  test: a.test, failed: a.failed, ratio: a.ratio ?? 0,
  cells: [
    a.by, `${cell(a.aim)}${a.ref ? ` (${a.ref})` : ''}`, cell(a.defence), theirs(a), ours(a), waits(a),
    `\`${a.test}\`${a.failed ? ' **failed**' : ''}`,
  ].join(' | '),
});
const ran = attacks.map(row);

// kept are the rows of a page, in its order.
function kept(path) {
  const page = readFileSync(path, 'utf8');
  if (page.includes(fullSize) !== whole) throw new Error(`${path} is of a run of another size`);
  return [...page.matchAll(/^\| \d+ \| (.*`(Test[^`]+)`.*) \|$/gm)].map(([, cells, test]) => ({
    test, cells, failed: cells.endsWith('**failed**'), ratio: Number(/\(×([\d.]+)\) \| `/.exec(cells)?.[1] ?? 0),
  }));
}
const rows = [...new Map([...(process.argv[3] ? kept(process.argv[3]) : []), ...ran].map((r) => [r.test, r])).values()];
const failed = rows.filter((r) => r.failed).length;
const besieged = rows.filter((r) => r.ratio);
const worst = Math.max(0, ...besieged.map((r) => r.ratio)).toFixed(1);

console.log(`<!-- Made by tools/threat-model.mjs. -->

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
`);
console.log('| no. | who | would bring | what stops it | cost to the attacker | cost to us | honest buyers | test |');
console.log('|--:|---|---|---|---|---|---|---|');
rows.forEach((r, i) => console.log(`| ${i + 1} | ${r.cells} |`));
console.log(`
Numbers in parentheses are those of the checklists that the suite follows: A of attacks on x402, API of OWASP's list for
APIs, I of the invariants. What a lost or older database does is proven by the drill of \`roamcard recover\`, and what
crashes do by the [fault matrix](fault-matrix.md).`);
