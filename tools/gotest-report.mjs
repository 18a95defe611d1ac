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
    // Tests that had no end: one of them has what a panic or a bound of time made the binary say.
    if (e.Test || e.Action === 'build-fail') continue;
    for (const [one, text] of output) {
      if (!one.startsWith(`${e.Package} `)) continue;
      console.log(`UNFINISHED ${one}\n${text}`);
      output.delete(one);
    }
  }
}
console.log(`${passed} ${failed}`);
