#!/usr/bin/env bash
# Runs one recipe of docs/agents with a scripted model: recipes.sh FRAMEWORK, against the development server of
# ROAMCARD_READY. ROAMCARD_BIN is the program. The framework's packages are kept in ROAMCARD_CACHE.
# Exit code 77: its packages do not install here.
set -euo pipefail
cd "$(dirname "$0")/../.."
framework=$1
here=$PWD/tools/conformance/recipes
cache=${ROAMCARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roamcard}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the recipes were written for. wallet is one of the ready file's that no other check uses.
mode=human_approval
case $framework in
  langchain) page=langchain wallet=5 packages=(langchain==1.4.7 langchain-mcp-adapters==0.3.2) ;;
  openai_agents) page=openai-agents wallet=6 packages=(openai-agents==0.24.0) mode=autonomous ;;
  adk) page=adk wallet=7 packages=('google-adk[mcp]==2.13.0') ;;
  crewai) page=crewai wallet=8 packages=(crewai==1.15.30 'crewai-tools[mcp]==1.15.30') mode=autonomous ;;
  vercel) page=vercel-ai-sdk wallet=9 packages=() ;;
  *) echo "no such recipe: $framework"; exit 2 ;;
esac

# packages makes a virtual environment once.
packages() {
  local venv=$cache/$framework
  if [[ ! -f $venv/.ready || $(<"$venv/.ready") != "${packages[*]}" ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    if ! "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >"$work/pip" 2>&1; then
      tail -n 5 "$work/pip"
      return 77
    fi
    echo "${packages[*]}" >"$venv/.ready"
  fi
}
if [[ ${#packages[@]} -gt 0 ]]; then
  mkdir -p "$cache"
  packages
fi

# A home of its own: the server that a framework starts sees HOME and PATH, and nothing else.
export HOME=$work/home PATH=$work/bin:$PATH
unset XDG_CONFIG_HOME XDG_STATE_HOME ROAMCARD_AGENT_CONFIG
mkdir -p "$HOME" "$work/bin"
ln -s "$ROAMCARD_BIN" "$work/bin/roamcard"
(umask 077 && echo "a passphrase for $framework" >"$HOME/passphrase")
node -p "JSON.parse(require('fs').readFileSync('$ROAMCARD_READY')).wallets[$wallet].privateKey" |
  roamcard wallet import --json --keystore --keystore-file "$HOME/keystore.json" --passphrase-file "$HOME/passphrase" \
    >"$work/kept.json"
signer=$(node -p "JSON.stringify(JSON.parse(require('fs').readFileSync('$work/kept.json')).signer)")
roamcard mcp install --client cursor --yes --ready-file "$ROAMCARD_READY" --signer "$signer" --mode "$mode" \
  --max 25.00 --max-day 25.00

balance() {
  roamcard wallet balance --ready-file "$ROAMCARD_READY" --wallet "$wallet" --json |
    node -p 'JSON.parse(require("fs").readFileSync(0)).usdc'
}
# The scripted model needs no network, and a proxy that is not there keeps the frameworks off it.
buy() {
  local -x HTTPS_PROXY=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9 NO_PROXY=127.0.0.1
  if [[ $framework == vercel ]]; then
    node "$here/run.mjs" "docs/agents/$page.md" "$1"
  else
    env CREWAI_DISABLE_TELEMETRY=true CREWAI_TRACING_ENABLED=false OTEL_SDK_DISABLED=true \
      PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1 \
      "$cache/$framework/bin/python" "$here/run.py" "$framework" "docs/agents/$page.md" "$1"
  fi
}

key=recipe-$framework-$$
before=$(balance)
first=$(buy "$key" | tail -n 1)
echo "$first"
paid=$(balance)
again=$(buy "$key" | tail -n 1)
after=$(balance)
node -e '
  const [first, again, before, paid, after] = process.argv.slice(1);
  const [a, b] = [JSON.parse(first), JSON.parse(again)];
  const units = (text) => BigInt(text.replace(".", ""));
  const left = units(before) - units(paid), price = BigInt(a.amountUsdCents) * 10_000n;
  if (left !== price) throw new Error(`the wallet paid ${left} for an order of ${price}`);
  if (a.orderId !== b.orderId || paid !== after) throw new Error(`a repeat paid again: ${again}, ${paid} and ${after}`);
  console.log(`${a.orderId}: paid once, ${before} USDC before and ${after} after`);
' "$first" "$again" "$before" "$paid" "$after"
