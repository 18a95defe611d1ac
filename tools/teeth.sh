#!/usr/bin/env bash
# Shows that the tests have teeth: plants each bug of tools/mutants and runs the ordinary tests, narrowed
# to where it must be noticed: those that `make test` runs, so a test which it skips catches nothing. Prints one line
# for each, with the suite and the test that noticed it, and ends with one line: N passed, N failed.
#
#   tools/teeth.sh            every bug
#   tools/teeth.sh NAME...    these bugs
#   tools/teeth.sh --check    only that every patch still applies and compiles, and that its tests are there
#
# tools/mutants/NAME.patch says what the bug does. After "caught by:" it names a package below internal and a
# pattern of its tests, which are run; other tests may notice the bug too, these are quick. Then comes the change.
set -uo pipefail
cd "$(dirname "$0")/.."
limit=300 # seconds for the tests of one bug, or for those of a package without any; building is not counted
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export GIT_CEILING_DIRECTORIES=$out # what is patched there belongs to no repository

source tools/plant.sh

# plant NAME expects a test to fail, and writes the verdict.
plant() {
  local name=$1 package=${packages[$1]} pattern=${patterns[$1]} tree="$out/$1.tree" log="$out/$1.log" by
  # A bug that does not compile would pass for one that is noticed.
  if [[ -n ${unseen[$name]:-} ]]; then
    echo "BROKEN: $name, ${unseen[$name]}" >"$out/$name"
  elif ! apply "$name" "$tree" >"$log" 2>&1; then
    echo "BROKEN: $name does not apply: $(head -n 1 "$log")" >"$out/$name"
  elif overlay "$tree" &&
    ! go test -c -overlay "$tree.json" -o "$out/$name.test" "./internal/$package" >"$log" 2>&1; then
    echo "BROKEN: $name does not build: $(head -n 2 "$log" | tail -n 1)" >"$out/$name"
  elif (cd "internal/$package" &&
    "$out/$name.test" -test.failfast -test.timeout "${limit}s" -test.run "$pattern") >"$log" 2>&1; then
    echo "SURVIVED: $name, internal/$package does not notice it" >"$out/$name"
  elif by=$(grep -om1 -- '--- FAIL: [^ (]*' "$log"); then
    echo "caught: $name by ${by##* } (internal/$package)" >"$out/$name"
  else
    echo "BROKEN: $name ends without a failed test: $(tail -n 1 "$log")" >"$out/$name"
  fi
  cat "$out/$name"
  rm -f "$out/$name.test"
}

only_check=
if [[ ${1:-} == --check ]]; then
  only_check=1
  shift
fi
names=("$@")
if ((${#names[@]} == 0)); then
  for patch in tools/mutants/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi
if [[ -n $only_check ]]; then
  GOWORK=off go build -C tools -o ../bin/ ./mutantcheck
  bin/mutantcheck . "${names[@]}"
  exit
fi
declare -A packages patterns unseen
for name in "${names[@]}"; do
  if ! read -r packages["$name"] patterns["$name"] < <(sed -n 's/^caught by: //p' "$(patch_of "$name")"); then
    echo "tools/mutants/$name.patch does not say by what it is caught"
    exit 1
  fi
done
# What the tests of `make torture` notice is not noticed by `make test`.
unset ROAMCARD_TORTURE

# tests VERDICT lists those of the last run that ended so.
tests() { sed -n "s/^--- $1: \(Test[^ ]*\) .*/\1/p" "$out/clean.log"; }

# Without a bug each of these tests passes, and of every pattern's at least one runs.
echo "--- without a bug"
for package in $(printf '%s\n' "${packages[@]}" | sort -u); do
  run=
  for name in "${names[@]}"; do
    if [[ ${packages[$name]} == "$package" ]]; then run+="${run:+|}${patterns[$name]}"; fi
  done
  if ! go test -count=1 -v -timeout "${limit}s" -run "$run" "./internal/$package" >"$out/clean.log" 2>&1; then
    cat "$out/clean.log"
    echo "internal/$package fails without a bug"
    exit 1
  fi
  for name in "${names[@]}"; do
    [[ ${packages[$name]} == "$package" ]] || continue
    if grep -Eq "^Test.*(${patterns[$name]})" <<<"$(tests PASS)"; then continue; fi
    if grep -Eq "^Test.*(${patterns[$name]})" <<<"$(tests SKIP)"; then
      unseen[$name]="make test skips all of internal/$package that is like ${patterns[$name]}"
    else
      unseen[$name]="internal/$package has no test like ${patterns[$name]}"
    fi
  done
done

echo "--- with one bug each"
for name in "${names[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do wait -n; done
  plant "$name" &
done
wait

passed=0 failed=0
for name in "${names[@]}"; do
  if grep -q '^caught' "$out/$name" 2>/dev/null; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
