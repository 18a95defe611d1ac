-- Distributes a migrated, empty database by owner over the workers of Citus. The coordinator runs it once:
--
--   psql -v ON_ERROR_STOP=1 -f internal/store/citus.sql "$DATABASE_URL"
--
-- The tables that it does not name stay as they are, on the coordinator. docs/scale.md says what follows from that.

-- Whatever locks a row here writes nothing, so it costs no log. After a crash nobody holds a lock, and the rows are
-- made anew.
ALTER TABLE locks SET UNLOGGED;

-- Distributed tables have no triggers. What the program writes balances, as it checks itself, and a role that owns
-- nothing may not change what is written.
DROP TRIGGER timeline_append_only ON timeline;
DROP TRIGGER timeline_keeps_all ON timeline;
DROP TRIGGER ledger_postings_append_only ON ledger_postings;
DROP TRIGGER ledger_postings_keeps_all ON ledger_postings;
DROP TRIGGER ledger_entries_append_only ON ledger_entries;
DROP TRIGGER ledger_entries_keeps_all ON ledger_entries;
DROP TRIGGER ledger_entries_balance ON ledger_entries;

-- What is reserved of a float is counted in the shard of an order's owner, so a reservation is kept by the key of that
-- shard: a text with a hash in its range.
ALTER TABLE reservations ADD COLUMN shard varchar NOT NULL DEFAULT '';
ALTER TABLE reservations DROP CONSTRAINT reservations_pkey, ADD PRIMARY KEY (id, owner, shard);
DROP INDEX reservations_live;
CREATE UNIQUE INDEX reservations_live ON reservations (resource, order_id, owner, shard) WHERE released_at IS NULL;

SELECT create_distributed_table('orders', 'owner', shard_count := 8);
SELECT create_distributed_table(name, 'owner', colocate_with := 'orders')
FROM unnest(ARRAY['payments', 'refunds', 'cards', 'esim_profiles', 'esim_tokens', 'esim_topups', 'receipts',
	'timeline', 'ledger_postings', 'ledger_entries', 'jobs']) AS name;
SELECT create_distributed_table('reservations', 'shard', colocate_with := 'orders');
