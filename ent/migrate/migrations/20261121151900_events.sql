-- +goose Up
-- create "events" table
CREATE TABLE "events" ("id" uuid NOT NULL, "name" character varying NOT NULL, "visitor" bytea NOT NULL, "path" character varying NOT NULL DEFAULT '', "properties" jsonb NOT NULL, "at" timestamptz NOT NULL, PRIMARY KEY ("id"));
-- create index "event_at" to table: "events"
CREATE INDEX "event_at" ON "events" ("at");

-- +goose Down
-- reverse: create index "event_at" to table: "events"
DROP INDEX "event_at";
-- reverse: create "events" table
DROP TABLE "events";
