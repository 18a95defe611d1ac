#!/usr/bin/env bash
# Fuzzes the API of a running development server by its OpenAPI document, in all phases: without credentials, as the
# owner of a card, as a wallet that may see activity, and as an operator. Ends with one line: N passed, N failed.
#
#   EXAMPLES=200   how many examples each operation gets; the default makes more than 10,000 cases
#   CASES=10000    how many cases there must be at least
#   ROAMCARD_BIN=… the program; bin/roamcard
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "${ROAMCARD_BIN:-bin/roamcard}")
examples=${EXAMPLES:-200}
venv=tools/.venv
version=4.32.5
if [[ ! -x $venv/bin/st || $("$venv/bin/st" --version) != *"$version"* ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi

dir=$(mktemp -d)
# PostgreSQL refuses to run as root and then runs as another user, who has to get in.
chmod 755 "$dir"
"$bin" dev --addr 127.0.0.1:0 --limits off --data "$dir/data" --ready-file "$dir/ready.json" >"$dir/dev.log" 2>&1 &
server=$!
stop() {
  kill -INT "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
for ((tries = 0; tries < 600; tries++)); do
  [[ -e $dir/ready.json ]] && break
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$dir/dev.log"
    exit 1
  fi
  sleep 0.1
done
of() { node -p "JSON.parse(require('fs').readFileSync('$dir/ready.json'))$1"; }
url=$(of .baseUrl)

cases=0 failed=0
# One worker: with more, the tool's own caches race each other.
# run NAME FLAGS… is one pass; its figures are in the report.
run() {
  local name=$1 code=0
  shift
  echo "--- $name"
  "$venv/bin/st" --config-file tools/schemathesis.toml run "$url/api/openapi.json" \
    --phases examples,coverage,fuzzing,stateful --max-examples "$examples" \
    --workers 1 --seed 1 --generation-deterministic \
    --continue-on-failure --warnings off --no-color --report-dir "$dir/report" "$@" >"$dir/st.log" 2>&1 || code=$?
  local n
  n=$(sed -nE 's/^  ([0-9]+) generated.*/\1/p' "$dir/st.log" | tail -n 1)
  cases=$((cases + ${n:-0}))
  if [[ $code -ne 0 ]]; then
    failed=$((failed + 1))
    sed -n '/FAILURES\|ERRORS/,$p' "$dir/st.log"
  fi
  sed -n '/^API Operations:/,/^$/p;/^Test cases:/,$p' "$dir/st.log"
}

owner=$(node tools/session.mjs "$dir/ready.json" owner)
analyst=$(node tools/session.mjs "$dir/ready.json" analyst)
run "anyone"
run "the owner of a card" -H "Authorization: Bearer $owner" --exclude-path /api/auth/logout \
  --exclude-path-regex '^/api/admin/'
run "a wallet that may see activity" -H "Authorization: Bearer $analyst" --include-path-regex '^/api/admin/activity'
run "an operator" -H "Authorization: Bearer $(of .operatorToken)" \
  --include-path-regex '^/api/admin/(auth-challenges|card-issue-fee)'
# Last, for it ends the session.
run "who logs out" -H "Authorization: Bearer $owner" --include-path /api/auth/logout
# What the server calls its own failure is one, whatever a check thought of the answer.
if grep -q 'level=ERROR' "$dir/dev.log"; then
  failed=$((failed + 1))
  grep 'level=ERROR' "$dir/dev.log" | head -n 20
fi
if [[ $cases -lt ${CASES:-10000} ]]; then
  echo "only $cases cases were made"
  failed=$((failed + 1))
fi
echo "$cases cases: $((7 - failed)) passed, $failed failed"
[[ $failed -eq 0 ]]
