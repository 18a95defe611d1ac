// Writes the tables of documents from what tools/bench.sh measured.
//   node tools/bench-report.mjs RESULTS DOCUMENT…
// A table stands between <!-- name --> and <!-- /name -->. With ONLY in the environment, tables of what was not
// measured stay as they are. A ratio is taken within each round; shown are its median and, in brackets, the least and
// the most.
import { readFileSync, writeFileSync } from 'node:fs';

const [file, ...docs] = process.argv.slice(2);
const facts = {};
const rounds = [];
// What is measured before the first round is measured once.
const once = {};
for (const line of readFileSync(file, 'utf8').split('\n')) {
  const fact = line.match(/^(\w+): (.*)$/);
  if (fact?.[1] === 'round') rounds.push({});
  else if (fact) facts[fact[1]] = fact[2];
  const bench = line.match(/^(\w+) Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$/);
  if (!bench) continue;
  const figures = {};
  const words = bench[3].trim().split(/\s+/);
  for (let i = 0; i + 1 < words.length; i += 2) figures[words[i + 1]] = Number(words[i]);
  (rounds.at(-1) ?? once)[`${bench[1]} ${bench[2]}`] = figures;
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
// all is a figure of every round.
const all = (name, unit) => rounds.map((round) => {
  const value = round[name]?.[unit];
  if (value === undefined) throw new Error(`${file}: a round lacks ${unit} of ${name}`);
  return value;
});
const single = (name, unit) => {
  const value = once[name]?.[unit];
  if (value === undefined) throw new Error(`${file} lacks ${unit} of ${name}`);
  return value;
};
const mid = (name, unit) => median(all(name, unit));
const fixed = (value) => value.toFixed(value < 1 ? 2 : 1);
const ratio = (over, under) => {
  const each = over.map((value, i) => value / under[i]);
  return `**${fixed(median(each))}** (${fixed(Math.min(...each))}–${fixed(Math.max(...each))})`;
};
const count = (value) => Math.round(value).toLocaleString('en-US');
const micros = (nanos) => (nanos / 1000).toFixed(1);
const table = (head, rows) =>
  [head, head.map((_, i) => (i === 0 ? '---' : '--:')), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

const transports = [['REST', 'rest', '0.55'], ['Connect JSON', 'connect', '–']];
// Each with its number of clients, whose pgbench it is compared with.
const claims = [
  ['claim alone', 32, '', 'claim', '1.0'],
  ['claim alone, with every limit of a wallet', 32, '', 'claim-limited', '–'],
  ['claim to settled', 32, '', 'settled', '0.4'],
  ['claim to settled, with every limit of a wallet', 32, '', 'settled-limited', '–'],
  ['the same, buyers sharing no float', 32, '', 'apart', '–'],
  ['claim to fulfilled', 32, '', 'fulfilled', '0.18'],
  ['claim alone', 128, 'many/', 'claim', '1.5'],
  ['claim to settled', 128, 'many/', 'settled', '0.7'],
];
const verifications = [
  ['payment header decoded', 'decode'], ['signer recovered', 'recover'],
  ['every check that needs no chain', 'check'], ['decoded and checked', 'header'],
];
const sizes = [
  ['one to a transaction', 'alone', '–'], ['20 by our settler', 'settler20', '0.62'],
  ['100 by our settler', 'settler100', '–'],
  ['20 by Multicall3', 'multicall20', '–'], ['100 by Multicall3', 'multicall100', '–'],
];

const measured = () => `${facts.date} on ${facts.cores} cores of ${facts.cpu}`;
const server = () => {
  const version = mid('cgo Claim/pgbench', 'server-version');
  return `${Math.floor(version / 10000)}.${version % 10000}`;
};
const tables = {
  machine: () => `Measured ${measured()}, with ${facts.go}, ` +
    `PostgreSQL ${server()} ` +
    `(fsync on)${facts.pgbench ? `, pgbench ${facts.pgbench}` : ', a loop of pgx for pgbench'} ` +
    `and anvil ${facts.anvil}; ${rounds.length} rounds; ` +
    `load average ${facts.load} before the first.`,
  challenge: () => table([
    'answered by', 'challenges/s', 'bare handler/s', 'ratio', 'aim',
  ], transports.map(([title, name, aim]) => [
    title, count(mid(`cgo Challenge/${name}`, 'req/s')), count(mid(`cgo Challenge/${name}-bare`, 'req/s')),
    ratio(all(`cgo Challenge/${name}`, 'req/s'), all(`cgo Challenge/${name}-bare`, 'req/s')), aim,
  ])),
  // A difference of two runs, each with maintenance of its own: the shorter one may have written a row more.
  books: () => table(['for 10,000 challenges', 'at most'], [
    ['rows written', count(Math.max(0, ...all('cgo ChallengeBooks', 'rows-written')))],
    ['calls to the chain', count(Math.max(...all('cgo ChallengeBooks', 'rpc-calls')))],
    ['database transactions (reads)', count(Math.max(...all('cgo ChallengeBooks', 'reads')))],
    ['of these in a second', Math.max(...all('cgo ChallengeBooks', 'reads/s')).toFixed(1)],
  ]),
  claim: () => table([
    'purchase', 'clients', 'purchases/s', 'pgbench tx/s', 'ratio', 'aim', 'p50 ms', 'p99 ms', 'transactions each',
    'rows written',
  ], claims.map(([title, clients, group, of, aim]) => {
    const name = `cgo Claim/${group}${of}`;
    const yardstick = `cgo Claim/${group}pgbench`;
    return [
      title, clients, count(mid(name, 'tx/s')), count(mid(yardstick, 'tx/s')),
      ratio(all(name, 'tx/s'), all(yardstick, 'tx/s')), aim,
      count(mid(name, 'p50-ms')), count(mid(name, 'p99-ms')),
      mid(name, 'transactions/op').toFixed(1), mid(name, 'rows/op').toFixed(1),
    ];
  })),
  waiting: () => table([
    'buyers waiting', 'KB each', 'late, p50 ms', 'late, p99 ms', 'late, at most ms',
  ], [200, 2000].map((crowd) => {
    const of = (unit) => single(`cgo Waiting/${crowd}`, unit);
    return [count(crowd), count(of('bytes/waiter') / 1024),
      ...['p50', 'p99', 'max'].map((at) => count(of(`late-${at}-ms`)))];
  })),
  purchases: () => table([
    'buyers', 'settled/s', 'p50 blocks', 'p99 blocks', 'calls to the chain each', 'settlement_unknown',
  ], [
    ['10', '10'], ['16', '16'], ['200', '200'], ['600', '600'], ['10, next to 600 others', 'few-among-600'],
    ['200, with two nodes', '200-by-two-nodes'],
  ].map(([title, name]) => {
    const of = (unit) => single(`cgo Purchases/${name}`, unit);
    return [title, of('settled/s').toFixed(1), of('blocks-p50').toFixed(1), of('blocks-p99').toFixed(1),
      of('calls/settled').toFixed(1), count(of('unknown'))];
  })),
  servers: () => table([
    'chain', 'servers', 'settled/s', 'rate : one server', 'p50 s', 'p99 s', 'CPU of the servers each, ms',
    'transactions each', 'calls to the chain each', 'settlement_unknown',
  ], [
    ['a block for each transaction, 16 keys', 'instant', [1, 3]], ['a block every 2 s, 16 keys', 'blocks', [1, 3]],
    ['a block every 2 s, one key, 600 buyers', 'onekey', [1]],
  ].flatMap(([title, name, counts]) => counts.map((servers) => {
    const of = (unit) => single(`cgo Servers/${name}/${servers}`, unit);
    const rate = of('settled/s') / single(`cgo Servers/${name}/1`, 'settled/s');
    return [
      title, servers, of('settled/s').toFixed(1), `**${fixed(rate)}**`, of('p50-s').toFixed(1), of('p99-s').toFixed(1),
      of('cpu-ms/settled').toFixed(1), of('transactions/settled').toFixed(1), of('calls/settled').toFixed(1),
      count(of('unknown')),
    ];
  }))),
  transcoder: () => table([
    'answer', 'REST µs', 'Connect JSON µs', 'by hand µs', 'REST : Connect', 'REST : by hand', 'allocations',
  ], ['post', 'get'].map((verb) => {
    const of = (way) => `cgo Transcoder/${verb}-${way}`;
    return [
      verb === 'post' ? '`POST /api/card/purchase`' : '`GET /api/orders/{id}`',
      ...['rest', 'connect', 'hand'].map((way) => micros(mid(of(way), 'ns/op'))),
      ...['connect', 'hand'].map((way) => ratio(all(of('rest'), 'ns/op'), all(of(way), 'ns/op'))),
      ['rest', 'connect', 'hand'].map((way) => mid(of(way), 'allocs/op')).join(' / '),
    ];
  })),
  verification: () => table([
    'step', 'per second and core', 'without cgo', 'cgo : without',
  ], verifications.map(([title, name]) => [
    title, count(mid(`cgo Verification/${name}`, 'op/s')), count(mid(`pure Verification/${name}`, 'op/s')),
    ratio(all(`cgo Verification/${name}`, 'op/s'), all(`pure Verification/${name}`, 'op/s')),
  ])),
  settlement: () => table([
    'payments', 'gas each', 'gas : single', 'aim', 'bytes each',
  ], sizes.map(([title, name, aim]) => [
    title, count(mid(`cgo Settlement/${name}`, 'gas/pay')),
    ratio(all(`cgo Settlement/${name}`, 'gas/pay'), all('cgo Settlement/alone', 'gas/pay')), aim,
    count(mid(`cgo Settlement/${name}`, 'bytes/pay')),
  ])),
  strangers: () => {
    const of = (unit) => single('cgo Strangers', unit);
    return `Measured ${measured()}:\n\n` + table([
      'strangers', 'answered a second', 'an honest buyer, p99 ms', 'ratio', 'aim',
    ], [
      ['none', '', fixed(of('quiet-p99-ms')), '', ''],
      ['use up their burst', '', fixed(of('burst-p99-ms')), fixed(of('burst-p99-ms') / of('quiet-p99-ms')), '–'],
      ['at their full rate', count(of('strangers/s')), fixed(of('besieged-p99-ms')), `**${fixed(of('ratio'))}**`, '2'],
    ]);
  },
};

const missing = new Set(Object.keys(tables));
for (const doc of docs) {
  let text = readFileSync(doc, 'utf8');
  for (const [name, content] of Object.entries(tables)) {
    const place = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
    if (!place.test(text)) continue;
    missing.delete(name);
    try {
      text = text.replace(place, (_, begin, end) => `${begin}${content()}\n${end}`);
    } catch (error) {
      if (!process.env.ONLY) throw error;
    }
  }
  writeFileSync(doc, text);
}
if (missing.size) throw new Error(`no document has a place for ${[...missing].join(', ')}`);
