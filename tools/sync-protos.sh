#!/usr/bin/env bash
# Refreshes third_party/ from checksum-verified Go modules: the only protos here that are not our own.
set -euo pipefail
cd "$(dirname "$0")/.."
dir() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p'; }
validate=$(dir github.com/bufbuild/protovalidate@v1.2.2)
common=$(dir github.com/googleapis/api-common-protos@v0.1.0)
install -D -m 644 "$validate/proto/protovalidate/buf/validate/validate.proto" \
  third_party/protovalidate/buf/validate/validate.proto
install -D -m 644 "$validate/LICENSE" third_party/protovalidate/LICENSE
for f in annotations http; do
  install -D -m 644 "$common/google/api/$f.proto" "third_party/googleapis/google/api/$f.proto"
done
install -D -m 644 "$common/LICENSE" third_party/googleapis/LICENSE
