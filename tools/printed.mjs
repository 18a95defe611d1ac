// Fails unless a program printed what a document shows below `<!-- printed by … -->`: each line, in their order.
//   node tools/printed.mjs DOCUMENT LOG
// What differs from run to run may: addresses, ids, times, ports, codes of eSIMs, digits of a card; `…` is anything.
// JSON is compared without regard to its white space.
import { readFileSync } from 'node:fs';

const [doc, log] = process.argv.slice(2);
const block = /^<!-- printed by [^\n]+ -->\n```(\w+)\n([^]*?)^```$/m.exec(readFileSync(doc, 'utf8'));
if (!block) throw new Error(`${doc} shows nothing that is printed`);
const [, language, shown] = block;

const varying = {
  '0x[0-9a-fA-F]{40}': '0x[0-9a-fA-F]{40}',
  'ord_\\w+…?': 'ord_\\w+',
  '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d': '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d',
  'LPA:1\\$[\\w.-]+\\$[\\w-]+': 'LPA:1\\$[\\w.-]+\\$[\\w-]+',
  '•••• \\d{4}': '•••• \\d{4}',
  '(?<=127\\.0\\.0\\.1:)\\d+': '\\d+',
  '…': '.*',
};
const any = new RegExp(`(${Object.keys(varying).join('|')})`, 'u');
const pattern = (text) => text.split(any).map((part, i) => (i % 2
  ? Object.entries(varying).find(([from]) => new RegExp(`^(?:${from.replace(/^\(\?<=.*?\)/, '')})$`, 'u').test(part))[1]
  : part.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'))).join('');

const printed = readFileSync(log, 'utf8');
if (language === 'json') {
  const dense = (text) => text.replace(/\s+/g, '');
  if (!new RegExp(pattern(dense(shown)), 'u').test(dense(printed))) {
    throw new Error(`${doc} shows what was not printed:\n${shown}\nThis was:\n${printed}`);
  }
} else {
  const lines = printed.split('\n');
  for (const line of shown.trimEnd().split('\n')) {
    const at = lines.findIndex((one) => new RegExp(`^${pattern(line)}$`, 'u').test(one));
    if (at < 0) throw new Error(`${doc} shows a line that was not printed there: ${line}\nThis was:\n${printed}`);
    lines.splice(0, at + 1);
  }
}
