#!/usr/bin/env bash
# Checks and tests the Python client: lint, types, the package it becomes, and every test against one development
# server, which ROAMCARD_READY names when it runs already.
#
#   tools/test-python.sh          all of it
#   tools/test-python.sh checks   what needs no server
#   tools/test-python.sh tests    the tests
set -euo pipefail
cd "$(dirname "$0")/../clients/python"

checks() {
  .venv/bin/ruff check --quiet src examples tests tools
  .venv/bin/ruff format --quiet --check src examples tests tools
  .venv/bin/mypy
  wheel=$(mktemp -d)
  trap 'rm -rf "$wheel"' EXIT
  .venv/bin/hatchling build --target wheel --directory "$wheel" >/dev/null
  .venv/bin/python -m zipfile -l "$wheel"/roamcard-*.whl | grep roamcard/_gen/roamcard/v1/card_pb.py >/dev/null
}

tests() {
  # Most of a test is waiting for the server: two at a time share it.
  .venv/bin/pytest -q -n 2 --dist worksteal
}

./setup.sh
for part in ${1:-checks tests}; do "$part"; done
