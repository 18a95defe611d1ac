#!/usr/bin/env bash
# Runs every check and test, and ends with one line: N passed, N failed.
set -uo pipefail
cd "$(dirname "$0")/.."
# in_memory succeeds where a folder in memory may hold the databases, chains and programs of the tests: those of the
# store, each of which makes a database, take twice the processors' time on a disk.
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

# processors is how many seconds this shell's ended children have had of the processors, with theirs.
processors() {
  local stat
  read -r -a stat <"/proc/$BASHPID/stat"
  spent=$(((stat[15] + stat[16]) / 100))
}

# step NAME COMMAND… runs one check that counts as one. One that does not end fails after 25 minutes.
step() {
  local name=$1 begin=$SECONDS before verdict=ok
  shift
  echo "--- $name"
  processors
  before=$spent
  timeout --kill-after=30 25m "$@" || verdict=FAILED
  if [[ $verdict == ok ]]; then count 1 0; else count 0 1; fi
  processors
  echo "--- $name: $verdict ($((SECONDS - begin)) s, $((spent - before)) s of processors)"
}

# gotests NAME DIR FLAGS… PACKAGES runs Go tests and counts each.
gotests() {
  local name=$1 dir=$2 begin=$SECONDS code=0 before out counts p f
  shift 2
  echo "--- $name"
  out=$(mktemp -d -p "$report")
  processors
  before=$spent
  # Lint has vetted them, and nobody debugs these binaries: linking without symbols takes half the time.
  (cd "$dir" && go test -json -vet=off -ldflags='-s -w' "$@") >"$out/json" 2>"$out/err" || code=$?
  processors
  counts=$(node tools/gotest-report.mjs "$out/json") || code=1
  cat "$out/err"
  echo "$counts" | sed '$d'
  read -r p f <<<"$(echo "$counts" | tail -n 1)"
  # A build that breaks fails no test by itself.
  if [[ $code -ne 0 && $f -eq 0 ]]; then f=1; fi
  count "$p" "$f"
  echo "--- $name: $p passed, $f failed ($((SECONDS - begin)) s, $((spent - before)) s of processors)"
}

# background COMMAND… runs next to what follows; what it prints is shown when it ends.
background() {
  local log
  log=$(mktemp -p "$report")
  {
    "$@" >"$log" 2>&1
    cat "$log"
  } &
}

# niced COMMAND… runs with a lower priority than the rest.
niced() { (renice -n 5 -p "$BASHPID" >/dev/null; "$@"); }

# What takes longer of conformance runs in `make conformance`: the fuzzer of the API, the recipes, the pages in a
# browser.
python_and_conformance() {
  step "python client" tools/test-python.sh
  step "conformance" env QUICK=1 tools/conformance.sh
}

# The race detector doubles the processors' time of whole programs, so here it watches only those that race on purpose;
# all of them run with it in `make torture`.
programs='/internal/testing/(endtoend|crash|hostile|goclient)$|/cmd/roamcard$|/internal/devtools/'
# Nothing in these is concurrent: checks of the sources, of texts, and of key files.
sequential='/roamcard/internal$|/internal/activity$|/internal/agent/keys$'
races='Race|Concurrent|ManyBuyers|ManyClaims|FreezesAtOnce|UnderLoad|EitherOrder'
whole_programs() {
  local names racing
  # What takes longest begins first.
  names=$(grep -E "$programs|$sequential" <<<"$packages" | sort -r)
  racing=$(xargs go list -f '{{.Dir}} {{.ImportPath}}' <<<"$names" | while read -r dir name; do
    if grep -Eqs "^func Test\w*($races)" "$dir"/*_test.go; then echo "$name"; fi
  done)
  # shellcheck disable=SC2086
  gotests "go, whole programs" . -count=1 -timeout 25m -p 3 -skip "$races" $names
  # shellcheck disable=SC2086
  gotests "go, whole programs that race" . -race -count=1 -timeout 20m -p 1 -run "$races" $racing
}

# These write what the others read.
step "generated code" tools/lint.sh generated
step "build" make --no-print-directory build
GOWORK=off gotests "generator" tools -count=1 ./protoc-gen-openapi/...
# Whole programs, ours and those of the clients, wait for blocks, leases and servers most of the time; compilers and
# checks take what they leave of the processors.
background step "official clients" npm test --prefix clients/typescript
background python_and_conformance
# Those of every module of go.work: ./... alone is the service's.
packages=$(go list -m -f '{{.Dir}}/...' | xargs go list)
background whole_programs
niced step "sources" tools/lint.sh sources
# shellcheck disable=SC2046
niced gotests "go" . -race -count=1 -timeout 25m -p 3 $(grep -vE "$programs|$sequential" <<<"$packages")
wait
# The suites above have proved them, each on a server of its own; `make clients` does it on one.
step "scenarios" node tools/clients-report.mjs "$ROAMCARD_SCENARIOS" typescript python go

read -r passed failed <<<"$(awk '{ p += $1; f += $2 } END { print p, f }' "$report/counts")"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
