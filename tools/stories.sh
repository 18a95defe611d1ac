#!/usr/bin/env bash
# Runs made-up stories of crash, lie and lost answer against the fake service of each language's testing package, kills
# development servers at several moments of a purchase, and ends with one line: N passed, N failed. Prints its seed.
#
#   RUNS=2000   how many stories in each language
#   SEED=…      repeats a run
set -uo pipefail
cd "$(dirname "$0")/.."
export ROAMCARD_RUNS=${RUNS:-2000} ROAMCARD_SEED=${SEED:-$(($(date +%s) % 2147483648))}
passed=0 failed=0

# tell LANGUAGE COMMAND… runs the stories of one language.
tell() {
  echo "--- stories, $1"
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

go_stories() { go test -count=1 -v -run '^TestWhateverHappens' ./clients/go/roamcard/roamcardtest; }
typescript_stories() {
  npm run --silent build --prefix clients/typescript &&
    node --test --test-force-exit --test-reporter=spec clients/typescript/test/property.test.mjs
}
kills() {
  make --no-print-directory build &&
    ROAMCARD_TORTURE=1 node --test --test-force-exit --test-reporter=spec clients/typescript/test/crash.test.mjs
}
python_stories() { clients/python/setup.sh && (cd clients/python && .venv/bin/pytest -q -s tests/test_property.py); }

echo "seed $ROAMCARD_SEED, $ROAMCARD_RUNS stories in each language"
tell Go go_stories
tell TypeScript typescript_stories
tell Python python_stories
tell "killed servers" kills
echo "seed $ROAMCARD_SEED"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
