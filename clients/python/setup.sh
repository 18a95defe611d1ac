#!/usr/bin/env bash
# Makes .venv with what the package, its tests and its generators need: requirements-dev.txt pins all of it, so nothing
# has to be resolved, and what is imported is compiled then.
set -euo pipefail
cd "$(dirname "$0")"
if ! cmp -s requirements-dev.txt .venv/.ready; then
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --requirement requirements-dev.txt
  .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --no-build-isolation \
    --editable .
  cp requirements-dev.txt .venv/.ready
fi
