#!/usr/bin/env bash
# Fetches a version of the API reference from npm: update.sh 1.72.1
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "@scalar/api-reference@$1"
tar -xzf "$folder"/*.tgz -C "$folder" package/dist/browser/standalone.js
gzip -9nc "$folder/package/dist/browser/standalone.js" >scalar.js.gz
sed -i "s|\(api-reference\` \)[0-9.]*|\1$1|" README.md
