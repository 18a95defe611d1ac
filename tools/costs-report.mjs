// Prints what the tests cost: the processor seconds of each suite, and the fifty tests that cost most. Lines are
// {"suite", "test", "seconds"}; those without a test are a suite's own, which has more than its tests: processes that
// start before the first one, and time between them.
import { readFileSync } from 'node:fs';

const suites = new Map(), tests = new Map();
const add = (map, key, seconds) => map.set(key, (map.get(key) ?? 0) + seconds);
for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  if (!line) continue;
  const { suite, test, seconds } = JSON.parse(line);
  // A test of Go contains its subtests.
  if (test) add(tests, `${suite} ${test.replace(/^((?:Test|Fuzz|Example)[^/]*)\/.*/, '$1')}`, seconds);
  else add(suites, suite, seconds);
}
const show = (title, map, most) => {
  console.log(`${title}:`);
  for (const [key, seconds] of [...map].sort(([, a], [, b]) => b - a).slice(0, most)) {
    console.log(`  ${seconds.toFixed(1).padStart(7)} s  ${key}`);
  }
};
show('processor time by suite', suites, Infinity);
show('the fifty tests that cost most processor time', tests, 50);
