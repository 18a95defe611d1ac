#!/usr/bin/env bash
# Makes everything that is generated: gen/, the clients' messages, and ent.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=tools/node_modules/.bin/buf

tools/sync-protos.sh
go build -C tools -o ../bin/protoc-gen-openapi ./protoc-gen-openapi
"$buf" lint
"$buf" format proto --diff --exit-code
"$buf" generate
npm run --silent --prefix clients/typescript gen
go generate ./ent
