#!/usr/bin/env bash
# Runs the kit of signers over a KMS that others have written, local-kms, which a Go module brings. Ends with the result
# of the test.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v0.0.0-20260228092603-2a5e92d09ab6
dir=$(mktemp -d)
server=
stop() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
[[ -n ${LOCAL_KMS:-} ]] || GOWORK=off GOBIN="$dir" go install "github.com/nsmithuk/local-kms@$version"
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => {
  console.log(s.address().port); s.close() })')
KMS_ACCOUNT_ID=111122223333 KMS_REGION=eu-central-1 KMS_DATA_PATH="$dir" KMS_SEED_PATH="$dir/none" PORT=$port \
  "${LOCAL_KMS:-$dir/local-kms}" >"$dir/log" 2>&1 &
server=$!
for _ in $(seq 100); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
  kill -0 "$server" 2>/dev/null || { cat "$dir/log"; exit 1; }
  sleep 0.1
done
ROAMCARD_KMS_URL="http://127.0.0.1:$port" go test -count=1 ./internal/signer/awskms \
  -run KMSOfOthers -v | grep -v '^=== '
