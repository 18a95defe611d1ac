// Reads the output of `go test -json`: prints what failed and what was measured, and on the last line the numbers of
// tests passed and failed.
import { readFileSync } from 'node:fs';

let passed = 0, failed = 0;
const output = new Map();
for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  if (!line.startsWith('{')) {
    if (line) console.log(line);
    continue;
  }
  const e = JSON.parse(line);
  const key = `${e.Package ?? e.ImportPath} ${e.Test ?? ''}`;
  if (e.Action === 'output' || e.Action === 'build-output') {
    output.set(key, (output.get(key) ?? '') + e.Output);
    if (e.Output.startsWith('measured: ')) console.log(e.Output.trimEnd());
  } else if (e.Action === 'pass' && e.Test) {
    passed++;
    output.delete(key);
  } else if (e.Action === 'fail' || e.Action === 'build-fail') {
    if (e.Test) failed++;
    console.log(`FAIL ${key}\n${output.get(key) ?? ''}`);
    output.delete(key);
  }
}
console.log(`${passed} ${failed}`);
