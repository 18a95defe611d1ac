-- +goose Up
-- modify "holds" table
ALTER TABLE "holds" ADD COLUMN "suspended_at" timestamptz NULL;
-- create index "holds_suspended" to table: "holds"
CREATE INDEX "holds_suspended" ON "holds" ("order_id") WHERE (suspended_at IS NOT NULL);

-- +goose Down
-- reverse: create index "holds_suspended" to table: "holds"
DROP INDEX "holds_suspended";
-- reverse: modify "holds" table
ALTER TABLE "holds" DROP COLUMN "suspended_at";
