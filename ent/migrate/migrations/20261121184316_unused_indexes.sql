-- +goose Up
-- drop index "ledgerposting_order_id" from table: "ledger_postings"
DROP INDEX "ledgerposting_order_id";
-- drop index "orders_operation_id_key" from table: "orders"
DROP INDEX "orders_operation_id_key";

-- +goose Down
-- reverse: drop index "orders_operation_id_key" from table: "orders"
CREATE UNIQUE INDEX "orders_operation_id_key" ON "orders" ("operation_id");
-- reverse: drop index "ledgerposting_order_id" from table: "ledger_postings"
CREATE INDEX "ledgerposting_order_id" ON "ledger_postings" ("order_id");
