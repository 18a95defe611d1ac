-- +goose Up
-- modify "cards" table
ALTER TABLE "cards" ADD COLUMN "load_usd_cents" bigint NOT NULL DEFAULT 2500;
-- modify "ledger_postings" table
ALTER TABLE "ledger_postings" DROP CONSTRAINT "ledger_postings_kind", ADD CONSTRAINT "ledger_postings_kind" CHECK ((kind)::text = ANY ((ARRAY['settled'::character varying, 'loaded'::character varying, 'load_fee'::character varying, 'fee_withdrawn'::character varying, 'fee_kept'::character varying, 'fee_owed'::character varying, 'fee_collected'::character varying, 'fee_written_off'::character varying, 'sold'::character varying, 'supplied'::character varying, 'refunded'::character varying, 'unmatched'::character varying, 'matched'::character varying, 'resolved'::character varying])::text[]));

-- What was owed before it was recorded: the issuer's last word on these withdrawals is that too little is on the card.
WITH owed AS (
	UPDATE jobs SET payload = payload || '{"owed": true}'
	WHERE kind = 'card_issue_fee' AND status = 'failed' AND last_error = 'card_funds_insufficient'
	RETURNING payload->>'order' AS order_id, payload->>'card' AS card, (payload->>'amountUsdCents')::bigint * 10000 AS units
), postings AS (
	INSERT INTO ledger_postings (id, order_id, kind, at) SELECT 'fee_owed/' || order_id, order_id, 'fee_owed', now() FROM owed
)
INSERT INTO ledger_entries (posting_id, account, amount)
SELECT 'fee_owed/' || o.order_id, e.account, e.amount
FROM owed o, LATERAL (VALUES ('receivable:' || o.card, o.units), ('revenue:issue_fee', -o.units)) AS e (account, amount);

-- +goose Down
-- reverse: modify "ledger_postings" table. The postings stay, and so does the constraint that allows them.
-- reverse: modify "cards" table
ALTER TABLE "cards" DROP COLUMN "load_usd_cents";
