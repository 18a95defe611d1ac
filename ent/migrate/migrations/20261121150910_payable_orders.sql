-- +goose Up
-- modify "orders" table
ALTER TABLE "orders" ADD COLUMN "resource" character varying NOT NULL DEFAULT '';
-- create index "orders_unpaid" to table: "orders"
CREATE INDEX "orders_unpaid" ON "orders" ("expires_at") WHERE ((status)::text = 'payment_required'::text);

-- +goose Down
-- reverse: create index "orders_unpaid" to table: "orders"
DROP INDEX "orders_unpaid";
-- reverse: modify "orders" table
ALTER TABLE "orders" DROP COLUMN "resource";
