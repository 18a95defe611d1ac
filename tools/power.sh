#!/usr/bin/env bash
# Shows how strong the simulation is: plants bugs of tools/mutants, one at a time, and lets seeds that nobody has chosen
# look for each of them. Prints one line for each, with the seconds that it took and what was broken, and ends with one
# line: N passed, N failed.
#
#   tools/power.sh NAME...    these bugs; SECONDS_EACH=120 is how long each is looked for
set -uo pipefail
cd "$(dirname "$0")/.."
limit=${SECONDS_EACH:-120}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export GIT_CEILING_DIRECTORIES=$out # what is patched there belongs to no repository
source tools/plant.sh

passed=0 failed=0
for name in "$@"; do
  tree="$out/$name.tree" log="$out/$name.log"
  if ! apply "$name" "$tree" >"$log" 2>&1 || ! overlay "$tree" ||
    ! go test -c -overlay "$tree.json" -o "$out/sim.test" ./internal/testing/simulation >"$log" 2>&1; then
    verdict="BROKEN: $name: $(head -n 2 "$log" | tail -n 1)"
  elif (cd internal/testing/simulation &&
    "$out/sim.test" -test.run 'TestSeeds$' -test.v -test.timeout 1h -seconds "$limit" -seed "${SEED:-0}") \
    >"$log" 2>&1; then
    verdict="SURVIVED: $name, $(grep -c ': seed ' "$log") seeds"
  else
    by=$(grep -om1 -E 'seed [0-9]*: (I[0-9]+|rest|served|history) .*|panic: .*|fatal error: .*' "$log")
    verdict="found: $name after $(sed -n 's/.*found after //p' "$log")"
    verdict+=", $(grep -c ': seed .*trace' "$log") seeds: ${by:0:160}"
  fi
  echo "$verdict"
  case $verdict in found*) passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
  rm -rf "$tree" "$out/sim.test"
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
