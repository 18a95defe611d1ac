// Reads what the suites of the clients proved, one JSON line for each scenario, and prints a table of scenarios and
// languages with the transfers on chain. It fails when a cell is missing.
//
//   node tools/clients-report.mjs LINES LANGUAGE…
import { readFileSync } from 'node:fs';

const [lines, ...languages] = process.argv.slice(2);
const scenarios = new URL('../clients/testing/scenarios.json', import.meta.url);
const promised = Object.keys(JSON.parse(readFileSync(scenarios, 'utf8')));
const proved = new Map();
for (const line of readFileSync(lines, 'utf8').split('\n').filter(Boolean)) {
  const { client, scenario, transfers } = JSON.parse(line);
  const cell = `${scenario} ${client}`;
  // A client with two interfaces, sync and async, proves a scenario twice.
  proved.set(cell, [...(proved.get(cell) ?? []), transfers]);
}
const missing = [];
const row = (name, cells) => console.log(name.padEnd(16) + cells.map((cell) => cell.padStart(12)).join(''));
row('', languages);
for (const scenario of promised) {
  row(scenario, languages.map((language) => {
    const transfers = proved.get(`${scenario} ${language}`);
    if (!transfers) missing.push(`${scenario} in ${language}`);
    return transfers ? transfers.join(' + ') : '—';
  }));
}
if (missing.length > 0) {
  console.log(`not proved: ${missing.join(', ')}`);
  process.exitCode = 1;
} else {
  console.log(`${promised.length} scenarios proved in ${languages.join(', ')}; the numbers are transfers on chain`);
}
