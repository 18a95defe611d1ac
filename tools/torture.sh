#!/usr/bin/env bash
# Kills the program at every point of a purchase, alone and again while it recovers, under every settler, and
# with the same payment and a new one; attacks it with all that the hostile suite has; drills incidents with their
# alerts; kills a primary database under load and promotes its standby; sells next to the release before; lets official
# clients buy while everything fails at random; all but the attacks with the race detector; and shares one journal
# between the clients of three languages. Prints its seed, what it measured, and ends with one line: N passed, N failed.
#
#   CASES=300   how many cases of the matrix to draw; all for every one, which takes more than an hour
#   SEED=…      repeats a run
#   MATRIX=…    where the results go, a line each; docs/fault-matrix is made of them with RENDER=1
#   ATTACKS=…   where those of the attacks go; docs/threat-model is made of them with RENDER=1
#   ROAMCARD_PREVIOUS=…  the ref whose program is the release before; otherwise the newest tag, or the oldest commit
#               with the migrations of today
#   PARTS="…"   some of the parts; PARTS=list lists them
set -uo pipefail
cd "$(dirname "$0")/.."
# The parts, each a function, and what it does.
declare -A about=(
  [endtoend]="stories of the whole program: faults, races in many rounds, drills with their alerts"
  [crash]="the program killed at every point of a purchase, under every settler, and a primary database under load"
  [histories]="official clients and three real servers, where everything fails at random for ten minutes"
  [hostile]="every attack, at its full size"
  [goclient]="the Go client against killed servers and services that lie"
  [cli]="the command, the packages and the pages"
  [chain]="everything at the chain under the race detector"
  [blocking]="what Python's blocking client does against a service that lies or fails"
  [devtools]="the development server and the demo"
  [crowd]="buyers who wait at once, and the memory of it"
  [postgres]="the store on each other version of PostgreSQL"
  [lies]="what the clients do against a service that lies, in random stories"
  [journals]="one journal by the clients of three languages at once, which do not see each other's processes"
  [signers]="the signers' kit over a KMS that others have written"
  [simulation]="whole deployments in virtual time, of new seeds for two hours"
)
all="endtoend crash histories hostile goclient cli chain"
all+=" devtools crowd postgres lies blocking journals signers simulation"

for part in ${PARTS:-}; do
  if [[ -z ${about[$part]:-} ]]; then
    [[ $part == list ]] || echo "There is no part $part."
    echo "PARTS=\"…\" has some of these:"
    for part in $all; do printf '  %-10s %s\n' "$part" "${about[$part]}"; done
    exit 2
  fi
done

