#!/usr/bin/env bash
# Runs once, in the new primary: the role that serves, the standby's role, its slot, and its way in. From the next start
# on, a commit is acknowledged when the standby has it on its disk, too.
set -euo pipefail
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  -v password="$(cat "${PASSWORD_FILE:-/run/secrets/postgres_password}")" \
  -v service="$(cat "${SERVICE_PASSWORD_FILE:-/run/secrets/service_password}")" <<'SQL'
-- It owns nothing: `roamcard migrate` grants it what serving takes.
CREATE ROLE roamcard_service LOGIN PASSWORD :'service';
CREATE ROLE replicator REPLICATION LOGIN PASSWORD :'password';
SELECT pg_create_physical_replication_slot('standby1');
ALTER SYSTEM SET synchronous_standby_names = 'standby1';
SQL
echo 'host replication replicator all scram-sha-256' >>"$PGDATA/pg_hba.conf"
