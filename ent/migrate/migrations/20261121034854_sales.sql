-- +goose Up
-- create "attempts" table
CREATE TABLE "attempts" ("id" uuid NOT NULL, "payment_id" uuid NOT NULL, "relayer" character varying NOT NULL, "nonce" bigint NOT NULL, "variants" jsonb NOT NULL, "status" character varying NOT NULL, "created_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "attempts_nonce" CHECK (nonce >= 0), CONSTRAINT "attempts_status" CHECK ((status)::text = ANY ((ARRAY['open'::character varying, 'reverted'::character varying, 'closed'::character varying])::text[])));
-- create index "attempt_payment_id_created_at" to table: "attempts"
CREATE INDEX "attempt_payment_id_created_at" ON "attempts" ("payment_id", "created_at");
-- create index "attempts_nonce" to table: "attempts"
CREATE UNIQUE INDEX "attempts_nonce" ON "attempts" ("relayer", "nonce");
-- create index "attempts_open" to table: "attempts"
CREATE UNIQUE INDEX "attempts_open" ON "attempts" ("payment_id") WHERE ((status)::text = 'open'::text);
-- create "cards" table
CREATE TABLE "cards" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "owner" character varying NOT NULL, "status" character varying NOT NULL, "reference" uuid NOT NULL, "account" character varying NOT NULL DEFAULT '', "last4" character varying NOT NULL DEFAULT '', "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "cards_status" CHECK ((status)::text = ANY ((ARRAY['PENDING'::character varying, 'ACTIVE'::character varying, 'FROZEN'::character varying, 'CLOSED'::character varying, 'FAILED'::character varying])::text[])));
-- create index "card_owner_created_at" to table: "cards"
CREATE INDEX "card_owner_created_at" ON "cards" ("owner", "created_at");
-- create index "cards_live" to table: "cards"
CREATE UNIQUE INDEX "cards_live" ON "cards" ("owner") WHERE (((status)::text <> 'CLOSED'::text) AND ((status)::text <> 'FAILED'::text));
-- create index "cards_order" to table: "cards"
CREATE UNIQUE INDEX "cards_order" ON "cards" ("order_id");
-- create index "cards_reference" to table: "cards"
CREATE UNIQUE INDEX "cards_reference" ON "cards" ("reference");
-- create "holds" table
CREATE TABLE "holds" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "resource" character varying NOT NULL, "units" bigint NOT NULL, "created_at" timestamptz NOT NULL, "released_at" timestamptz NULL, PRIMARY KEY ("id"), CONSTRAINT "holds_units" CHECK (units > 0));
-- create index "hold_resource_released_at" to table: "holds"
CREATE INDEX "hold_resource_released_at" ON "holds" ("resource", "released_at");
-- create index "holds_live" to table: "holds"
CREATE UNIQUE INDEX "holds_live" ON "holds" ("order_id", "resource") WHERE (released_at IS NULL);
-- create "mutexes" table
CREATE TABLE "mutexes" ("id" character varying NOT NULL, PRIMARY KEY ("id"));
-- create "orders" table
CREATE TABLE "orders" ("id" character varying NOT NULL, "operation_id" uuid NOT NULL, "kind" character varying NOT NULL, "status" character varying NOT NULL, "owner" character varying NOT NULL, "idempotency_key" character varying NOT NULL, "fingerprint" bytea NOT NULL, "price_usd_cents" bigint NOT NULL, "item" jsonb NOT NULL, "scenario" character varying NOT NULL DEFAULT '', "version" bigint NOT NULL, "created_at" timestamptz NOT NULL, "updated_at" timestamptz NOT NULL, "expires_at" timestamptz NULL, PRIMARY KEY ("id"), CONSTRAINT "orders_kind" CHECK ((kind)::text = ANY ((ARRAY['card_issue'::character varying, 'card_topup'::character varying, 'esim'::character varying])::text[])), CONSTRAINT "orders_price" CHECK (price_usd_cents > 0), CONSTRAINT "orders_status" CHECK ((status)::text = ANY ((ARRAY['payment_required'::character varying, 'settling'::character varying, 'settled'::character varying, 'provisioning'::character varying, 'fulfilled'::character varying, 'expired'::character varying, 'refund_pending'::character varying, 'refunded'::character varying, 'operator_review'::character varying])::text[])));
-- create index "order_owner_id" to table: "orders"
CREATE INDEX "order_owner_id" ON "orders" ("owner", "id");
-- create index "orders_open" to table: "orders"
CREATE INDEX "orders_open" ON "orders" ("status", "updated_at") WHERE ((status)::text <> 'fulfilled'::text);
-- create index "orders_operation_id_key" to table: "orders"
CREATE UNIQUE INDEX "orders_operation_id_key" ON "orders" ("operation_id");
-- create index "orders_purchase" to table: "orders"
CREATE UNIQUE INDEX "orders_purchase" ON "orders" ("kind", "owner", "idempotency_key");
-- create "payments" table
CREATE TABLE "payments" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "status" character varying NOT NULL, "network" character varying NOT NULL, "asset" character varying NOT NULL, "payer" character varying NOT NULL, "pay_to" character varying NOT NULL, "value" bigint NOT NULL, "valid_after" bigint NOT NULL, "valid_before" bigint NOT NULL, "nonce" character varying NOT NULL, "signature" bytea NOT NULL, "transaction" character varying NULL, "block" bigint NULL, "block_hash" character varying NULL, "log_index" bigint NULL, "settled_at" timestamptz NULL, "dead_reason" character varying NOT NULL DEFAULT '', "created_at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "payments_proof" CHECK (((status)::text = 'paid'::text) = ((transaction IS NOT NULL) AND (log_index IS NOT NULL) AND (settled_at IS NOT NULL))), CONSTRAINT "payments_status" CHECK ((status)::text = ANY ((ARRAY['claimed'::character varying, 'paid'::character varying, 'dead'::character varying])::text[])), CONSTRAINT "payments_value" CHECK (value > 0));
-- create index "payment_order_id_created_at" to table: "payments"
CREATE INDEX "payment_order_id_created_at" ON "payments" ("order_id", "created_at");
-- create index "payments_authorization" to table: "payments"
CREATE UNIQUE INDEX "payments_authorization" ON "payments" ("network", "asset", "payer", "nonce");
-- create index "payments_live" to table: "payments"
CREATE UNIQUE INDEX "payments_live" ON "payments" ("order_id") WHERE ((status)::text <> 'dead'::text);
-- create index "payments_transfer" to table: "payments"
CREATE UNIQUE INDEX "payments_transfer" ON "payments" ("transaction", "log_index");
-- create "timeline" table
CREATE TABLE "timeline" ("id" uuid NOT NULL, "order_id" character varying NOT NULL, "version" bigint NOT NULL, "at" timestamptz NOT NULL, "from_status" character varying NOT NULL, "to_status" character varying NOT NULL, "actor" character varying NOT NULL, "reason" text NOT NULL, "evidence" jsonb NULL, PRIMARY KEY ("id"));
-- create index "timeline_move" to table: "timeline"
CREATE UNIQUE INDEX "timeline_move" ON "timeline" ("order_id", "version");

