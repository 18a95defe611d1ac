#!/usr/bin/env bash
# Copies the primary, once, and follows it. PRIMARY and PORT are where it is; PASSWORD_FILE has the role's password.
set -euo pipefail
PGPASSWORD=$(cat "${PASSWORD_FILE:-/run/secrets/postgres_password}")
export PGPASSWORD
mkdir -p "$PGDATA"
if [[ ! -s $PGDATA/PG_VERSION ]]; then
  until pg_basebackup --dbname "host=${PRIMARY:-primary} port=${PORT:-5432} user=replicator application_name=standby1" \
    --pgdata "$PGDATA" --write-recovery-conf --wal-method stream --slot standby1 --checkpoint fast; do
    rm -rf "${PGDATA:?}"/*
    sleep 2
  done
  chmod 700 "$PGDATA"
fi
# Promoted, it waits for no standby of its own until it is given one.
exec postgres -c max_connections=200 -c synchronous_standby_names= "$@"
