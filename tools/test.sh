#!/usr/bin/env bash
# Runs every check and test, and ends with one line: N passed, N failed.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# in_memory succeeds where a folder in memory may hold the databases, chains and programs of the tests: those of the
# store, each of which makes a database, take twice the processors' time on a disk. It has the same name each time,
# unless another run has it: Go keeps a result for as long as a test would read the same.
in_memory() {
  [[ -z ${TMPDIR:-} && -w /dev/shm ]] &&
    (($(df --output=avail -B 1G /dev/shm | tail -n 1) >= 8)) &&
    (($(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo) >= 12)) &&
    folder && chmod 755 "$memory" && cp /bin/true "$memory" && "$memory/true"
}
folder() {
  memory=/dev/shm/roamcard-$UID
  if exec {lock}>"$memory.lock" && flock -n "$lock"; then
    rm -rf "$memory" && mkdir "$memory"
  else
    memory=$(mktemp -d /dev/shm/roamcard-XXXXXX)
  fi
} 2>/dev/null
memory=
if in_memory; then export TMPDIR=$memory; fi
report=$(mktemp -d)
trap 'rm -rf "$report" ${memory:+"$memory"}' EXIT
# The suites of the clients add a line for each scenario that they proved, and every suite one for what a test cost.
export ROAMCARD_SCENARIOS=$report/scenarios.jsonl ROAMCARD_COSTS=$report/costs.jsonl
touch "$ROAMCARD_SCENARIOS" "$ROAMCARD_COSTS" "$report/counts"

# count PASSED FAILED adds to what the last line says.
count() { echo "$1 $2" >>"$report/counts"; }

# processors is how many seconds this shell's ended children have had of the processors, with theirs.
processors() {
  local stat
  read -r -a stat <"/proc/$BASHPID/stat"
  spent=$(((stat[15] + stat[16]) / 100))
}

# step NAME COMMAND… runs one check that counts as one. One that does not end fails after 25 minutes. In a subshell, so
# that the processors' time is this step's and not that of a lane which ends meanwhile.
step() (
  local name=$1 begin=$SECONDS verdict=ok
  shift
  echo "--- $name"
  timeout --kill-after=30 25m "$@" || verdict=FAILED
  if [[ $verdict == ok ]]; then count 1 0; else count 0 1; fi
  processors
  echo "--- $name: $verdict ($((SECONDS - begin)) s, $spent s of processors)"
)

# gotests NAME DIR FLAGS… PACKAGES runs Go tests and counts each.
gotests() (
  local name=$1 dir=$2 begin=$SECONDS code=0 out counts p f
  shift 2
  echo "--- $name"
  out=$(mktemp -d -p "$report")
  # Lint has vetted them, and nobody debugs these binaries: linking without symbols takes half the time.
  (cd "$dir" && "$root/bin/testcost" "$ROAMCARD_COSTS" go test -json -vet=off -ldflags='-s -w' "$@") \
    >"$out/json" 2>"$out/err" || code=$?
  processors
  counts=$(node tools/gotest-report.mjs "$out/json") || code=1
  cat "$out/err"
  echo "$counts" | sed '$d'
  read -r p f <<<"$(echo "$counts" | tail -n 1)"
  # A build that breaks fails no test by itself.
  if [[ $code -ne 0 && $f -eq 0 ]]; then f=1; fi
  count "$p" "$f"
  echo "--- $name: $p passed, $f failed ($((SECONDS - begin)) s, $spent s of processors)"
)

# worker LINE runs the steps of a queue, as long as there are any: the first line of the file is the next one, or with $
# the last. What a step prints is shown when it ends.
worker() {
  local name log
  log=$(mktemp -p "$report")
  while name=$(flock "$report/lock" sed -i -e "$1{w /dev/stdout" -e 'd}' "$report/queue") && [[ -n $name ]]; do
    "$name" >"$log" 2>&1
    flock "$report/lock" cat "$log"
    echo "$name" >>"$report/ended"
  done
}

# clients runs the suites of the clients, which tell what each of their steps took.
clients() {
  local log code=0 p f
  log=$(mktemp -p "$report")
  # In the foreground, so that who interrupts the tests interrupts its servers, too.
  timeout --foreground --kill-after=30 40m tools/clients-suite.sh | tee "$log" || code=$?
  read -r p f <<<"$(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log")"
  if [[ $code -ne 0 && ${f:-0} -eq 0 ]]; then f=1; fi
  count "${p:-0}" "${f:-0}"
}

