-- +goose Up
-- modify "esim_profiles" table
ALTER TABLE "esim_profiles" ADD CONSTRAINT "esim_profiles_cost" CHECK (cost_micros >= 0), ADD COLUMN "cost_micros" bigint NOT NULL DEFAULT 0;
-- modify "ledger_postings" table
ALTER TABLE "ledger_postings" DROP CONSTRAINT "ledger_postings_kind", ADD CONSTRAINT "ledger_postings_kind" CHECK ((kind)::text = ANY ((ARRAY['settled'::character varying, 'loaded'::character varying, 'load_fee'::character varying, 'fee_withdrawn'::character varying, 'sold'::character varying, 'supplied'::character varying, 'refunded'::character varying, 'unmatched'::character varying])::text[]));

-- What was sold before eSIMs were posted. What the supplier charged for them is not known.
WITH sales (posting_id, order_id, at, account, amount) AS (
	SELECT 'sold/' || o.id, o.id, o.updated_at, e.account, e.sign * o.price_usd_cents * 10000
	FROM orders o,
		LATERAL (VALUES ('customer:' || o.id, 1), ('revenue:esim', -1)) AS e (account, sign)
	WHERE o.kind = 'esim' AND o.status = 'fulfilled' AND NOT EXISTS (SELECT FROM ledger_postings WHERE id = 'sold/' || o.id)
), postings AS (
	INSERT INTO ledger_postings (id, order_id, kind, at) SELECT DISTINCT posting_id, order_id, 'sold', at FROM sales
)
INSERT INTO ledger_entries (posting_id, account, amount) SELECT posting_id, account, amount FROM sales;

-- +goose Down
-- reverse: modify "ledger_postings" table. The postings stay, and so does the constraint that allows them.
-- reverse: modify "esim_profiles" table
ALTER TABLE "esim_profiles" DROP COLUMN "cost_micros", DROP CONSTRAINT "esim_profiles_cost";
