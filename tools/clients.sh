#!/usr/bin/env bash
# Proves the scenarios of clients/testing/scenarios.json in every language against one development server, and prints
# what each proved.
#
#   tools/clients.sh [LANGUAGE…]      typescript python go, or some of them
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $# -eq 0 ]]; then set -- typescript python go; fi

make --no-print-directory build >/dev/null
work=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then kill "$server" && wait "$server" || true; fi
  rm -rf "$work"
}
trap finish EXIT
lines=$work/scenarios.jsonl
touch "$lines"

typescript() { npm run scenarios --prefix clients/typescript; }

python() {
  clients/python/setup.sh
  (cd clients/python && .venv/bin/pytest -q -n 2 tests/test_scenarios.py)
}

go() { command go test -count=1 -run '^TestScenarios$' ./internal/testing/goclient; }

bin/roamcard dev --addr 127.0.0.1:0 --limits off --ready-file "$work/ready.json" >"$work/server.log" 2>&1 &
server=$!
until [[ -s $work/ready.json ]]; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$work/server.log"
    exit 1
  fi
  sleep 0.1
done
export ROAMCARD_READY=$work/ready.json ROAMCARD_SCENARIOS=$lines

# At once: a suite mostly waits.
declare -A suites=()
for language; do
  "$language" >"$work/$language.log" 2>&1 &
  suites[$language]=$!
done
failed=0
for language in "${!suites[@]}"; do
  if ! wait "${suites[$language]}"; then
    echo "--- $language failed"
    cat "$work/$language.log"
    failed=1
  fi
done
node tools/clients-report.mjs "$lines" "$@" || failed=1
exit "$failed"
