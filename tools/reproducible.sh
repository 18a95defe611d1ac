#!/usr/bin/env bash
# Builds the program twice, in two folders that have nothing in common, as a release is built: the bytes have to be the
# same.
#
#   FRESH=1   compiles everything again the second time, which takes minutes, instead of linking again
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git rev-parse HEAD)
app=github.com/roamcard/roamcard/internal/app

# build FOLDER builds a copy of the sources that is kept there.
build() {
  mkdir -p "$1"
  git ls-files -z --cached --others --exclude-standard -- cmd clients/agent clients/go ent gen internal 'go.*' |
    xargs -0 cp --parents -t "$1"
  (cd "$1" && GOFLAGS= CGO_ENABLED=0 go build -trimpath -buildvcs=false -o roamcard \
    -ldflags "-s -w -buildid= -X $app.Version=v0.0.0-same -X $app.Commit=$commit" \
    ./cmd/roamcard && sha256sum roamcard | cut -d' ' -f1)
}

one=$(build "$work/one")
# Another place, of another depth.
if [[ -n ${FRESH-} ]]; then export GOCACHE=$work/cache; fi
two=$(build "$work/some/where/else")
echo "$one"
echo "$two"
[[ $one == "$two" ]]
said=$("$work/one/roamcard" version)
echo "$said"
[[ $said == "roamcard v0.0.0-same (commit $commit, "* ]]
# The commit is in it, and no folder of this machine.
! grep -qaF -e "$work" -e "$PWD/" "$work/one/roamcard"
