-- +goose Up
-- modify "orders" table
ALTER TABLE "orders" ADD COLUMN "adopted" uuid NULL;
-- create index "orders_adopted" to table: "orders"
CREATE UNIQUE INDEX "orders_adopted" ON "orders" ("adopted") WHERE (adopted IS NOT NULL);

-- +goose Down
-- reverse: create index "orders_adopted" to table: "orders"
DROP INDEX "orders_adopted";
-- reverse: modify "orders" table
ALTER TABLE "orders" DROP COLUMN "adopted";
