#!/usr/bin/env bash
# Measures what docs/performance.md and docs/configuration/rates.md say, each thing and its yardstick in turn, and
# writes the tables there.
#
#   ONLY=Claim  measures one benchmark; the tables of others stay
#   ROUNDS=5    how often everything is measured; a figure is the median of the rounds
#   RESULTS=…   keeps what was measured, to be read again by tools/bench-report.mjs
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
results=${RESULTS:-$out/results.txt}
results=$(realpath -m "$results")

{
  echo "date: $(date -u +%F)"
  echo "cores: $(getconf _NPROCESSORS_ONLN)"
  echo "load: $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown)"
  echo "go: $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH)"
  echo "pgbench: $(pgbench --version 2>/dev/null | grep -o '[0-9.]*' | head -n 1 || true)"
  anvil=./tools/node_modules/@foundry-rs/anvil/package.json
  echo "anvil: $(node -p "require('$anvil').version" 2>/dev/null || echo unknown)"
} >"$results"

CGO_ENABLED=1 go test -c -o "$out/cgo.test" ./internal/testing/bench
CGO_ENABLED=0 go test -c -o "$out/pure.test" ./internal/testing/bench

# measure PROGRAM PATTERN BENCHTIME FLAGS… adds what the benchmarks print.
measure() {
  local program=$1 pattern=$2 benchtime=$3
  shift 3
  if [[ -n ${ONLY:-} && $pattern != "^Benchmark$ONLY$" ]]; then return; fi
  if ! (cd internal/testing/bench && "$out/$program.test" -test.run '^$' -test.bench "$pattern" \
    -test.benchtime "$benchtime" -test.timeout 10m "$@") \
    >"$out/one.txt" 2>&1; then
    cat "$out/one.txt"
    exit 1
  fi
  sed "s/^Benchmark/$program Benchmark/" "$out/one.txt" | grep -E 'Benchmark|^cpu:' | tee -a "$results"
}

# They wait for minutes and hardly swing: once is enough.
measure cgo '^BenchmarkWaiting$' 1x
measure cgo '^BenchmarkPurchases$' 1x
measure cgo '^BenchmarkServers$' 1x
measure cgo '^BenchmarkStrangers$' 1x
for ((round = 1; round <= rounds; round++)); do
  echo "round: $round of $rounds" | tee -a "$results"
  measure cgo '^BenchmarkChallenge$' 2s
  measure cgo '^BenchmarkChallengeBooks$' 10000x
  measure cgo '^BenchmarkClaim$' 3000x
  measure cgo '^BenchmarkTranscoder$' 1s
  measure cgo '^BenchmarkVerification$' 1s -test.cpu 1
  measure pure '^BenchmarkVerification$' 1s -test.cpu 1
  measure cgo '^BenchmarkSettlement$' 1000x
done
node tools/bench-report.mjs "$results" docs/performance.md docs/configuration/rates.md
