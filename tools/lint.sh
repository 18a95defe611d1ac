#!/usr/bin/env bash
# Formatting, vet, staticcheck, clocks in tests, comments and documents that name what is gone, licenses, planted
# bugs that still compile, protos, and generated code that is current.
#
#   tools/lint.sh            all of it
#   tools/lint.sh generated  that generated code is current, which writes it anew unless nothing has changed since it
#                            last did, and that the pages have no type error
#   tools/lint.sh sources    the rest, which writes nothing
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

sources() {
  local unformatted long failed=0
  unformatted=$(gofmt -l cmd internal clients/agent clients/go ent/schema gen/*.go examples tools)
  if [[ -n $unformatted ]]; then
    echo "not formatted:" "$unformatted"
    return 1
  fi
  # Lines have at most 120 characters. What is generated, or fetched, is not read. A struct tag and a pattern cannot be
  # broken.
  long=$(git ls-files -co --exclude-standard '*.go' clients examples web proto tools packaging |
    grep -E '\.(go|py|ts|tsx|css|mjs|sh|proto)$' | grep -vE '(^|/)_?gen/|/testing/published\.ts$' |
    xargs grep -L '^// Code generated' |
    LC_ALL=C.UTF-8 xargs grep -HnP '^(?!.*(?:`json:|\bpattern(?: =|:) ")).{121}' | cut -d: -f1,2 || true)
  if [[ -n $long ]]; then
    echo "longer than 120 characters:" "$long"
    return 1
  fi
  GOWORK=off go build -C tools -o ../bin/ ./lint ./comments ./docscheck
  find cmd internal clients/agent clients/go ent examples gen tools -name '*.go' -not -path '*/testdata/*' -print0 |
    xargs -0 bin/comments || failed=1
  git ls-files -co --exclude-standard '*.md' '*_test.go' | grep -v '^third_party/' | xargs bin/docscheck . || failed=1
  # What is generated is not checked, only read by what uses it. What lint finds is kept in go's build cache.
  go vet -vettool="$PWD/bin/lint" ./cmd/... ./internal/... ./examples/... ./gen ./ent/schema/... ./ent/migrate \
    $(go list -m -f '{{.Dir}}/...' | grep -e /internal/ -e /clients/) || failed=1
  (cd tools && GOWORK=off go vet -vettool=../bin/lint ./...) || failed=1
  alone || failed=1
  licenses || failed=1
  tools/teeth.sh --check || failed=1
  return "$failed"
}

# What of others is in the program, in the pages and next to the clients.
licenses() {
  local sbom=bin/roamcard.cdx.json
  make --no-print-directory build || return 1
  [[ -f clients/python/.venv/.ready ]] || clients/python/setup.sh || return 1
  GOWORK=off go build -C tools/cyclonedx-gomod -o ../../bin/ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod &&
    bin/cyclonedx-gomod bin -licenses -json -std -noserial -notimestamp -output "$sbom" bin/roamcard 2>/dev/null &&
    node tools/licenses.mjs "$sbom" NOTICE clients/python/.venv/bin/python \
      {web,clients/typescript,tools/site}/package-lock.json
}

# Each module by itself, as those see it who import it: its own go.mod has all that it needs. Where this selects the
# versions that the workspace has, what has been checked there holds; otherwise the module is checked again.
alone() {
  local module together versions failed=0
  local format='{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}} {{.Version}}{{end}}{{end}}'
  together=$(go list -m -f '{{.Path}} {{.Version}}' all | sort) || return 1
  for module in $(go list -m -f '{{.Dir}}'); do
    versions=$(cd "$module" && GOWORK=off go list -deps -test -f "$format" ./... | sort -u) || return 1
    if [[ -n $(comm -23 <(echo "$versions" | sed '/^$/d') <(echo "$together")) ]]; then
      (cd "$module" && GOWORK=off go vet -vettool="$root/bin/lint" ./...) || failed=1
    fi
  done
  return "$failed"
}

# Files are compared with themselves before and after, so that a work in progress lints too.
listed() {
  find gen third_party ent clients/typescript/src/gen clients/python/src/roamcard/_gen \
    clients/python/src/roamcard/_sync \
    internal/devtools/devnet/contracts internal/chain/settler internal/transport/web/dist \
    clients/go/roamcard/roamcardtest/published.json clients/typescript/src/testing/published.ts \
    clients/python/src/roamcard/testing/published.json docs/api -type f -not -name '*.pyc' \
    -not -path docs/api/README.md 2>/dev/null | sort | xargs sha256sum
}

# What generated files are made of, and by what: sources, and the tools that are installed.
sources_of_generated() {
  {
    find proto gen/*.go ent/schema ent/template ent/entc.go ent/generate.go web clients/typescript clients/python/src \
      clients/python/tools clients/testing tools/protoc-gen-* \
      \( -name node_modules -o -name dist -o -name test -o -name '__pycache__' \) -prune -o -type f -print
    ls buf*.yaml go.* Makefile clients/python/*.* tools/*.{json,mod,sum} tools/{gen,sync-protos,lint}.sh \
      tools/{contracts,api-pages}.mjs internal/devtools/devnet/contracts/*.sol internal/chain/settler/*.sol
    # Our own packages that a schema, or what generates from it, imports.
    for package in ./ent/schema ent/entc.go; do
      go list -deps -f '{{$d := .Dir}}{{with .Module}}{{if .Main}}{{$d}}{{end}}{{end}}' "$package" |
        while read -r dir; do find "$dir" -maxdepth 1 -name '*.go'; done
    done
  } | sort -u | xargs -d '\n' sha256sum
}
installed() {
  go version
  node --version
  python3 --version
  sha256sum {tools,web,clients/typescript}/node_modules/.package-lock.json clients/python/.venv/.ready 2>&1 || true
}
stamp() {
  { sources_of_generated && listed && installed; } | sha256sum
}

# bin/generated.stamp says what has been generated and was current. As long as it is equal nothing can differ. It is not
# believed in CI.
generated() {
  local before sources
  tools/breaking.sh # nothing, before the first release
  if [[ -z ${CI:-} && -f bin/generated.stamp && $(stamp) == $(<bin/generated.stamp) ]]; then
    echo "generated files are current: since they were last made, nothing that they are made of has changed"
    return
  fi
  rm -f bin/generated.stamp
  before=$(listed)
  sources=$(sources_of_generated)
  tools/gen.sh
  if ! diff <(echo "$before") <(listed); then
    echo "generated files are not current: run make gen and commit what it changes"
    return 1
  fi
  npm run --silent --prefix web check
  # An edit while they were made is not in them.
  if [[ $sources == "$(sources_of_generated)" ]]; then stamp >bin/generated.stamp; fi
}

case ${1:-} in
  generated | sources) "$1" ;;
  "")
    sources
    generated
    ;;
  *) echo "tools/lint.sh: $1 is neither generated nor sources" && exit 1 ;;
esac
