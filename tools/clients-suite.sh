#!/usr/bin/env bash
# Runs the suites of the clients, TypeScript's and Python's, and the quick half of the conformance suite: three steps
# at a time, because each waits for most of its time, against three development servers that start once. One sells cards
# of the sandbox's issuer to whoever has a wallet of his own; one is for what pauses a sale or empties a float, one step
# after the other; one sells Lithic's cards. It needs bin/roamcard. Prints each step's counts, time and processors'
# time, and ends with one line: N passed, N failed.
#
#   ROAMCARD_SCENARIOS=…  a file that gets a line for each scenario that was proved, for tools/clients-report.mjs
#   ROAMCARD_COSTS=…      a file that gets a line for each test with the processors' seconds that it took
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/browser.sh
root=$PWD
work=$(mktemp -d)
# PostgreSQL may run as another user, who has to get in.
chmod 755 "$work"
trap 'stop_servers >/dev/null; rm -rf "$work"' EXIT
touch "$work/counts"

# processors is how many hundredths of a second this shell's ended children have had of the processors, with theirs.
processors() {
  local stat
  read -r -a stat <"/proc/$BASHPID/stat"
  spent=$((stat[15] + stat[16]))
}

# costs NAME HUNDREDTHS tells what was no test of a suite that tells by itself.
costs() {
  if [[ -z ${ROAMCARD_COSTS:-} ]]; then return; fi
  printf '{"suite":"clients","test":"%s","seconds":%d.%02d}\n' "$1" $(($2 / 100)) $(($2 % 100)) >>"$ROAMCARD_COSTS"
}

# told NAME PASSED FAILED SECONDS HUNDREDTHS prints the last line of a step and counts it.
told() {
  echo "$2 $3" >>"$work/counts"
  printf -- '--- %s: %d passed, %d failed (%d s, %d.%02d s of processors)\n' "$1" "$2" "$3" "$4" $(($5 / 100)) \
    $(($5 % 100))
}

# step NAME COMMAND… runs a command that counts as one, or as the numbers that it ends with: those of pytest, of the
# test runner of Node, or of a script of ours. What it prints is shown when it fails. In a subshell, so that the
# processors' time is this step's.
step() (
  name=$1 begin=$SECONDS code=0 log=$(mktemp -p "$work")
  shift
  "$@" >"$log" 2>&1 || code=$?
  processors
  passed=$(sed -nE 's/^ℹ pass ([0-9]+)$/\1/p; s/^([0-9]+) passed, [0-9]+ failed$/\1/p
    s/^(.* )?([0-9]+) passed.* in [0-9.]+s.*$/\2/p' "$log" | tail -n 1)
  failed=$(sed -nE 's/^ℹ fail ([0-9]+)$/\1/p; s/^[0-9]+ passed, ([0-9]+) failed$/\1/p
    s/^(.* )?([0-9]+) failed.* in [0-9.]+s.*$/\2/p' "$log" | tail -n 1)
  if [[ -z $passed && -z $failed ]]; then
    passed=$((code == 0)) failed=$((code != 0))
    costs "$name" "$spent"
  fi
  # What breaks fails no test by itself.
  if [[ $code -ne 0 && ${failed:-0} -eq 0 ]]; then failed=1; fi
  if [[ $code -ne 0 ]]; then cat "$log"; fi
  told "$name" "${passed:-0}" "${failed:-0}" $((SECONDS - begin)) "$spent"
  [[ $code -eq 0 ]]
)

# serve NAME BINARY FLAGS… runs a development server until stop_servers.
serve() {
  local name=$1 binary=$2
  shift 2
  mkdir "$work/$name"
  chmod 755 "$work/$name"
  (
    begin=$SECONDS code=0
    "$binary" dev --addr 127.0.0.1:0 --data "$work/$name" --ready-file "$work/$name.json" "$@" >"$work/$name.log" 2>&1 &
    echo $! >"$work/$name.pid"
    wait $! || code=$?
    if [[ $code -ne 0 ]]; then tail -n 60 "$work/$name.log"; fi
    processors
    costs "development server, $name" "$spent"
    told "development server, $name" $((code == 0)) $((code != 0)) $((SECONDS - begin)) "$spent"
  ) &
  servers+=($!)
  names+=("$name")
}
servers=() names=()

# ready waits until every server has written its ready file, and fails when one has ended.
ready() {
  local name
  for name in "${names[@]}"; do
    until [[ -s $work/$name.json ]]; do
      if [[ -s $work/$name.pid ]] && ! kill -0 "$(<"$work/$name.pid")" 2>/dev/null; then return 1; fi
      sleep 0.1
    done
  done
}

stop_servers() {
  local name
  for name in "${names[@]}"; do
    if [[ -s $work/$name.pid ]]; then kill "$(<"$work/$name.pid")" 2>/dev/null; fi
  done
  if ((${#servers[@]})); then wait "${servers[@]}"; fi
  servers=() names=()
}

# node_tests FILE… runs files of clients/typescript/test, one after the other.
node_tests() {
  (cd clients/typescript &&
    node --import ./test/support/costs.mjs --test --test-force-exit --test-concurrency=1 --test-reporter=spec \
      "${@/#/test/}")
}

# breaking has the server that it breaks to itself.
breaking() {
  export ROAMCARD_READY=$work/breaking.json
  step "TypeScript, what slows or stops a sale" node_tests waiting.mjs
  QUICK=1 step "conformance" tools/conformance.sh
}

typescript() {
  export ROAMCARD_READY=$work/shared.json ROAMCARD_READY_LITHIC=$work/lithic.json
  step "TypeScript" node_tests quick.mjs embed.test.mjs testing.test.mjs property.test.mjs
  step "TypeScript, killed servers" node_tests crash.test.mjs
  # With the environment that Python's step has made by then.
  step "examples" tools/examples.sh
}

python() {
  export ROAMCARD_READY=$work/shared.json ROAMCARD_READY_LITHIC=$work/lithic.json
  step "Python, checks" tools/test-python.sh checks
  step "Python" tools/test-python.sh tests
}

if ! step "conformance, build" go build -tags conformance -o bin/roamcard-conformance ./cmd/roamcard; then
  echo "0 passed, 1 failed"
  exit 1
fi
# Limits are per address, and everybody here has the same.
serve shared "$root/bin/roamcard" --limits off
serve lithic "$root/bin/roamcard" --limits off --issuer lithic
serve breaking "$root/bin/roamcard-conformance"
browsing=
if [[ -d tools/conformance/node_modules/@sparticuz/chromium ]]; then
  step "browser, unpacked" unpack_browser &
  browsing=$!
fi
# Python's tests run it, too.
step "TypeScript, build" npm run --silent build --prefix clients/typescript
# Before the tests, which write modules of their own next to what is packed.
step "TypeScript, package" npm run --silent package --prefix clients/typescript
if [[ -n $browsing ]]; then wait "$browsing" && use_browser; fi
if ready; then
  breaking &
  lanes=($!)
  python &
  lanes+=($!)
  typescript
  wait "${lanes[@]}"
fi
stop_servers
read -r passed failed <<<"$(awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }' "$work/counts")"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
