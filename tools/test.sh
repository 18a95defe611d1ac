#!/usr/bin/env bash
# Runs every check and test, and ends with one line: N passed, N failed.
set -uo pipefail
cd "$(dirname "$0")/.."
# in_memory succeeds where a folder in memory may hold the databases, chains and programs of the tests: the store's, each of
# which makes a database, take twice the processors' time on a disk.
in_memory() {
  [[ -z ${TMPDIR:-} && -w /dev/shm ]] &&
    (($(df --output=avail -B 1G /dev/shm | tail -n 1) >= 8)) &&
    (($(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo) >= 12)) &&
    memory=$(mktemp -d /dev/shm/roamcard-XXXXXX) && chmod 755 "$memory" &&
    cp /bin/true "$memory" && "$memory/true"
}
memory=
if in_memory; then export TMPDIR=$memory; fi
report=$(mktemp -d)
trap 'rm -rf "$report" ${memory:+"$memory"}' EXIT
# The suites of the clients add a line for each scenario that they proved.
export ROAMCARD_SCENARIOS=$report/scenarios.jsonl
touch "$ROAMCARD_SCENARIOS" "$report/counts"

# count PASSED FAILED adds to what the last line says.
count() { echo "$1 $2" >>"$report/counts"; }

# step NAME COMMAND… runs one check that counts as one.
step() {
  local name=$1
  shift
  echo "--- $name"
  local begin=$SECONDS
  if "$@"; then
    count 1 0
    echo "--- $name: ok ($((SECONDS - begin)) s)"
  else
    count 0 1
    echo "--- $name: FAILED ($((SECONDS - begin)) s)"
  fi
}

# gotests NAME DIR FLAGS… PACKAGES runs Go tests and counts each.
gotests() {
  local name=$1 dir=$2
  shift 2
  echo "--- $name"
  local begin=$SECONDS code=0
  # Lint has vetted them, and nobody debugs these binaries: linking without symbols takes half the time.
  (cd "$dir" && go test -json -vet=off -ldflags='-s -w' "$@") >"$report/go.json" 2>"$report/go.err" || code=$?
  local counts
  counts=$(node tools/gotest-report.mjs "$report/go.json") || code=1
  cat "$report/go.err"
  echo "$counts" | sed '$d'
  read -r p f <<<"$(echo "$counts" | tail -n 1)"
  # A build that breaks fails no test by itself.
  if [[ $code -ne 0 && $f -eq 0 ]]; then f=1; fi
  count "$p" "$f"
  echo "--- $name: $p passed, $f failed ($((SECONDS - begin)) s)"
}

# clients are the suites that buy from the program as it is built.
clients() {
  step "official clients" npm test --prefix clients/typescript
  step "python client" tools/test-python.sh
  # What takes longer runs in `make conformance`: the fuzzer of the API, the recipes, the pages in a browser.
  step "conformance" env QUICK=1 tools/conformance.sh
}

step "lint" tools/lint.sh
step "build" make --no-print-directory build
GOWORK=off gotests "generator" tools -count=1 ./protoc-gen-openapi/...
# Next to the Go tests: both wait for blocks, leases and servers most of the time.
clients >"$report/clients.log" 2>&1 &
# Those of every module of go.work: ./... alone is the service's.
packages=$(go list -m -f '{{.Dir}}/...' | xargs go list)
programs='/internal/testing/(endtoend|crash|hostile)$'
# The race detector doubles the processors' time of these, so here it watches only those that race on purpose; all of them
# run with it in `make torture`.
gotests "go, whole programs" . -count=1 -timeout 45m -p 2 $(grep -E "$programs" <<<"$packages")
gotests "go, races of whole programs" . -race -count=1 -timeout 20m \
  -run 'Race|Concurrent|ManyBuyers|ManyClaims|AtOnce|UnderLoad|EitherOrder' ./internal/testing/endtoend
gotests "go" . -race -count=1 -timeout 45m $(grep -vE "$programs" <<<"$packages")
wait
cat "$report/clients.log"
# The suites above have proved them, each on a server of its own; `make clients` does it on one.
step "scenarios" node tools/clients-report.mjs "$ROAMCARD_SCENARIOS" typescript python go

read -r passed failed <<<"$(awk '{ p += $1; f += $2 } END { print p, f }' "$report/counts")"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
