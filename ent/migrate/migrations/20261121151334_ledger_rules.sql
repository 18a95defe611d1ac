-- +goose Up
-- +goose StatementBegin
-- A posting is written whole by one statement, so it can be judged at the end of that one. What is added to
-- a posting later is judged together with what was there.
CREATE FUNCTION require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	wrong text;
BEGIN
	SELECT posting_id INTO wrong FROM ledger_entries
	WHERE posting_id IN (SELECT posting_id FROM added)
	GROUP BY posting_id HAVING sum(amount) <> 0 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'posting % is not balanced', wrong USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER ledger_entries_balance AFTER INSERT ON ledger_entries
	REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION require_balance();

CREATE TRIGGER ledger_postings_append_only BEFORE UPDATE OR DELETE ON ledger_postings
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_postings_keeps_all BEFORE TRUNCATE ON ledger_postings
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER ledger_entries_keeps_all BEFORE TRUNCATE ON ledger_entries
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();
CREATE TRIGGER arrivals_append_only BEFORE UPDATE OR DELETE ON arrivals
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER arrivals_keeps_all BEFORE TRUNCATE ON arrivals
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

-- What happened before there was a ledger.
WITH entries (posting_id, order_id, kind, at, account, amount) AS (
	SELECT 'settled/' || p.order_id, p.order_id, 'settled', p.settled_at, e.account, e.amount
	FROM payments p,
		LATERAL (VALUES ('treasury:usdc', p.value), ('customer:' || p.order_id, -p.value)) AS e (account, amount)
	WHERE p.status = 'paid'
	UNION ALL
	SELECT 'loaded/' || l.order_id, l.order_id, 'loaded', l.at, e.account, e.amount
	FROM (
			SELECT o.id AS order_id, c.id::text AS card, o.price_usd_cents * 10000 AS units, c.updated_at AS at
			FROM cards c JOIN orders o ON o.id = c.order_id WHERE c.status IN ('ACTIVE', 'FROZEN', 'CLOSED')
			UNION ALL
			SELECT o.id, o.item->>'card', (o.item->>'cardCreditUsdCents')::bigint * 10000, o.updated_at
			FROM orders o WHERE o.kind = 'card_topup' AND o.status = 'fulfilled'
		) l,
		LATERAL (VALUES ('issuer:float', -l.units), ('card:' || l.card, l.units),
			('customer:' || l.order_id, l.units), ('holder:' || l.card, -l.units)) AS e (account, amount)
	UNION ALL
	SELECT 'load_fee/' || o.id, o.id, 'load_fee', o.updated_at, e.account, e.sign * (o.item->>'loadFeeUsdCents')::bigint * 10000
	FROM orders o,
		LATERAL (VALUES ('customer:' || o.id, 1), ('revenue:load_fee', -1)) AS e (account, sign)
	WHERE o.kind = 'card_topup' AND o.status = 'fulfilled'
	UNION ALL
	SELECT 'fee_withdrawn/' || (j.payload->>'order'), j.payload->>'order', 'fee_withdrawn', j.finished_at, e.account,
		e.sign * (j.payload->>'amountUsdCents')::bigint * 10000
	FROM jobs j,
		LATERAL (VALUES ('card:' || (j.payload->>'card'), -1), ('issuer:float', 1),
			('holder:' || (j.payload->>'card'), 1), ('revenue:issue_fee', -1)) AS e (account, sign)
	WHERE j.kind = 'card_issue_fee' AND j.status = 'succeeded'
), postings AS (
	INSERT INTO ledger_postings (id, order_id, kind, at) SELECT DISTINCT posting_id, order_id, kind, at FROM entries
)
INSERT INTO ledger_entries (posting_id, account, amount) SELECT posting_id, account, amount FROM entries;

-- +goose Down
DROP TRIGGER arrivals_keeps_all ON arrivals;
DROP TRIGGER arrivals_append_only ON arrivals;
DROP TRIGGER ledger_entries_keeps_all ON ledger_entries;
DROP TRIGGER ledger_entries_append_only ON ledger_entries;
DROP TRIGGER ledger_postings_keeps_all ON ledger_postings;
DROP TRIGGER ledger_postings_append_only ON ledger_postings;
DROP TRIGGER ledger_entries_balance ON ledger_entries;
DROP FUNCTION require_balance();
