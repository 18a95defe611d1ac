#!/usr/bin/env bash
# Makes everything that is generated: gen/, the pages of docs/api, the clients' messages, Python's blocking client, ent
# and the contracts' code.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=tools/node_modules/.bin/buf

tools/sync-protos.sh
GOWORK=off go build -C tools -o ../bin/ ./protoc-gen-openapi ./protoc-gen-json ./protoc-gen-admin
"$buf" lint
"$buf" format proto --diff --exit-code
# Not by buf's `clean`, which would take the module's own files with it.
rm -rf gen/go/roamcard gen/openapi
"$buf" generate
node tools/api-pages.mjs gen/openapi/openapi.json internal/transport/discovery/testdata/api_agent docs/api
clients/python/setup.sh
PATH="$PWD/clients/python/.venv/bin:$PATH" npm run --silent --prefix clients/typescript gen
clients/python/.venv/bin/python clients/python/tools/models.py
clients/python/.venv/bin/ruff format --quiet --config clients/python/pyproject.toml \
  clients/python/src/roamcard/_async/admin.py
clients/python/.venv/bin/python clients/python/tools/sync.py
go generate ./ent
node clients/testing/publish.mjs
node tools/contracts.mjs
# What the pages are built with, where nobody has asked make for it.
[[ -f web/node_modules/.ready ]] || make --no-print-directory web/node_modules/.ready
npm run --silent --prefix web build
