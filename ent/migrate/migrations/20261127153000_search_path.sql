-- +goose Up
-- A trigger's function runs with the caller's search_path unless it has one of its own, and a caller's temporary table
-- comes before ours of the same name. So each has a path, and names tables by the schema that its own table is in.
ALTER FUNCTION forbid_change() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION forbid_change_of_audit() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION require_balance() SET search_path = pg_catalog, pg_temp;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forbid_change_of_timeline() RETURNS trigger LANGUAGE plpgsql
	SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	superseded boolean;
BEGIN
	IF TG_OP = 'DELETE' AND OLD.to_status = 'expired' THEN
		RETURN OLD;
	END IF;
	IF TG_OP = 'DELETE' AND OLD.at < now() - interval '1 day' AND OLD.actor NOT LIKE 'operator:%' THEN
		EXECUTE format('SELECT status IN (''fulfilled'', ''refunded'') AND version > $1 FROM %I.orders
			WHERE id = $2 AND owner = $3 LIMIT 1', TG_TABLE_SCHEMA)
			INTO superseded USING OLD.version, OLD.order_id, OLD.owner;
		IF superseded THEN
			RETURN OLD;
		END IF;
	END IF;
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

-- +goose Down
ALTER FUNCTION forbid_change() RESET search_path;
ALTER FUNCTION forbid_change_of_audit() RESET search_path;
ALTER FUNCTION require_balance() RESET search_path;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forbid_change_of_timeline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' AND OLD.to_status = 'expired' THEN
		RETURN OLD;
	END IF;
	IF TG_OP = 'DELETE' AND OLD.at < now() - interval '1 day' AND OLD.actor NOT LIKE 'operator:%' AND (
		SELECT status IN ('fulfilled', 'refunded') AND version > OLD.version FROM orders
		WHERE id = OLD.order_id AND owner = OLD.owner LIMIT 1) THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
