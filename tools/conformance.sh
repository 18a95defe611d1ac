#!/usr/bin/env bash
# Runs programs that are not ours against a development server on free ports, and ends with one line: N passed, N
# failed. Each tool is one function below and one line at the end.
#
#   PARTS=facilitators  runs one part alone: facilitators that others wrote, next to the relayer
#   PARTS=pages         runs what people use in a browser alone
#   FACILITATORS="…"    some of relayer, npm, unverified, python, rust and insisting; the Rust one is compiled once, for
#               minutes
#   RECIPES=…   which programs of docs/agents; all, whose Python packages are large, unless it says fewer
#   QUICK=1     runs the suite and the clients of MCP, the linters of the OpenAPI document, and the page that pays a
#               link
#   ROAMCARD_READY=…  the ready file of a server that runs already, of bin/roamcard-conformance; nobody else may use it
#               at the same time, because its sales are paused
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/browser.sh
here=tools/conformance
passed=0 failed=0
work=$(mktemp -d)
# PostgreSQL may run as another user, who has to get in.
chmod 755 "$work"
server=
binary=$PWD/bin/roamcard-conformance

finish() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  fi
  rm -rf "$work"
}
trap finish EXIT

# processors is how many hundredths of a second this shell's ended children have had of the processors, with theirs.
processors() {
  local stat
  read -r -a stat <"/proc/$BASHPID/stat"
  spent=$((stat[15] + stat[16]))
}

# costs NAME HUNDREDTHS adds a line to the file that ROAMCARD_COSTS names.
costs() {
  if [[ -z ${ROAMCARD_COSTS:-} ]]; then return; fi
  printf '{"suite":"conformance","test":"%s","seconds":%d.%02d}\n' "$1" $(($2 / 100)) $(($2 % 100)) >>"$ROAMCARD_COSTS"
}

