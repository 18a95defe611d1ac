-- +goose Up
-- create "catch_ups" table
CREATE TABLE "catch_ups" ("id" uuid NOT NULL, "server" character varying NOT NULL, "beat" bigint NOT NULL DEFAULT 0, "head" bigint NOT NULL DEFAULT 0, "begun_at" timestamptz NOT NULL, "seen_at" timestamptz NOT NULL, PRIMARY KEY ("id"));

-- +goose Down
-- reverse: create "catch_ups" table
DROP TABLE "catch_ups";
