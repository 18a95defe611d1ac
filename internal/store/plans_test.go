package store_test

import (
	"encoding/json"
	"testing"
	"time"

	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// pages is how many pages of the database each statement of the maintenance reads, when it changes nothing for good.
func pages(t *testing.T, s *store.Store, all []store.Statement) map[string]int {
	t.Helper()
	read := map[string]int{}
	for _, statement := range all {
		tx, err := s.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range statement.First {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		var plan []byte
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement.SQL,
			statement.Args...).Scan(&plan); err != nil {
			t.Fatalf("%s: %v", statement.Name, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		var explained []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal(plan, &explained); err != nil || len(explained) != 1 {
			t.Fatalf("%s: %s, %v", statement.Name, plan, err)
		}
		read[statement.Name] = explained[0].Plan.Hit + explained[0].Plan.Read
	}
	return read
}

// TestMaintenanceReadsNoMoreInALargerDatabase: what is due is found by an index, whether there is much of it, a little
// or nothing. Ten times the rows cost some levels of indexes more, for each row that is deleted.
func TestMaintenanceReadsNoMoreInALargerDatabase(t *testing.T) {
	storetest.NeedsOneServer(t, "plans are made by the workers")
	s := storetest.Open(t, storetest.URL(t)) // as the owner, who makes statistics
	const few, many, limit = 600, 6_000, 10
	fill := func(from, to int) {
		t.Helper()
		if err := kit.Sell(t.Context(), s.Pool(), from, to); err != nil {
			t.Fatal(err)
		}
		if err := kit.Leave(t.Context(), s.Pool(), from, to); err != nil {
			t.Fatal(err)
		}
		if err := kit.Look(t.Context(), s.Pool(), from, to); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			`INSERT INTO challenges (id, purpose, wallet, scheme, message, nonce, issued_at, expires_at)
			SELECT gen_random_uuid(), 'sign_in', '0x', 'eip191', repeat('m', 300), '', at, at FROM made`,
			`INSERT INTO sessions (id, wallet, scopes, token_hash, issued_at, expires_at)
			SELECT gen_random_uuid(), '0x', '[]', sha256(n::text::bytea), at, at FROM made`,
			`INSERT INTO webhook_events (id, provider, event_id, type, body, received_at)
			SELECT gen_random_uuid(), 'p', n::text, 't', decode(repeat('00', 300), 'hex'), at FROM made`,
			`INSERT INTO event_days (id, day, subject, value, events, visitors)
			SELECT gen_random_uuid(), at, 'name', n::text, 1, decode(repeat('00', 300), 'hex') FROM made`,
			`INSERT INTO orders (id, operation_id, kind, status, owner, idempotency_key, fingerprint, price_usd_cents,
				item, version, created_at, updated_at, expires_at)
			SELECT 'ord_' || status || n, gen_random_uuid(), 'card_issue', status, '0x', status || n,
				decode(repeat('00', 32), 'hex'), 2500, '{}', 2, at, at, at
			FROM made, (VALUES ('expired'), ('payment_required')) s (status)`,
		} {
			exec(t, s, `WITH made AS (SELECT n, timestamptz '2026-01-02 11:00Z' + n * interval '1 second' AS at
				FROM generate_series($1::int, $2::int) n) `+sql, from, to)
		}
		exec(t, s, "VACUUM ANALYZE")
	}
	due := map[string]time.Time{
		"nothing is due": time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		"much is due":    time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC),
	}
	small := map[string]map[string]int{}
	fill(1, few)
	for name, before := range due {
		small[name] = pages(t, s, store.Maintenance(before, limit))
	}
	fill(few+1, many)
	for name, before := range due {
		for statement, n := range pages(t, s, store.Maintenance(before, limit)) {
			if was := small[name][statement]; n > was+was/2+4*limit {
				t.Errorf("%s: %s reads %d pages, and %d with a tenth of the orders", name, statement, n, was)
			}
		}
	}
}
