-- +goose Up
-- create "resolutions" table
CREATE TABLE "resolutions" ("id" character varying NOT NULL, "resolution" character varying NOT NULL, "reason" text NOT NULL, "actor" character varying NOT NULL, "at" timestamptz NOT NULL, PRIMARY KEY ("id"), CONSTRAINT "resolutions_resolution" CHECK ((resolution)::text = ANY ((ARRAY['refunded_by_hand'::character varying, 'donation'::character varying, 'known'::character varying])::text[])));
-- modify "ledger_postings" table
ALTER TABLE "ledger_postings" DROP CONSTRAINT "ledger_postings_kind", ADD CONSTRAINT "ledger_postings_kind" CHECK ((kind)::text = ANY ((ARRAY['settled'::character varying, 'loaded'::character varying, 'load_fee'::character varying, 'fee_withdrawn'::character varying, 'sold'::character varying, 'supplied'::character varying, 'refunded'::character varying, 'unmatched'::character varying, 'resolved'::character varying])::text[]));

CREATE TRIGGER resolutions_append_only BEFORE UPDATE OR DELETE ON resolutions
	FOR EACH ROW EXECUTE FUNCTION forbid_change();
CREATE TRIGGER resolutions_keeps_all BEFORE TRUNCATE ON resolutions
	FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();

-- +goose Down
DROP TRIGGER resolutions_keeps_all ON resolutions;
DROP TRIGGER resolutions_append_only ON resolutions;
-- reverse: modify "ledger_postings" table. The postings stay, and so does the constraint that allows them.
-- reverse: create "resolutions" table
DROP TABLE "resolutions";
