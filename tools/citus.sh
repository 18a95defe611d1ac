#!/usr/bin/env bash
# Builds Citus from the source folder that is given, starts a coordinator and two workers on loopback, and runs, on
# databases that are distributed by owner: the tests of the store, the card's crash points once, and the claim
# benchmark.
#
#   tools/citus.sh SOURCE
#
#   CITUS_HOME=…           keeps the build there; the next run uses it again
#   CITUS_STEPS="store crash bench"  what is run
#   CITUS_PORT=55430       the coordinator's port; the workers have the next two
#   ROUNDS=3               how often the benchmark is run
#
# It needs PostgreSQL with its server's headers (Debian: postgresql-server-dev-15, libkrb5-dev, liblz4-dev,
# libzstd-dev).
# Nothing is installed: the server and the extension are copied to CITUS_HOME.
set -euo pipefail
cd "$(dirname "$0")/.."

source=${1:-}
if [ -z "$source" ] || [ ! -f "$source/configure" ]; then
  echo "usage: $0 SOURCE, the folder of Citus' source (13.2.x), such as a checkout of github.com/citusdata/citus" >&2
  exit 2
fi
source=$(realpath "$source")
steps=${CITUS_STEPS:-store crash bench}
port=${CITUS_PORT:-55430}
rounds=${ROUNDS:-3}
config=${PG_CONFIG:-pg_config}

run=$(mktemp -d /tmp/roamcard-citus.XXXXXX)
home=${CITUS_HOME:-$run/build}
mkdir -p "$home"
home=$(realpath "$home")
bin=$home/pg$("$config" --bindir)

# PostgreSQL does not run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  chown 65534:65534 "$run"
fi
chmod 755 "$run"

stop() {
  for data in "$run"/node-*; do
    if [ -f "$data/postmaster.pid" ]; then
      (cd / && "${as[@]}" "$bin/pg_ctl" -D "$data" -m immediate -w stop >/dev/null) || true
    fi
  done
  rm -rf "$run"
}
trap stop EXIT
trap 'exit 1' INT TERM

# build makes a copy of the installed PostgreSQL with Citus. A server finds its other folders from where its program is.
build() {
  [ -f "$home/built" ] && return
  echo "== build Citus, a few minutes"
  rm -rf "$home/pg" "$home/source"
  for folder in "$("$config" --pkglibdir)/.." "$("$config" --sharedir)"; do
    folder=$(realpath "$folder")
    mkdir -p "$home/pg$(dirname "$folder")"
    cp -aL "$folder" "$home/pg$(dirname "$folder")/"
  done
  cp -a "$source" "$home/source"
  # PostgreSQL 15.20 has this function itself.
  if grep -q have_createdb_privilege "$("$config" --includedir-server)/commands/dbcommands.h"; then
    perl -0pi -e 's/static inline bool\nhave_createdb_privilege\(void\)\n\{.*?\n\}\n//s' \
      "$home/source/src/include/pg_version_compat.h"
  fi
  if ! (cd "$home/source" && ./configure --without-libcurl PG_CONFIG="$(command -v "$config")" &&
    make -j2 extension with_llvm=no && make install with_llvm=no DESTDIR="$home/pg") >"$home/build.log" 2>&1; then
    tail -n 20 "$home/build.log" >&2
    exit 1
  fi
  touch "$home/built"
}

# start N starts a node.
start() {
  local data=$run/node-$1
  (cd / && "${as[@]}" "$bin/initdb" -D "$data" -U app -A trust -E UTF8 --locale=C >"$run/initdb-$1.log")
  cat >>"$data/postgresql.conf" <<CONF
shared_preload_libraries = 'citus,pg_stat_statements'
pg_stat_statements.max = 100000
listen_addresses = '127.0.0.1'
port = $((port + $1))
unix_socket_directories = '$run'
max_connections = 400
max_worker_processes = 200
max_prepared_transactions = 200
shared_buffers = 256MB
citus.node_conninfo = 'sslmode=disable'
citus.max_cached_conns_per_worker = 2
log_line_prefix = '%m %a '
CONF
  (cd / && "${as[@]}" "$bin/pg_ctl" -D "$data" -l "$run/node-$1.log" -w start >/dev/null)
  # What a worker prepares is a commit in two phases: they are counted there.
  "$bin/psql" -qd "$(url "$1")" -c 'CREATE EXTENSION pg_stat_statements'
}

# durable WHETHER says whether commits reach the disks: what is measured does, and tests make and drop many databases.
durable() {
  for node in 0 1 2; do
    "$bin/psql" -qd "$(url $node)" -c "ALTER SYSTEM SET fsync = $1" -c "ALTER SYSTEM SET full_page_writes = $1" \
      -c "ALTER SYSTEM SET synchronous_commit = $1" -c 'SELECT pg_reload_conf()' >/dev/null
  done
}

url() { echo "postgres://app@localhost/postgres?host=$run&port=$((port + $1))&sslmode=disable"; }

build
for node in 0 1 2; do start $node; done
export ROAMCARD_TEST_CITUS="$(url 0) $(url 1) $(url 2)"
echo "== $("$bin/psql" -At "$(url 0)" -c 'SELECT version()'), coordinator and two workers"

failed=0
for step in $steps; do
  echo "== $step"
  case $step in
  bench) durable on ;;
  *) durable off ;;
  esac
  case $step in
  store) go test -count=1 -timeout 60m ./internal/store/... || failed=1 ;;
  # One of them stops the program by a trigger, which a distributed table cannot have.
  crash) ROAMCARD_TORTURE=1 go test -count=1 -timeout 60m ./internal/testing/crash \
    -run 'TestKilled/once_at_every_point' -skip TestKilledWhileTimelinesArePruned || failed=1 ;;
  bench) go test ./internal/testing/bench -run '^$' -bench '^BenchmarkClaimDistributed$' -benchtime 3000x \
    -count "$rounds" -timeout 30m || failed=1 ;;
  shell) bash || true ;;
  *)
    echo "no such step: $step" >&2
    exit 2
    ;;
  esac
done
exit $failed
