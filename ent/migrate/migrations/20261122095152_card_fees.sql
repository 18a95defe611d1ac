-- +goose Up
-- modify "cards" table
ALTER TABLE "cards" ADD COLUMN "load_usd_cents" bigint NOT NULL DEFAULT 2500;
-- modify "ledger_postings" table
ALTER TABLE "ledger_postings" DROP CONSTRAINT "ledger_postings_kind", ADD CONSTRAINT "ledger_postings_kind" CHECK ((kind)::text = ANY ((ARRAY['settled'::character varying, 'loaded'::character varying, 'load_fee'::character varying, 'fee_withdrawn'::character varying, 'fee_kept'::character varying, 'fee_owed'::character varying, 'fee_collected'::character varying, 'fee_written_off'::character varying, 'sold'::character varying, 'supplied'::character varying, 'refunded'::character varying, 'unmatched'::character varying, 'matched'::character varying, 'resolved'::character varying])::text[]));

-- +goose Down
-- reverse: modify "ledger_postings" table. The postings stay, and so does the constraint that allows them.
-- reverse: modify "cards" table
ALTER TABLE "cards" DROP COLUMN "load_usd_cents";
