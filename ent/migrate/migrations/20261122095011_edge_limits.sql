-- +goose Up
-- create "rates" table: counts are worth no log, and begin anew after a crash
CREATE UNLOGGED TABLE "rates" ("id" character varying NOT NULL, "full_at" timestamptz NOT NULL, PRIMARY KEY ("id"));
ALTER TABLE "rates" SET (fillfactor = 70);

-- An order that expired unpaid has touched no money: it and its line in the timeline may go. Every other line stays.
-- +goose StatementBegin
CREATE FUNCTION forbid_change_of_timeline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' AND OLD.to_status = 'expired' THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
DROP TRIGGER timeline_append_only ON timeline;
CREATE TRIGGER timeline_append_only BEFORE UPDATE OR DELETE ON timeline
	FOR EACH ROW EXECUTE FUNCTION forbid_change_of_timeline();

-- +goose Down
DROP TRIGGER timeline_append_only ON timeline;
CREATE TRIGGER timeline_append_only BEFORE UPDATE OR DELETE ON timeline
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
DROP FUNCTION forbid_change_of_timeline();
-- reverse: create "rates" table
DROP TABLE "rates";
