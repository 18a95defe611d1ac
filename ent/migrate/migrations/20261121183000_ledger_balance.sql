-- +goose Up
-- +goose StatementBegin
-- A posting is written whole by one statement, so what the statement adds balances by itself. Whatever was there did
-- too, so nothing of it is read: judging a posting costs the same however long the books are.
CREATE OR REPLACE FUNCTION require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	wrong text;
BEGIN
	SELECT posting_id INTO wrong FROM added GROUP BY posting_id HAVING sum(amount) <> 0 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'posting % is not balanced', wrong USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
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
