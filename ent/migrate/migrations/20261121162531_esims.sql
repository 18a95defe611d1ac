-- +goose Up
-- create "esim_plans" table
CREATE TABLE "esim_plans" ("id" character varying NOT NULL, "code" character varying NOT NULL, "name" character varying NOT NULL, "type" character varying NOT NULL, "countries" jsonb NOT NULL, "data_mb" bigint NOT NULL, "validity_days" bigint NOT NULL, "cost_micros" bigint NOT NULL, "price_usd_cents" bigint NOT NULL, "live" boolean NOT NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "esim_plans_price" CHECK ((price_usd_cents >= 1) AND (price_usd_cents <= 25000)), CONSTRAINT "esim_plans_terms" CHECK ((data_mb > 0) AND (validity_days > 0) AND (cost_micros > 0)), CONSTRAINT "esim_plans_type" CHECK ((type)::text = ANY ((ARRAY['country'::character varying, 'region'::character varying])::text[])));
-- create index "esim_plans_code" to table: "esim_plans"
CREATE UNIQUE INDEX "esim_plans_code" ON "esim_plans" ("code");
-- create "esim_profiles" table
CREATE TABLE "esim_profiles" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "plan_id" character varying NOT NULL, "status" character varying NOT NULL, "reference" uuid NOT NULL, "account" character varying NOT NULL DEFAULT '', "sealed_key" character varying NOT NULL DEFAULT '', "sealed" bytea NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "esim_profiles_sealed" CHECK (((status)::text = 'ready'::text) = ((sealed IS NOT NULL) AND ((sealed_key)::text <> ''::text))), CONSTRAINT "esim_profiles_status" CHECK ((status)::text = ANY ((ARRAY['ordered'::character varying, 'ready'::character varying, 'failed'::character varying])::text[])));
-- create index "esim_profiles_reference" to table: "esim_profiles"
CREATE UNIQUE INDEX "esim_profiles_reference" ON "esim_profiles" ("reference");
-- create index "esimprofile_order_id_created_at" to table: "esim_profiles"
CREATE INDEX "esimprofile_order_id_created_at" ON "esim_profiles" ("order_id", "created_at");
-- create index "esimprofile_sealed_key" to table: "esim_profiles"
CREATE INDEX "esimprofile_sealed_key" ON "esim_profiles" ("sealed_key");
-- create "esim_syncs" table
CREATE TABLE "esim_syncs" ("id" character varying NOT NULL, "synced_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create "esim_tokens" table
CREATE TABLE "esim_tokens" ("id" character varying NOT NULL, "version" bigint NOT NULL, "expires_at" timestamptz NOT NULL, PRIMARY KEY ("id"));

-- +goose Down
-- reverse: create "esim_tokens" table
DROP TABLE "esim_tokens";
-- reverse: create "esim_syncs" table
DROP TABLE "esim_syncs";
-- reverse: create index "esimprofile_sealed_key" to table: "esim_profiles"
DROP INDEX "esimprofile_sealed_key";
-- reverse: create index "esimprofile_order_id_created_at" to table: "esim_profiles"
DROP INDEX "esimprofile_order_id_created_at";
-- reverse: create index "esim_profiles_reference" to table: "esim_profiles"
DROP INDEX "esim_profiles_reference";
-- reverse: create "esim_profiles" table
DROP TABLE "esim_profiles";
-- reverse: create index "esim_plans_code" to table: "esim_plans"
DROP INDEX "esim_plans_code";
-- reverse: create "esim_plans" table
DROP TABLE "esim_plans";