# Programs that are started whole, with a database and a chain.
programs='/internal/testing/(endtoend|crash|hostile|goclient)$|/cmd/roamcard$|/internal/devtools/'
# The race detector doubles what a test costs, and compiles everything it needs once more. Here it watches the packages
# in which goroutines share something, and the stories of the chain and of the whole program that race on purpose; in
# `make torture` it watches all of the chain and all whole programs.
concurrent='/internal/(availability|checkout|job|limit|settlement|store|transport/(edge|rpcx)|provider/wire)$'
races='Race|Concurrent|ManyBuyers|ManyClaims|FreezesAtOnce'
at_the_chain='Processes|UnderFaults|ManyPayments|Hanging|Slow|Flood|Share|Broadcast|Survey|AllWatchers'
# What nothing has changed in since it passed is not run again, except in CI, and except for whole programs.
again=(${CI:+-count=1})
whole_programs() {
  local first=/internal/testing/endtoend
  # Three packages at a time: they wait for blocks and leases for two thirds of theirs. The longest one is the first.
  # shellcheck disable=SC2046
  gotests "go, whole programs" . -count=1 -timeout 15m -p 3 -skip "$races" ".$first" \
    $(grep -E "$programs" <<<"$packages" | grep -v "$first$")
}
racing_programs() {
  # shellcheck disable=SC2086
  CGO_ENABLED=$cgo gotests "go, whole programs that race" . $race -count=1 -timeout 15m -p 1 -run "$races" \
    ./internal/testing/endtoend
}
quiet_packages() {
  # shellcheck disable=SC2046
  gotests "go" . "${again[@]}" -timeout 15m -p 1 \
    $(grep -vE "$programs|$concurrent|$simulated|$structural" <<<"$packages")
}
# What the sources say of themselves, which takes seconds and is what is forgotten most.
structural='/internal(/faultpoint)?$'
structure() {
  # shellcheck disable=SC2046
  gotests "go, structure" . $(grep -E "$structural" <<<"$packages")
}
# Each run draws worlds of its own, so its result is never one of an earlier run.
simulated='/internal/testing/simulation$'
simulation() { gotests "simulation" . -count=1 -timeout 15m ./internal/testing/simulation; }
concurrent_packages() {
  # shellcheck disable=SC2046,SC2086
  CGO_ENABLED=$cgo gotests "go, concurrent" . $race "${again[@]}" -timeout 15m -p 2 \
    $(grep -E "$concurrent" <<<"$packages")
}
racing_chain() {
  # shellcheck disable=SC2086
  CGO_ENABLED=$cgo gotests "go, chain that races" . $race "${again[@]}" -timeout 15m -run "$at_the_chain" \
    ./internal/chain
}
tools_tests() { GOWORK=off gotests "tools" tools "${again[@]}" ./...; }
sources() { step "sources" tools/lint.sh sources; }
# The first command of the README, with the program that is built for it.
demo() { step "demo" make --no-print-directory demo; }

# The race detector's library is C, and is linked by a compiler of C.
race=-race cgo=1
if ! command -v "$(go env CC)" >/dev/null; then
  race='' cgo=0
  if [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null && apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null; then
    race=-race cgo=1
  else
    echo "there is no $(go env CC), a compiler of C: nothing runs under the race detector"
  fi
fi

# These write what the others read.
step "generated code" tools/lint.sh generated
step "build" make --no-print-directory build
export ROAMCARD_BIN_UNDER_TEST=$root/bin/roamcard
GOWORK=off go build -C tools -o ../bin/ ./testcost
# Those of every module of go.work: ./... alone is the service's.
packages=$(go list -m -f '{{.Dir}}/...' | xargs go list)
structure
# Two at a time, because two processors are what a change is tried on, the longest first. They wait for blocks, leases
# and each other's answers for half of their time. A third worker has what the processors have left: it begins with the
# steps that only compute, at the other end of the queue, and gives way to the others: what waits for a processor looks
# like what is broken.
queue=(
  clients whole_programs concurrent_packages racing_programs racing_chain
  demo tools_tests simulation quiet_packages sources
)
printf '%s\n' "${queue[@]}" >"$report/queue"
worker 1 &
worker 1 &
(renice -n 5 "$BASHPID" >/dev/null && worker '$')
wait
if [[ $(sort "$report/ended") != "$(printf '%s\n' "${queue[@]}" | sort)" ]]; then
  echo "FAILED: of ${queue[*]} these ended: $(xargs <"$report/ended")"
  count 0 1
fi
# The suites above have proved them, each on a server of its own; `make clients` does it on one.
step "scenarios" node tools/clients-report.mjs "$ROAMCARD_SCENARIOS" typescript python go
cp "$ROAMCARD_COSTS" bin/test-costs.jsonl
node tools/costs-report.mjs bin/test-costs.jsonl

read -r passed failed <<<"$(awk '{ p += $1; f += $2 } END { print p, f }' "$report/counts")"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
