-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER audit_keeps_all BEFORE TRUNCATE ON audit
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

-- Every job is updated several times in its life: leave room for it on the page, and vacuum early.
ALTER TABLE jobs SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

-- +goose Down
ALTER TABLE jobs RESET (fillfactor, autovacuum_vacuum_scale_factor);
DROP TRIGGER audit_keeps_all ON audit;
DROP TRIGGER audit_append_only ON audit;
DROP FUNCTION forbid_change();
