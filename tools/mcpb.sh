#!/usr/bin/env bash
# Builds the MCP bundle of the paying server for each of TARGETS (os/arch; default: this machine), and the registry's
# server.json that names them, in bin. Both are checked: the bundle by its own tool, server.json by the registry's
# schema, which a Python package has; it is kept in ROAMCARD_CACHE. ROAMCARD_BIN is a program that was built already,
# for this machine; OUT another folder than bin.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-bin}
version=${VERSION:-$(git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo dev)}
# Both formats want a semantic version; what has no tag is before the first.
release=${version#v}
[[ $release =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || release=0.0.0-$version
targets=${TARGETS:-$(go env GOOS)/$(go env GOARCH)}
mcpb=$PWD/tools/conformance/node_modules/.bin/mcpb
cache=${ROAMCARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roamcard}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# bundle OS ARCH
bundle() {
  local os=$1 arch=$2 suffix='' dir=$work/$1-$2
  if [[ $os == windows ]]; then suffix=.exe; fi
  mkdir -p "$dir/server"
  if [[ -n ${ROAMCARD_BIN:-} && $os/$arch == $(go env GOOS)/$(go env GOARCH) ]]; then
    cp "$ROAMCARD_BIN" "$dir/server/roamcard$suffix"
  else
    GOFLAGS= CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath \
      -ldflags "-s -w -X github.com/roamcard/roamcard/internal/app.Version=$version" \
      -o "$dir/server/roamcard$suffix" ./cmd/roamcard
  fi
  node tools/conformance/bundle.mjs manifest "$release" "$os" "$suffix" >"$dir/manifest.json"
  "$mcpb" validate "$dir/manifest.json"
  "$mcpb" pack "$dir" "$out/roamcard-$os-$arch.mcpb" >"$work/packed" || { cat "$work/packed"; return 1; }
  "$mcpb" info "$out/roamcard-$os-$arch.mcpb"
}

files=()
for target in $targets; do
  bundle "${target%/*}" "${target#*/}"
  files+=("$out/roamcard-${target/\//-}.mcpb")
done

# The registry publishes its schema on its own host; this package has it as it was released.
schemas=$cache/skillsaw-0.22.0
if [[ ! -f $schemas/.ready ]]; then
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$schemas" skillsaw==0.22.0
  touch "$schemas/.ready"
fi
node tools/conformance/bundle.mjs server "$release" "$version" "${files[@]}" >"$out/server.json"
cp "$schemas/skillsaw/schemas/mcp_registry/v2025_12_11/server.schema.json" "$out/"
node tools/conformance/bundle.mjs check "$out/server.schema.json" "$out/server.json"
