#!/usr/bin/env bash
# Makes what a release has besides its archives, in bin/release/files: the chart, the packages of the Python and the
# TypeScript client, the MCP bundle with the registry's entry, and the script that installs a release.
#
#   tools/release-files.sh vX.Y.Z    KEY=… is minisign's public key, which the script checks with
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
files=$PWD/bin/release/files
rm -rf "$files"
mkdir -p "$files"
GOWORK=off go build -C tools/helm -o ../../bin/ helm.sh/helm/v3/cmd/helm
bin/helm package packaging/helm/roamcard --version "${version#v}" --app-version "${version#v}" --destination "$files"
clients/python/setup.sh
(cd clients/python && .venv/bin/hatchling build --directory "$files")
npm run --silent build --prefix clients/typescript
(cd clients/typescript && npm pack --silent --pack-destination "$files")
VERSION=$version OUT=$files TARGETS=${MCPB_TARGETS:-} tools/mcpb.sh
rm -f "$files/server.schema.json"
sed "s|@VERSION@|$version|; s|@KEY@|${KEY:-@KEY@}|" packaging/install.sh >"$files/install.sh"
ls -l "$files"
