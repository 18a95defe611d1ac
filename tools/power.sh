#!/usr/bin/env bash
# Shows how strong a suite is that looks for what nobody has thought of: plants bugs of tools/mutants, one at a time,
# and lets the suite look for each of them. Prints one line for each, with the seconds that it took and what was broken,
# and ends with one line: N passed, N failed. A seed that finds something without the bug, too, has not found the bug.
#
#   tools/power.sh NAME...    these bugs
#   SUITE=simulation          seeds that nobody has chosen, in virtual time; SUITE=memory is worlds in memory, and
#                             SUITE=histories official clients and real servers
#   ABOUT=nodes               worlds about one thing, of those of themes_test.go; otherwise the seed says about what
#   SECONDS_EACH=120          how long each is looked for; 900 by histories, which end with the round they are in
#   SEED=…                    the first seed, or that of the histories; otherwise one is drawn
set -uo pipefail
cd "$(dirname "$0")/.."
suite=${SUITE:-simulation}
out=$(mktemp -d)
chmod 755 "$out" # a database may run as another user
trap 'rm -rf "$out"' EXIT
export GIT_CEILING_DIRECTORIES=$out # what is patched there belongs to no repository
source tools/plant.sh

# Each suite: limit is how long a bug is looked for, build makes what has the bug, look fails when it is found, looked
# says at what was looked, and without fails where a seed finds something without a bug. They get the log of the bug,
# and build what go build takes.
without() { true; }
case $suite in
  simulation | memory)
    limit=${SECONDS_EACH:-120}
    worlds=TestSeeds
    if [[ $suite == memory ]]; then worlds=TestSeedsInMemory; fi
    build() {
      CGO_ENABLED=0 go test -c -vet=off -ldflags='-s -w' "$@" -o "$out/sim.test" ./internal/testing/simulation
    }
    build && mv "$out/sim.test" "$out/without.test" || exit 1
    without() {
      (cd internal/testing/simulation && exec "$out/without.test" -test.run "$worlds\$" -test.timeout 1h \
        -seeds 1 -about "${ABOUT:-}" -seed "$1") >"$out/without.log" 2>&1
    }
    # A world waits for its database for half of the time: there is one for each processor, the seeds of each far from
    # those of the others.
    look() {
      local n found=0
      for ((n = 1; n <= $(nproc); n++)); do
        (cd internal/testing/simulation && exec "$out/sim.test" -test.run "$worlds\$" -test.v -test.timeout 1h \
          -about "${ABOUT:-}" -seconds "$limit" -seed "$((${SEED:-0} ? SEED + (n - 1) * 1000000 : 0))") \
          >"$out/worlds.$n" 2>&1 &
      done
      for ((n = 1; n <= $(nproc); n++)); do
        wait -n || { found=1 && break; }
      done
      # shellcheck disable=SC2046
      kill $(jobs -p) 2>/dev/null
      wait
      cat "$out"/worlds.*
      return "$found"
    }
    looked() { echo "$(grep -c ': seed .*trace' "$1") seeds"; }
    ;;
  histories)
    limit=${SECONDS_EACH:-900}
    go test -c -o "$out/histories.test" ./internal/testing/crash || exit 1
    build() { go build -ldflags='-s -w' "$@" -o "$out/roamcard" ./cmd/roamcard; }
    look() {
      (cd internal/testing/crash && env ROAMCARD_TORTURE=1 ROAMCARD_SEED="${SEED:-}" TMPDIR="$out" \
        ROAMCARD_BIN_UNDER_TEST="$out/roamcard" "$out/histories.test" -test.run 'TestHistories$' -test.v \
        -test.timeout 2h -lasting "${limit}s")
    }
    looked() { echo "$(grep -c ': round ' "$1") rounds"; }
    ;;
  *) echo "SUITE is simulation, memory or histories" && exit 2 ;;
esac

broken='I[0-9]+|rest|served|history|world'
passed=0 failed=0
for name in "$@"; do
  tree="$out/$name.tree" log="$out/$name.log"
  if ! apply "$name" "$tree" >"$log" 2>&1 || ! overlay "$tree" || ! build -overlay "$tree.json" >"$log" 2>&1; then
    verdict="BROKEN: $name: $(head -n 2 "$log" | tail -n 1)"
  elif began=$SECONDS && look >"$log" 2>&1; then
    verdict="SURVIVED: $name, $(looked "$log")"
  else
    by=$(grep -om1 -E "seed [0-9]*(, round [0-9]*)?: ($broken).*|never: .*|panic: .*|fatal error: .*" "$log")
    verdict="found: $name after $((SECONDS - began)) s, $(looked "$log"): ${by:0:160}"
    seed=$(grep -oE '^seed [0-9]+' <<<"$by" | grep -oE '[0-9]+')
    if [[ -n $seed ]] && ! without "$seed"; then verdict="NOT THE BUG: $name, it is found without it: ${by:0:160}"; fi
  fi
  echo "$verdict"
  if [[ -n ${LOGS:-} ]]; then cp "$log" "$LOGS/$name.log"; fi
  case $verdict in found*) passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
  rm -rf "$tree"
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
