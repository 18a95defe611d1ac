#!/usr/bin/env bash
# Runs whole deployments in virtual time, one seed after the other, and shows how it came about when something is
# broken.
#
#   tools/simulate.sh 60   for how many seconds; a world that has begun is finished
#   SEED=…                 the first seed; otherwise one is drawn. With SEEDS=1 this world alone
#   TRACE=1                every call of it, LOG=1 what the processes log
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
flags=(-seed "${SEED:-0}")
if [[ -n ${SEEDS:-} ]]; then flags+=(-seeds "$SEEDS"); else flags+=(-seconds "$seconds"); fi
if [[ -n ${TRACE:-} ]]; then flags+=(-trace); fi
if [[ -n ${LOG:-} ]]; then flags+=(-log); fi
go test -count=1 -v -timeout 0 -run 'TestSeeds$' ./internal/testing/simulation "${flags[@]}"
