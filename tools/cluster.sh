#!/usr/bin/env bash
# Runs the topology of packaging/compose.yaml on this machine without containers, takes one process after the other away
# while it buys, and ends with one line: N passed, N failed. Programs that are missing are installed by apt-get.
#
#   KEEP=1     leaves everything running instead, until Ctrl-C
#   ADDR=…     where buyers come to (127.0.0.1:8402); port 0 picks one
#   DATA=…     the folder of data, settings and logs (data/cluster), which is emptied first
#   INSTALL=   says what is missing instead of installing it
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin

# missing prints the packages whose programs are not here. Patroni speaks to etcd by python3-etcd.
missing() {
  local program
  for program in patroni etcd haproxy pgbouncer; do
    if ! command -v "$program" >/dev/null; then echo "${program/#etcd/etcd-server}"; fi
  done
  if ! compgen -G '/usr/lib/postgresql/*/bin/pg_rewind' >/dev/null &&
    ! compgen -G '/usr/pgsql-*/bin/pg_rewind' >/dev/null; then
    echo postgresql
  fi
  if ! /usr/bin/python3 -c 'import etcd' 2>/dev/null; then echo python3-etcd; fi
}

# install installs packages, and leaves the services that they bring stopped.
install() {
  local as=() policy=/usr/sbin/policy-rc.d own=
  if [[ $EUID -ne 0 ]]; then as=(sudo); fi
  # Debian starts what it installs, unless this file says no.
  if [[ ! -e $policy ]]; then
    own=yes
    printf '#!/bin/sh\nexit 101\n' | "${as[@]}" tee "$policy" >/dev/null
    "${as[@]}" chmod 755 "$policy"
  fi
  local code=0
  "${as[@]}" apt-get update -qq || code=$?
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" || code=$?
  if [[ -n $own ]]; then "${as[@]}" rm -f "$policy"; fi
  if [[ $code -eq 0 ]]; then
    echo "They are not started now. With systemd they are at the next start of this machine; to prevent it:"
    echo "  systemctl disable patroni etcd haproxy pgbouncer postgresql"
  fi
  return "$code"
}

mapfile -t packages < <(missing)
if [[ ${#packages[@]} -gt 0 ]]; then
  echo "missing: ${packages[*]}"
  if [[ -z ${INSTALL-yes} ]] || ! command -v apt-get >/dev/null ||
    { [[ $EUID -ne 0 ]] && ! sudo -n true 2>/dev/null; }; then
    echo "cluster: install them, for example: sudo apt-get install --no-install-recommends ${packages[*]}" >&2
    exit 3
  fi
  install "${packages[@]}"
fi
go build -o bin/cluster ./internal/devtools/cluster
exec bin/cluster -data "${DATA:-data/cluster}" -addr "${ADDR:-127.0.0.1:8402}" \
  -roamcard "${ROAMCARD_BIN:-bin/roamcard}" \
  ${KEEP:+-keep}