# step NAME COMMAND… runs one check that counts as one.
step() {
  local name=$1 begin=$SECONDS before verdict=ok
  shift
  echo "--- $name"
  processors
  before=$spent
  "$@" || verdict=FAILED
  processors
  costs "$name" $((spent - before))
  if [[ $verdict == ok ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  echo "--- $name: $verdict ($((SECONDS - begin)) s)"
}

# tests NAME FILE runs a file of node:test and counts each of its tests.
tests() {
  local name=$1 code=0 begin=$SECONDS p f
  echo "--- $name"
  ROAMCARD_SUITE=conformance node --import "./clients/typescript/test/support/costs.mjs" --test --test-force-exit \
    --test-reporter=spec "$here/$2" >"$work/tests" 2>&1 || code=$?
  cat "$work/tests"
  p=$(sed -n 's/^ℹ pass //p' "$work/tests") f=$(sed -n 's/^ℹ fail //p' "$work/tests")
  # A file that breaks fails no test by itself.
  if [[ $code -ne 0 && ${f:-0} -eq 0 ]]; then f=1; fi
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
  echo "--- $name: ${p:-0} passed, ${f:-0} failed ($((SECONDS - begin)) s)"
}

# operators runs the tests of the console against a server of their own, whose supplier can lose an order for good, and
# is not waited for long when it says nothing.
operators() {
  local ready=$work/operators.json log=$work/operators.log own second
  # As tools/conformance/operating.mjs has it.
  second=ben:$(printf %s the-second-operators-token | sha256sum | cut -d ' ' -f 1):treasurer
  "$binary" dev --addr 127.0.0.1:0 --supplier esim-access --supplier-visibility-delay 2s \
    --data "$work/operators" \
    --set supplier.deadline=15s --second-approver-above 600 --set "operators=$second" \
    --ready-file "$ready" >"$log" 2>&1 &
  own=$!
  ready "$ready" "$own" || tail -n 40 "$log"
  ROAMCARD_READY=$ready ROAMCARD_LOG=$log tests "browser, the operators' console" console.test.mjs
  ROAMCARD_READY=$ready tests "browser, what waits for operators" console-work.test.mjs
  kill "$own" 2>/dev/null
  wait "$own" 2>/dev/null
}

# ready FILE PID waits until a server has written its ready file, or has ended.
ready() {
  until [[ -s $1 ]]; do
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.2
  done
}

# build makes the program with the two tools that the conformance suite calls by name.
build() { go build -tags conformance -o "$binary" ./cmd/roamcard; }

# start brings a development server up.
start() {
  build || return 1
  if [[ -z ${ROAMCARD_READY:-} ]]; then
    "$binary" dev --addr 127.0.0.1:0 --data "$work/data" --ready-file "$work/ready.json" >"$work/log" 2>&1 &
    server=$!
    if ! ready "$work/ready.json" "$server"; then
      tail -n 40 "$work/log"
      return 1
    fi
    ROAMCARD_READY=$work/ready.json
  fi
  # ROAMCARD_URL and ROAMCARD_READY are what the checks go by.
  ROAMCARD_URL=$(node -p "JSON.parse(require('fs').readFileSync('$ROAMCARD_READY')).baseUrl")
  export ROAMCARD_READY ROAMCARD_URL
  curl -fsS "$ROAMCARD_URL/openapi.json" -o "$work/openapi.json"
}

# suite runs the MCP conformance suite, which speaks HTTP only and needs Node 22 or newer.
suite() {
  local run=(node)
  if [[ $(node -p 'process.versions.node.split(".")[0]') -lt 22 ]]; then run=(npx --yes --package node@22 -- node); fi
  "${run[@]}" "$here/node_modules/@modelcontextprotocol/conformance/dist/index.js" server \
    --url "$ROAMCARD_URL/mcp" -o "$work/suite" "$@"
}

mcp_scenarios() { suite --spec-version 2025-06-18 --expected-failures "$here/mcp-baseline.yml"; }
mcp_rebinding() { suite --scenario dns-rebinding-protection; }

# in_python FILE runs a program with official Python packages, in an environment of their own.
in_python() {
  local venv=$here/.venv
  if ! cmp -s "$here/requirements.txt" "$venv/.ready"; then
    python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check \
      --requirement "$here/requirements.txt" || return 1
    cp "$here/requirements.txt" "$venv/.ready"
  fi
  "$venv/bin/python" "$here/$1"
}

openapi_spectral() {
  "$here/node_modules/.bin/spectral" lint "$work/openapi.json" --ruleset "$here/spectral.yaml" --fail-severity=warn
}

openapi_redocly() {
  # The problems are in the output as JSON; a warning fails too.
  REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
    "$here/node_modules/.bin/redocly" lint "$work/openapi.json" \
    --config "$here/redocly.yaml" --format=json >"$work/redocly.json" 2>"$work/redocly.err"
  node -e '
    const { totals, problems } = JSON.parse(require("fs").readFileSync(process.argv[1]));
    for (const p of problems) console.log(p.severity, p.ruleId, p.message, p.location?.[0]?.pointer ?? "");
    console.log(`${totals.errors} errors, ${totals.warnings} warnings`);
    process.exit(totals.errors + totals.warnings > 0 ? 1 : 0);
  ' "$work/redocly.json" || { tail -n 5 "$work/redocly.err"; return 1; }
}

# openapi_go makes a client of the served document by a generator that is strict about it, and buys an eSIM with it.
openapi_go() {
  local at=$work/oapi-codegen
  cp -r "$here/oapi-codegen" "$at" && mkdir "$at/client" || return 1
  go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 \
    -generate types,client -package client -o "$at/client/client.go" "$work/openapi.json" || return 1
  go mod edit $(go list -m -f '-replace={{.Path}}={{.Dir}}') "$at/go.mod" && go run -C "$at" . "$ROAMCARD_READY"
}

# newest LANGUAGE buys with what x402 has published by today for a language, in a folder of its own. Of the package for
# Go, whose releases have no tag that go get takes, it is the commit of a release.
newest() {
  local at=$work/newest-$1
  mkdir -p "$at"
  case $1 in
    TypeScript)
      npm install --prefix "$at" --ignore-scripts --no-audit --no-fund --silent \
        @x402/core@latest @x402/evm@latest @x402/fetch@latest viem@2 || return 1
      (cd "$at" && npm ls --depth 0 && node "$OLDPWD/$here/newest/buy.mjs" "$ROAMCARD_READY")
      ;;
    Python)
      python3 -m venv "$at" && "$at/bin/pip" install --quiet --disable-pip-version-check "x402[httpx,evm]" || return 1
      "$at/bin/pip" list --disable-pip-version-check | grep '^x402 '
      "$at/bin/python" "$here/newest/buy.py" "$ROAMCARD_READY"
      ;;
    Go) GOWORK=off go run -C "$here/newest/go" . "$ROAMCARD_READY" ;;
  esac
}

# facilitators lets those that others wrote settle, each for a server and on a chain of its own.
facilitators() { ROAMCARD_BIN=$binary tests "facilitators" facilitators.test.mjs; }

