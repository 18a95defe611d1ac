#!/usr/bin/env bash
# Formatting, vet, staticcheck, planted bugs that still compile, protos, and generated code that is current.
#
#   tools/lint.sh            all of it
#   tools/lint.sh generated  that generated code is current, which writes it anew, and that the pages have no type error
#   tools/lint.sh sources    the rest, which writes nothing
set -euo pipefail
cd "$(dirname "$0")/.."

sources() {
  local unformatted long module
  unformatted=$(gofmt -l cmd internal clients/go ent/schema gen/*.go tools)
  if [[ -n $unformatted ]]; then
    echo "not formatted:" "$unformatted"
    return 1
  fi
  # Lines have at most 120 characters. What is generated, or fetched, is not read. A struct tag and a pattern cannot be
  # broken.
  long=$(git ls-files -co --exclude-standard '*.go' clients web proto tools packaging |
    grep -E '\.(go|py|ts|tsx|css|mjs|sh|proto)$' | grep -vE '(^|/)_?gen/|/testing/published\.ts$' |
    xargs grep -L '^// Code generated' |
    LC_ALL=C.UTF-8 xargs grep -HnP '^(?!.*(?:`json:|\bpattern(?: =|:) ")).{121}' | cut -d: -f1,2 || true)
  if [[ -n $long ]]; then
    echo "longer than 120 characters:" "$long"
    return 1
  fi
  # Each module by itself, as those see it who import it; what is generated is not checked for style.
  for module in $(go list -m -f '{{.Dir}}') tools; do (cd "$module" && GOWORK=off go vet ./...); done
  GOWORK=off go build -C tools -o ../bin/ honnef.co/go/tools/cmd/staticcheck
  bin/staticcheck ./cmd/... ./internal/... ./ent/schema/... \
    $(go list -m -f '{{.Dir}}/...' | grep -e /internal/ -e /clients/)
  tools/teeth.sh --check
}

# Files are compared with themselves before and after, so that a work in progress lints too.
listed() {
  find gen third_party ent clients/typescript/src/gen clients/python/src/roamcard/_gen \
    clients/python/src/roamcard/_sync \
    internal/devtools/devnet/contracts internal/chain/settler internal/transport/web/dist \
    clients/go/roamcard/roamcardtest/published.json clients/typescript/src/testing/published.ts \
    clients/python/src/roamcard/testing/published.json -type f -not -name '*.pyc' 2>/dev/null | sort | xargs sha256sum
}

generated() {
  local before
  before=$(listed)
  tools/gen.sh
  if ! diff <(echo "$before") <(listed); then
    echo "generated files are not current: run make gen and commit what it changes"
    return 1
  fi
  tools/breaking.sh # nothing, before the first release
  npm run --silent --prefix web check
}

case ${1:-} in
  generated | sources) "$1" ;;
  "")
    sources
    generated
    ;;
  *) echo "tools/lint.sh: $1 is neither generated nor sources" && exit 1 ;;
esac
