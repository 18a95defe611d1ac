#!/usr/bin/env bash
# Prepares the tags of a release. Each Go module of this repository has a tag of its own, <folder>/vX.Y.Z, and requires
# the others in the version that is released: the lines `replace`, which resolve them here, mean nothing to who imports
# them.
#
#   tools/tag-modules.sh vX.Y.Z            shows what would change, and the tags
#   tools/tag-modules.sh --write vX.Y.Z    writes the versions into each go.mod
#   tools/tag-modules.sh --commit vX.Y.Z   writes them, commits them, and makes the tags; it pushes nothing
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n 's,^# *\(tools/tag-modules.sh .*\),\1,p' "$0"
  exit 2
}
fail() {
  echo "tools/tag-modules.sh: $*" >&2
  exit 1
}

mode=show
case ${1:-} in --write | --commit) mode=${1#--} && shift ;; esac
[[ $# -eq 1 ]] || usage
version=$1
[[ $version =~ ^v(0|1)\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] ||
  fail "$version is no version vX.Y.Z below v2, where the modules' paths would have to change"
said=$(sed -n 's/^const Version = "\(.*\)"$/v\1/p' clients/go/roamcard/options.go)
[[ $said == "$version" ]] || fail "clients/go/roamcard/options.go says $said: write $version there first"

# Our modules, by their folders: those of the workspace.
paths=() folders=()
while read -r path folder; do
  paths+=("$path") folders+=("$folder")
done < <(go list -m -f '{{.Path}} {{.Dir}}')

# others prints which of our modules a go.mod requires in another version. Only what is required already is written.
others() {
  local path
  for path in "${paths[@]}"; do
    awk -v path="$path" -v version="$version" '
      { sub(/^require /, "") }
      $1 == path && $2 ~ /^v/ && $2 != version { print path }' "$1/go.mod"
  done
}

changed=()
tags=()
for i in "${!paths[@]}"; do
  relative=${folders[i]#"$PWD"}
  relative=${relative#/}
  tags+=("${relative:+$relative/}$version")
  mapfile -t required < <(others "${folders[i]}")
  [[ ${#required[@]} -gt 0 ]] || continue
  changed+=("${relative:+$relative/}go.mod")
  for path in "${required[@]}"; do
    echo "${relative:+$relative/}go.mod: $path $version"
    if [[ $mode != show ]]; then GOWORK=off go mod edit "-require=$path@$version" "${folders[i]}/go.mod"; fi
  done
done

if [[ $mode == commit ]]; then
  if [[ ${#changed[@]} -gt 0 ]]; then
    git commit --quiet -m "release: modules require each other in $version" -- "${changed[@]}"
  fi
  for tag in "${tags[@]}"; do git tag -a -m "roamcard $version" "$tag"; done
  echo "tagged; to publish: git push --atomic origin HEAD ${tags[*]}"
else
  echo "tags of the commit that has these versions: ${tags[*]}"
fi
