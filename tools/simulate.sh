#!/usr/bin/env bash
# Runs worlds in virtual time, one seed after the other, and shows how it came about when something is broken: whole
# programs over PostgreSQL, and at the same time, on another processor, the domain in memory.
#
#   tools/simulate.sh 60   for how many seconds; a world that has begun is finished
#   IN=postgres            whole programs alone; IN=memory the domain alone; IN=crowds whole programs with hundreds of
#                          buyers each; IN="memory memory" two at a time
#   SEED=…                 the first seed; otherwise one is drawn. With SEEDS=1 this world alone
#   ABOUT=nodes            what worlds over PostgreSQL are about, of those of themes_test.go, or everything
#   TRACE=1                every call of it, LOG=1 what the processes log
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
flags=(-test.count=1 -test.v -test.timeout 0)
if [[ -n ${SEEDS:-} ]]; then flags+=(-seeds "$SEEDS"); else flags+=(-seconds "$seconds"); fi
if [[ -n ${ABOUT:-} ]]; then flags+=(-about "$ABOUT"); fi
if [[ -n ${TRACE:-} ]]; then flags+=(-trace); fi
if [[ -n ${LOG:-} ]]; then flags+=(-log); fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Without C, whose calls the runtime may leave for others at any time: a world would not be repeated exactly.
export CGO_ENABLED=0
go test -c -vet=off -ldflags='-s -w' -o "$out/sim.test" ./internal/testing/simulation || exit 1
cd internal/testing/simulation || exit 1
# Each world has a processor of its own, with its PostgreSQL: they take turns, and to wake another processor for each of
# them takes longer than most of what it does then.
processors=()
if command -v taskset >/dev/null; then
  allowed=$(taskset -pc $$)
  for range in $(tr , ' ' <<<"${allowed##*: }"); do processors+=($(seq "${range%-*}" "${range#*-}")); done
fi
pids=()
for where in ${IN:-postgres memory}; do
  suite=TestSeeds of=()
  if [[ $where == memory ]]; then suite=TestSeedsInMemory; fi
  if [[ $where == crowds ]]; then of=(-about crowds); fi
  # The second one begins where the first one never comes.
  seed=${SEED:-0}
  if ((seed > 0)); then seed=$((seed + ${#pids[@]} * 1000000)); fi
  on=()
  if ((${#processors[@]} > 0)); then on=(taskset -c "${processors[${#pids[@]} % ${#processors[@]}]}"); fi
  "${on[@]}" "$out/sim.test" -test.run "$suite\$" "${flags[@]}" -seed "$seed" "${of[@]}" \
    > >(sed -u "s/^/$where: /") 2>&1 &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=1; done
exit $code
