-- +goose Up
-- create "receipts" table
CREATE TABLE "receipts" ("id" character varying NOT NULL, "owner" character varying NOT NULL, "outcome" character varying NOT NULL, "jws" character varying NOT NULL, "issued_at" timestamptz NOT NULL, PRIMARY KEY ("id", "owner"), CONSTRAINT "receipts_outcome" CHECK ((outcome)::text = ANY ((ARRAY['delivered'::character varying, 'refunded'::character varying])::text[])));

-- +goose Down
-- reverse: create "receipts" table
DROP TABLE "receipts";