# recipe FRAMEWORK runs a program of docs/agents with a scripted model; one whose packages do not install is left out.
recipe() {
  local code=0
  echo "--- recipe $1"
  ROAMCARD_BIN=$binary "$here/recipes.sh" "$1" || code=$?
  case $code in
    0) passed=$((passed + 1)); echo "--- recipe $1: ok" ;;
    77) echo "--- recipe $1: left out, its packages do not install here" ;;
    *) failed=$((failed + 1)); echo "--- recipe $1: FAILED" ;;
  esac
}

# bundle builds the MCP bundle and server.json, which their own tools check, and settings for the server in it.
bundle() {
  OUT=$work/bundle ROAMCARD_BIN=$binary tools/mcpb.sh &&
    "$binary" mcp install --client cursor --yes --file "$work/cursor.json" --config "$work/agent.json" \
      --ready-file "$ROAMCARD_READY"
}

# alerts tests the Prometheus rules: each is quiet, fires and clears.
alerts() {
  GOWORK=off go build -C tools/promtool -o ../../bin/ github.com/prometheus/prometheus/cmd/promtool &&
    bin/promtool check rules docs/operations/alerts.yml && bin/promtool test rules docs/operations/alerts_test.yml
}

# packaging checks what is in packaging/, and counts each check.
packaging() {
  local p f
  tools/packaging.sh | tee "$work/packaging"
  read -r p f <<<"$(sed -n '$s/ passed, / /; $s/ failed//p' "$work/packaging")"
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
}

# has_browser succeeds where the browser of its npm package runs.
has_browser() { [[ $(uname -sm) == "Linux x86_64" ]]; }

# browsers runs tests in a browser: NAME FILE, and so on.
browsers() {
  if ! has_browser; then
    echo "--- browser: left out, its npm package is for Linux on x86_64"
    return
  fi
  while (($#)); do
    tests "browser, $1" "$2"
    shift 2
  done
}

# slow is what QUICK leaves out.
slow() {
  step "Prometheus rules" alerts
  packaging
  step "official MCP client of Python, buying" in_python agent_server.py
  step "oapi-codegen" openapi_go
  for language in TypeScript Python Go; do step "x402's newest package, $language" newest "$language"; done
  step "schemathesis" tools/schemathesis.sh
  tests "clients of agents" agents.test.mjs
  tests "crawlers of x402" discovery.test.mjs
  tests "extensions of x402" extensions.test.mjs
  tests "signed offers and receipts" receipts.test.mjs
  tests "signing in by x402" siwx.test.mjs
  step "signing in by x402's Python package" in_python siwx.py
  tests "smart accounts" smartaccount.test.mjs
  tests "smart accounts, Safe" safe.test.mjs
  tests "accounts that have delegated" delegated.test.mjs
  tests "operators of an issuer" operators.test.mjs
  facilitators
  for framework in ${RECIPES-langchain openai_agents adk crewai vercel}; do recipe "$framework"; done
  step "MCP bundle" bundle
  ROAMCARD_BUNDLE=$work/bundle ROAMCARD_SETTINGS=$work/agent.json tests "MCP bundle's contents" bundle.test.mjs
  browsers "the documents" docs.test.mjs "Lighthouse" lighthouse.test.mjs
  pages
}

# pages are what people use in a browser, but for the one that pays a link.
pages() {
  browsers "cards on pages" reveal.test.mjs "the shop" shop.test.mjs \
    "the shop when things go wrong" shop-faults.test.mjs
  if has_browser; then operators; fi
}

# ends says how it went.
ends() {
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
}

case ${PARTS:-} in
  "" | pages) ;;
  facilitators)
    if build; then facilitators; else failed=1; fi
    ends
    ;;
  *)
    echo "PARTS=facilitators runs only facilitators that others wrote, PARTS=pages only a browser."
    exit 2
    ;;
esac
if ! start; then
  failed=$((failed + 1))
  ends
fi
export ROAMCARD_BIN=$binary
# A person at a browser is one of the TypeScript client's tests.
if has_browser; then unpack_browser && use_browser; fi
if [[ ! -f clients/typescript/dist/testing/index.js ]]; then
  npm run --silent build --prefix clients/typescript
fi
if [[ ${PARTS:-} == pages ]]; then
  browsers "paying a link" pay.test.mjs
  pages
  ends
fi
step "MCP conformance suite, 2025-06-18" mcp_scenarios
step "MCP conformance suite, DNS rebinding" mcp_rebinding
tests "official MCP clients" mcp-clients.test.mjs
tests "official MCP clients, buying" agent-server.test.mjs
step "Spectral" openapi_spectral
step "Redocly" openapi_redocly
browsers "paying a link" pay.test.mjs
if [[ -z ${QUICK:-} ]]; then slow; fi
ends
