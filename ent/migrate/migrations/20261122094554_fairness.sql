-- +goose Up
-- modify "attempts" table
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_spent" CHECK (spent_wei >= 0), ADD COLUMN "spent_wei" bigint NOT NULL DEFAULT 0;
-- create index "attempts_age" to table: "attempts"
CREATE INDEX "attempts_age" ON "attempts" ("status", "created_at");
-- modify "holds" table
ALTER TABLE "holds" ADD COLUMN "settled_at" timestamptz NULL;
-- drop index "jobs_due" from table: "jobs"
DROP INDEX "jobs_due";
-- modify "jobs" table
ALTER TABLE "jobs" ADD CONSTRAINT "jobs_class" CHECK ((class)::text = ANY ((ARRAY['settle'::character varying, 'deliver'::character varying, 'maintain'::character varying])::text[])), ADD COLUMN "class" character varying NOT NULL DEFAULT 'maintain';
-- create index "jobs_due" to table: "jobs"
CREATE INDEX "jobs_due" ON "jobs" ("class", "run_at") WHERE ((status)::text = 'queued'::text);
-- create index "payments_undecided" to table: "payments"
CREATE INDEX "payments_undecided" ON "payments" ("payer") WHERE ((status)::text = 'claimed'::text);
-- what is under way keeps its place
UPDATE "jobs" SET "class" = 'settle' WHERE "kind" = 'order_carry' AND "status" <> 'succeeded';
UPDATE "jobs" SET "class" = 'deliver' WHERE "kind" = 'card_issue_fee' AND "status" <> 'succeeded';
UPDATE "holds" SET "settled_at" = now() FROM "orders"
	WHERE "orders"."id" = "holds"."order_id" AND "holds"."released_at" IS NULL AND "orders"."status" NOT IN ('payment_required', 'settling');

-- +goose Down
-- reverse: create index "payments_undecided" to table: "payments"
DROP INDEX "payments_undecided";
-- reverse: create index "jobs_due" to table: "jobs"
DROP INDEX "jobs_due";
-- reverse: modify "jobs" table
ALTER TABLE "jobs" DROP COLUMN "class", DROP CONSTRAINT "jobs_class";
-- reverse: drop index "jobs_due" from table: "jobs"
CREATE INDEX "jobs_due" ON "jobs" ("run_at") WHERE ((status)::text = 'queued'::text);
-- reverse: modify "holds" table
ALTER TABLE "holds" DROP COLUMN "settled_at";
-- reverse: create index "attempts_age" to table: "attempts"
DROP INDEX "attempts_age";
-- reverse: modify "attempts" table
ALTER TABLE "attempts" DROP COLUMN "spent_wei", DROP CONSTRAINT "attempts_spent";
