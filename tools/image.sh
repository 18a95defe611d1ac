#!/usr/bin/env bash
# Builds packaging/Containerfile with buildah, and nothing from a registry: its base image has the shell of this
# machine, and sees its Go and the modules that Go has here. Then it runs the program of the image, with the image as
# its root. It ends with the code 77 where buildah is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v buildah >/dev/null || [[ $(uname -s) != Linux ]]; then
  echo "buildah is not installed"
  exit 77
fi
work=$(mktemp -d)
# Files in the work folder may belong to users of a container; layers are plain folders.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$work/storage" --runroot "$work/run" "$@"; }
trap 'buildah rm --all >/dev/null 2>&1; rm -rf "$work"' EXIT

# base NAME makes what the first stage begins with.
base() {
  local from shell root at
  shell=$(readlink -f /bin/sh) from=$(buildah from scratch)
  root=$(buildah mount "$from")
  mkdir -p "$root"/{bin,tmp,src,go,root,etc/ssl/certs,usr/local/go}
  cp "$shell" "$root/bin/sh"
  for at in $(ldd "$shell" | grep -o '/[^ ]*'); do
    mkdir -p "$root$(dirname "$at")"
    cp -L "$at" "$root$at"
  done
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  buildah umount "$from" >/dev/null
  buildah config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go \
  --env GOCACHE=/go/cache --env GOTOOLCHAIN=local "$from"
  buildah commit --quiet "$from" "$1" >/dev/null
}

# What this machine makes has no digest of a registry.
sed 's/@sha256:[0-9a-f]*//' packaging/Containerfile >"$work/Containerfile"
golang=$(sed -n 's/^FROM \(golang:[^ ]*\) AS build$/\1/p' "$work/Containerfile")
base "docker.io/library/$golang"
commit=$(git rev-parse HEAD)
buildah build --pull-never --quiet -f "$work/Containerfile" --ignorefile packaging/Containerfile.dockerignore \
  --build-arg VERSION=v0.0.0-image --build-arg COMMIT="$commit" -t roamcard:image \
  -v "$(go env GOROOT):/usr/local/go:ro" -v "$(go env GOMODCACHE):/go/pkg/mod" \
  -v "$(go env GOCACHE):/go/cache" . >/dev/null

image=$(buildah from --pull-never roamcard:image)
root=$(buildah mount "$image")
echo "files: $(cd "$root" && find . -type f | sort | tr '\n' ' ')"
[[ $(cd "$root" && find . -type f | sort | xargs) == "./etc/ssl/certs/ca-certificates.crt ./usr/bin/roamcard" ]]
format='{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}'
config=$(buildah inspect --type image --format "$format" roamcard:image)
echo "config: $config"
[[ $config == "65532:65532 [/usr/bin/roamcard] [serve]" ]]
said=$(buildah run "$image" -- /usr/bin/roamcard version)
echo "$said"
[[ $said == "roamcard v0.0.0-image (commit $commit, "* ]]
# Nothing is configured, so it says each mistake and ends; it needs no file of its own for that.
! buildah run "$image" -- /usr/bin/roamcard config check >"$work/check" 2>&1 && grep -q 'base_url' "$work/check"
