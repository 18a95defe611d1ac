-- +goose Up
-- drop index "hold_resource_released_at" from table: "holds"
DROP INDEX "hold_resource_released_at";
-- drop index "holds_live" from table: "holds"
DROP INDEX "holds_live";
-- create index "holds_live" to table: "holds"
CREATE UNIQUE INDEX "holds_live" ON "holds" ("resource", "order_id") WHERE (released_at IS NULL);
-- create index "holds_order" to table: "holds"
CREATE INDEX "holds_order" ON "holds" ("order_id") WHERE (released_at IS NULL);
-- create index "holds_released" to table: "holds"
CREATE INDEX "holds_released" ON "holds" ("resource", "released_at") WHERE (released_at IS NOT NULL);

-- +goose Down
-- reverse: create index "holds_released" to table: "holds"
DROP INDEX "holds_released";
-- reverse: create index "holds_order" to table: "holds"
DROP INDEX "holds_order";
-- reverse: create index "holds_live" to table: "holds"
DROP INDEX "holds_live";
-- reverse: drop index "holds_live" from table: "holds"
CREATE UNIQUE INDEX "holds_live" ON "holds" ("order_id", "resource") WHERE (released_at IS NULL);
-- reverse: drop index "hold_resource_released_at" from table: "holds"
CREATE INDEX "hold_resource_released_at" ON "holds" ("resource", "released_at");
