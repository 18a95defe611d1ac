#!/usr/bin/env bash
# Fuzzes every target for FUZZTIME (60s) each.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE '^func Fuzz' --include='*_test.go' internal | while read -r file; do
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/^func //' | while read -r target; do
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" "./$(dirname "$file")"
  done
done
