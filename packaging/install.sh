#!/bin/sh
# Installs a release of roamcard for the user who runs this:
#   sh install.sh [VERSION]
# It fetches the archive of this machine, its checksums and their signature, checks both, and puts the program, its
# manual pages and completions below ~/.local. Without minisign the signature cannot be checked, which it says.
#   RELEASES     where releases are: a folder for each tag; default the project's own
#   PREFIX       where to install instead of ~/.local
#   RELEASE_KEY  minisign's public key, instead of the one below
set -eu
version=${1:-@VERSION@}
releases=${RELEASES:-https://github.com/roamcard/roamcard/releases/download}
prefix=${PREFIX:-$HOME/.local}
key=${RELEASE_KEY:-@KEY@}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}
case $version in
  v[0-9]*) ;;
  *) fail "which version? sh install.sh v1.2.3" ;;
esac
case $(uname -s) in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "there is no archive for $(uname -s)" ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "there is no archive for $(uname -m)" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=roamcard_${version#v}_${os}_$arch.tar.gz
for file in checksums.txt checksums.txt.minisig "$archive"; do
  curl -fsSL --proto '=https,http' -o "$work/$file" "$releases/$version/$file" ||
    fail "$releases/$version/$file cannot be fetched"
done

case $key in
  @*) echo "no key is known: the signature is not checked" ;;
  *)
    if command -v minisign >/dev/null; then
      minisign -V -q -P "$key" -x "$work/checksums.txt.minisig" -m "$work/checksums.txt" ||
        fail "the checksums are not signed by $key"
    else
      echo "minisign is not installed: the signature is not checked"
    fi
    ;;
esac
wanted=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/checksums.txt")
if command -v sha256sum >/dev/null; then
  sum=$(sha256sum "$work/$archive")
else
  sum=$(shasum -a 256 "$work/$archive")
fi
[ -n "$wanted" ] && [ "${sum%% *}" = "$wanted" ] || fail "$archive is not the file that the checksums name"

mkdir "$work/files"
tar -xzf "$work/$archive" -C "$work/files"
mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions"
# By its new name at once: a program that runs is not written over.
cp "$work/files/roamcard" "$prefix/bin/.roamcard.new"
chmod 755 "$prefix/bin/.roamcard.new"
mv "$prefix/bin/.roamcard.new" "$prefix/bin/roamcard"
cp "$work/files/man/"* "$prefix/share/man/man1/"
cp "$work/files/completions/roamcard.bash" "$prefix/share/bash-completion/completions/roamcard"
echo "$("$prefix/bin/roamcard" version) is in $prefix/bin"
case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) echo "add $prefix/bin to your PATH" ;;
esac
