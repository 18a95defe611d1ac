-- +goose Up
-- drop index "cards_order" from table: "cards"
DROP INDEX "cards_order";
-- create index "cards_order" to table: "cards"
CREATE UNIQUE INDEX "cards_order" ON "cards" ("order_id") WHERE ((status)::text <> 'FAILED'::text);
-- create index "card_order_id_created_at" to table: "cards"
CREATE INDEX "card_order_id_created_at" ON "cards" ("order_id", "created_at");
-- modify "orders" table
ALTER TABLE "orders" ADD COLUMN "delivery" bigint NOT NULL DEFAULT 1;
-- create "switches" table
CREATE TABLE "switches" ("id" character varying NOT NULL, "paused" boolean NOT NULL, "reason" text NOT NULL, "actor" character varying NOT NULL, "changed_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "switches_product" CHECK ((id)::text = ANY ((ARRAY['card_issue'::character varying, 'card_topup'::character varying, 'esim'::character varying])::text[])));
-- create "refunds" table
CREATE TABLE "refunds" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "status" character varying NOT NULL, "network" character varying NOT NULL, "asset" character varying NOT NULL, "treasury" character varying NOT NULL, "recipient" character varying NOT NULL, "value" bigint NOT NULL, "nonce" character varying NOT NULL, "valid_before" bigint NOT NULL, "signature" bytea NOT NULL, "transaction" character varying NULL, "block" bigint NULL, "block_hash" character varying NULL, "log_index" bigint NULL, "settled_at" timestamptz NULL, "created_at" timestamptz NOT NULL, "signed_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "refunds_proof" CHECK (((status)::text = 'paid'::text) = ((transaction IS NOT NULL) AND (block IS NOT NULL) AND (block_hash IS NOT NULL) AND (log_index IS NOT NULL) AND (settled_at IS NOT NULL))), CONSTRAINT "refunds_status" CHECK ((status)::text = ANY ((ARRAY['signed'::character varying, 'paid'::character varying, 'dead'::character varying])::text[])), CONSTRAINT "refunds_value" CHECK (value > 0));
-- create index "refunds_authorization" to table: "refunds"
CREATE UNIQUE INDEX "refunds_authorization" ON "refunds" ("network", "asset", "treasury", "nonce");
-- create index "refunds_order" to table: "refunds"
CREATE UNIQUE INDEX "refunds_order" ON "refunds" ("order_id");
-- create index "refunds_transfer" to table: "refunds"
CREATE UNIQUE INDEX "refunds_transfer" ON "refunds" ("transaction", "log_index");

-- +goose Down
-- reverse: create index "refunds_transfer" to table: "refunds"
DROP INDEX "refunds_transfer";
-- reverse: create index "refunds_order" to table: "refunds"
DROP INDEX "refunds_order";
-- reverse: create index "refunds_authorization" to table: "refunds"
DROP INDEX "refunds_authorization";
-- reverse: create "refunds" table
DROP TABLE "refunds";
-- reverse: create "switches" table
DROP TABLE "switches";
-- reverse: modify "orders" table
ALTER TABLE "orders" DROP COLUMN "delivery";
-- reverse: create index "card_order_id_created_at" to table: "cards"
DROP INDEX "card_order_id_created_at";
-- reverse: create index "cards_order" to table: "cards"
DROP INDEX "cards_order";
-- reverse: drop index "cards_order" from table: "cards"
CREATE UNIQUE INDEX "cards_order" ON "cards" ("order_id");