# A pooler, which the end-to-end tests put in front of PostgreSQL; RUNLEVEL keeps the package from starting its service.
if [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null && ! command -v pgbouncer >/dev/null; then
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install --yes --no-install-recommends pgbouncer >/dev/null 2>&1 ||
    echo "PgBouncer could not be installed: its tests are skipped"
fi
seed=${SEED:-$(date +%s%N)}
cases=${CASES:-300}
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
matrix=${MATRIX:-$report/matrix.jsonl}
attacks=${ATTACKS:-$report/attacks.jsonl}
touch "$matrix" "$attacks"
# One program for all suites: each would build it again.
export ROAMCARD_BIN_UNDER_TEST=$report/roamcard
go build -ldflags='-s -w' -o "$ROAMCARD_BIN_UNDER_TEST" ./cmd/roamcard || exit 1
echo "seed $seed, $cases cases"

passed=0 failed=0
# suites FLAGS… PACKAGES runs Go tests one package after the other, and counts each.
suites() {
  local code=0 begin=$SECONDS counts more bad cgo=${CGO_ENABLED:-0}
  if [[ $1 == -race ]]; then cgo=1; fi # the race detector's library is C
  env ROAMCARD_TORTURE=1 ROAMCARD_SEED="$seed" ROAMCARD_CASES="${cases/all/1000000}" \
    ROAMCARD_MATRIX="$(realpath -m "$matrix")" ROAMCARD_HOSTILE="$(realpath -m "$attacks")" \
    CGO_ENABLED="$cgo" go test -json -count=1 -p 1 -timeout 6h "$@" >"$report/go.json" 2>"$report/go.err" || code=$?
  counts=$(node tools/gotest-report.mjs "$report/go.json") || code=1
  cat "$report/go.err"
  echo "$counts" | sed '$d'
  read -r more bad <<<"$(echo "$counts" | tail -n 1)"
  if [[ $code -ne 0 && $bad -eq 0 ]]; then bad=1; fi
  passed=$((passed + more)) failed=$((failed + bad))
  echo "--- ${*: -1}: $more passed, $bad failed ($((SECONDS - begin)) s)"
}
# A crowd whose memory is measured: the race detector would be most of it, and of its time.
crowd=TestManyBuyersWaitForEsimsAtOnce

endtoend() { suites -race -skip "$crowd" ./internal/testing/endtoend; }
# It has a time of its own.
histories=TestHistories
crash() { suites -race -skip "$histories\$" ./internal/testing/crash; }
histories() {
  counted 1 clients/python/setup.sh
  suites -race -run "$histories\$" ./internal/testing/crash
}
# Honest buyers are timed next to the attackers, whom the race detector would make ten times as hungry.
hostile() { suites ./internal/testing/hostile; }
goclient() { suites -race ./internal/testing/goclient; }
cli() { suites -race ./cmd/roamcard; }
chain() { suites -race ./internal/chain; }
devtools() { suites -race ./internal/devtools/...; }
crowd() { suites -run "$crowd" ./internal/testing/endtoend; }
postgres() {
  # Those of npm's packages, and those of the system. Not `npm ci`: it refuses a lock file without the binaries of every
  # other platform.
  npm install --no-save --prefix tools/postgres --ignore-scripts --no-audit --no-fund >/dev/null || {
    echo "PostgreSQL 15, 16 and 17 could not be fetched"
    failed=$((failed + 1))
  }
  for bin in "$PWD"/tools/postgres/node_modules/*/native/bin /usr/lib/postgresql/*/bin; do
    [[ -x $bin/postgres ]] || continue
    ROAMCARD_PG_BIN=$bin suites ./internal/store
    # After the tests, which make the links to libraries that npm's archives cannot hold.
    echo "    on $("$bin/postgres" --version)"
  done
}

# counted N COMMAND… counts N when it succeeds.
counted() { if "${@:2}"; then passed=$((passed + $1)); else failed=$((failed + 1)); fi; }
lies() { counted 4 env SEED=$((seed % 2147483648)) tools/stories.sh; }
blocking() { counted 1 env ROAMCARD_TORTURE=1 tools/test-python.sh tests; }
journals() { counted 1 three_languages; }
three_languages() {
  clients/python/setup.sh && npm run --silent build --prefix clients/typescript &&
    (cd clients/python && ROAMCARD_TORTURE=1 .venv/bin/pytest -q tests/test_lock.py -k three_languages)
}
signers() { counted 1 tools/kms.sh; }
simulation() {
  suites -run "TestSeedIsRepeatedExactly$|TestKeptSeeds$|TestStoresDoTheSame$" ./internal/testing/simulation
  counted 1 env SEED="$seed" IN="memory memory" tools/simulate.sh 3600
  counted 1 env SEED="$seed" IN="postgres crowds" tools/simulate.sh 3600
}

for part in ${PARTS:-$all}; do
  echo "--- $part: ${about[$part]}"
  "$part"
done
node tools/fault-matrix.mjs "$matrix" "$report" "$seed"
node tools/threat-model.mjs "$attacks" "$report"
# render NAME puts a page and its tables in the place of those in docs.
render() { rm -rf "docs/$1" && cp -R "$report/$1.md" "$report/$1" docs/; }
# What did not run is not rendered.
if [[ -n ${RENDER:-} && -s $matrix ]]; then render fault-matrix; fi
if [[ -n ${RENDER:-} && -s $attacks ]]; then render threat-model; fi
cat "$report"/{fault-matrix,threat-model}/*.md 2>/dev/null | sed -n '/^|/p'
echo "seed $seed"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
