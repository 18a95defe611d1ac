-- +goose Up
-- create "audit" table
CREATE TABLE "audit" ("id" uuid NOT NULL, "at" timestamptz NOT NULL, "actor" character varying NOT NULL, "action" character varying NOT NULL, "subject" character varying NOT NULL, "reason" text NOT NULL DEFAULT '', "idempotency_key" character varying NOT NULL DEFAULT '', "before" jsonb NULL, "after" jsonb NULL, PRIMARY KEY ("id"));
-- create index "audit_once" to table: "audit"
CREATE UNIQUE INDEX "audit_once" ON "audit" ("actor", "action", "subject", "idempotency_key") WHERE ((idempotency_key)::text <> ''::text);
-- create index "audit_subject_at" to table: "audit"
CREATE INDEX "audit_subject_at" ON "audit" ("subject", "at");
-- create "challenges" table
CREATE TABLE "challenges" ("id" uuid NOT NULL, "purpose" character varying NOT NULL, "wallet" character varying NOT NULL, "scheme" character varying NOT NULL, "message" text NOT NULL, "nonce" character varying NOT NULL, "card_id" uuid NULL, "session_id" uuid NULL, "recipient_key" bytea NULL, "issued_at" timestamptz NOT NULL, "expires_at" timestamptz NOT NULL, "consumed_at" timestamptz NULL, PRIMARY KEY ("id"));
-- create index "challenge_expires_at" to table: "challenges"
CREATE INDEX "challenge_expires_at" ON "challenges" ("expires_at");
-- create index "challenge_wallet_purpose_issued_at" to table: "challenges"
CREATE INDEX "challenge_wallet_purpose_issued_at" ON "challenges" ("wallet", "purpose", "issued_at");
-- create "jobs" table
CREATE TABLE "jobs" ("id" uuid NOT NULL, "kind" character varying NOT NULL, "unique_key" character varying NOT NULL, "payload" jsonb NOT NULL, "traceparent" character varying NOT NULL DEFAULT '', "status" character varying NOT NULL DEFAULT 'queued', "attempt" bigint NOT NULL DEFAULT 0, "forgiven" bigint NOT NULL DEFAULT 0, "max_attempts" bigint NOT NULL, "version" bigint NOT NULL DEFAULT 0, "step" character varying NOT NULL DEFAULT '', "step_at" timestamptz NULL, "run_at" timestamptz NOT NULL, "created_at" timestamptz NOT NULL, "finished_at" timestamptz NULL, "last_error" text NOT NULL DEFAULT '', "lease_owner" character varying NULL, "lease_until" timestamptz NULL, PRIMARY KEY ("id"), CONSTRAINT "jobs_lease" CHECK (((status)::text = 'processing'::text) = ((lease_owner IS NOT NULL) AND (lease_until IS NOT NULL))), CONSTRAINT "jobs_max_attempts" CHECK (max_attempts > 0), CONSTRAINT "jobs_status" CHECK ((status)::text = ANY ((ARRAY['queued'::character varying, 'processing'::character varying, 'succeeded'::character varying, 'failed'::character varying, 'operator_review'::character varying])::text[])));
-- create index "job_kind_unique_key" to table: "jobs"
CREATE UNIQUE INDEX "job_kind_unique_key" ON "jobs" ("kind", "unique_key");
-- create index "jobs_due" to table: "jobs"
CREATE INDEX "jobs_due" ON "jobs" ("run_at") WHERE ((status)::text = 'queued'::text);
-- create index "jobs_leased" to table: "jobs"
CREATE INDEX "jobs_leased" ON "jobs" ("lease_until") WHERE ((status)::text = 'processing'::text);
-- create index "jobs_open" to table: "jobs"
CREATE INDEX "jobs_open" ON "jobs" ("kind", "status", "created_at") WHERE ((status)::text <> 'succeeded'::text);
-- create "sessions" table
CREATE TABLE "sessions" ("id" uuid NOT NULL, "wallet" character varying NOT NULL, "scopes" jsonb NOT NULL, "token_hash" bytea NOT NULL, "issued_at" timestamptz NOT NULL, "expires_at" timestamptz NOT NULL, "revoked_at" timestamptz NULL, PRIMARY KEY ("id"));
-- create index "session_expires_at" to table: "sessions"
CREATE INDEX "session_expires_at" ON "sessions" ("expires_at");
-- create index "sessions_token_hash_key" to table: "sessions"
CREATE UNIQUE INDEX "sessions_token_hash_key" ON "sessions" ("token_hash");
-- create "workers" table
CREATE TABLE "workers" ("id" character varying NOT NULL, "kinds" jsonb NOT NULL, "live_until" timestamptz NOT NULL, PRIMARY KEY ("id"));

-- +goose Down
-- reverse: create "workers" table
DROP TABLE "workers";
-- reverse: create index "sessions_token_hash_key" to table: "sessions"
DROP INDEX "sessions_token_hash_key";
-- reverse: create index "session_expires_at" to table: "sessions"
DROP INDEX "session_expires_at";
-- reverse: create "sessions" table
DROP TABLE "sessions";
-- reverse: create index "jobs_open" to table: "jobs"
DROP INDEX "jobs_open";
-- reverse: create index "jobs_leased" to table: "jobs"
DROP INDEX "jobs_leased";
-- reverse: create index "jobs_due" to table: "jobs"
DROP INDEX "jobs_due";
-- reverse: create index "job_kind_unique_key" to table: "jobs"
DROP INDEX "job_kind_unique_key";
-- reverse: create "jobs" table
DROP TABLE "jobs";
-- reverse: create index "challenge_wallet_purpose_issued_at" to table: "challenges"
DROP INDEX "challenge_wallet_purpose_issued_at";
-- reverse: create index "challenge_expires_at" to table: "challenges"
DROP INDEX "challenge_expires_at";
-- reverse: create "challenges" table
DROP TABLE "challenges";
-- reverse: create index "audit_subject_at" to table: "audit"
DROP INDEX "audit_subject_at";
-- reverse: create index "audit_once" to table: "audit"
DROP INDEX "audit_once";
-- reverse: create "audit" table
DROP TABLE "audit";
