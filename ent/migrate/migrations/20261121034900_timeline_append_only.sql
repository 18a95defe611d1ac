-- +goose Up
CREATE TRIGGER timeline_append_only BEFORE UPDATE OR DELETE ON timeline
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER timeline_keeps_all BEFORE TRUNCATE ON timeline
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

-- +goose Down
DROP TRIGGER timeline_keeps_all ON timeline;
DROP TRIGGER timeline_append_only ON timeline;
