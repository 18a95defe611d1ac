#!/usr/bin/env bash
# Runs a facilitator that others wrote: run.sh NAME, with FACILITATOR_PORT, _KEY, _CHAIN and _RPC. Without
# FACILITATOR_PORT it only prepares. What is installed and compiled is kept in ROAMCARD_CACHE.
# Exit code 77: it cannot be made here; the last line says why.
set -euo pipefail
cd "$(dirname "$0")"
name=$1
cache=${ROAMCARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roamcard}/facilitators
mkdir -p "$cache"

# left REASON… leaves this facilitator out.
left() {
  echo "$*"
  exit 77
}

# python installs the package once.
python() {
  local venv=$cache/python packages=("x402[evm,fastapi]==2.25.0" uvicorn==0.54.0)
  command -v python3 >/dev/null || left "there is no python3"
  if [[ ! -f $venv/.ready || $(<"$venv/.ready") != "${packages[*]}" ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" ||
      left "its packages do not install"
    echo "${packages[*]}" >"$venv/.ready"
  fi
  run=("$venv/bin/python" python.py)
}

# rust compiles the crates once.
rust() {
  command -v cargo >/dev/null || left "there is no cargo"
  CARGO_TARGET_DIR=$cache/rust cargo build --quiet --locked --manifest-path rust/Cargo.toml ||
    left "its crates do not compile"
  run=("$cache/rust/debug/facilitator")
}

case $name in
  npm | unverified) run=(node npm.mjs) ;;
  insisting) run=(env FACILITATOR_INSISTS=1 node npm.mjs) ;;
  python | rust) "$name" ;;
  *) echo "no such facilitator: $name"; exit 2 ;;
esac
if [[ -n ${FACILITATOR_PORT:-} ]]; then exec "${run[@]}"; fi
