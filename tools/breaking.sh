#!/usr/bin/env bash
# Compares the API with that of the last release, or of AGAINST, a git ref: what a client of that one sends and reads
# must still work (WIRE_JSON in buf.yaml). Before the first release there is nothing to compare with, unless AGAINST is
# given.
set -euo pipefail
cd "$(dirname "$0")/.."
against=${AGAINST:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
if [[ -z $against ]]; then
  echo "no release yet: AGAINST=REF make breaking compares with any commit"
  exit 0
fi
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git archive "$against" buf.yaml proto third_party | tar -x -C "$before"
tools/node_modules/.bin/buf breaking --against "$before"
echo "the API breaks nothing of $against"