-- +goose Down
-- reverse: create index "timeline_move" to table: "timeline"
DROP INDEX "timeline_move";
-- reverse: create "timeline" table
DROP TABLE "timeline";
-- reverse: create index "payments_transfer" to table: "payments"
DROP INDEX "payments_transfer";
-- reverse: create index "payments_live" to table: "payments"
DROP INDEX "payments_live";
-- reverse: create index "payments_authorization" to table: "payments"
DROP INDEX "payments_authorization";
-- reverse: create index "payment_order_id_created_at" to table: "payments"
DROP INDEX "payment_order_id_created_at";
-- reverse: create "payments" table
DROP TABLE "payments";
-- reverse: create index "orders_purchase" to table: "orders"
DROP INDEX "orders_purchase";
-- reverse: create index "orders_operation_id_key" to table: "orders"
DROP INDEX "orders_operation_id_key";
-- reverse: create index "orders_open" to table: "orders"
DROP INDEX "orders_open";
-- reverse: create index "order_owner_id" to table: "orders"
DROP INDEX "order_owner_id";
-- reverse: create "orders" table
DROP TABLE "orders";
-- reverse: create "mutexes" table
DROP TABLE "mutexes";
-- reverse: create index "holds_live" to table: "holds"
DROP INDEX "holds_live";
-- reverse: create index "hold_resource_released_at" to table: "holds"
DROP INDEX "hold_resource_released_at";
-- reverse: create "holds" table
DROP TABLE "holds";
-- reverse: create index "cards_reference" to table: "cards"
DROP INDEX "cards_reference";
-- reverse: create index "cards_order" to table: "cards"
DROP INDEX "cards_order";
-- reverse: create index "cards_live" to table: "cards"
DROP INDEX "cards_live";
-- reverse: create index "card_owner_created_at" to table: "cards"
DROP INDEX "card_owner_created_at";
-- reverse: create "cards" table
DROP TABLE "cards";
-- reverse: create index "attempts_open" to table: "attempts"
DROP INDEX "attempts_open";
-- reverse: create index "attempts_nonce" to table: "attempts"
DROP INDEX "attempts_nonce";
-- reverse: create index "attempt_payment_id_created_at" to table: "attempts"
DROP INDEX "attempt_payment_id_created_at";
-- reverse: create "attempts" table
DROP TABLE "attempts";
