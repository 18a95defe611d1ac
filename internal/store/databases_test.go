package store_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// tablesSQL counts what is in each table, with what is too long for a row, and tells what each sequence gave last.
const tablesSQL = `SELECT relname::text, CASE relkind
		WHEN 'S' THEN CASE WHEN has_sequence_privilege(oid, 'SELECT') THEN coalesce(pg_sequence_last_value(oid), 0) ELSE 0 END
		ELSE (xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s', oid::regclass), false, true, '')
			))[1]::text::bigint END
	FROM pg_class WHERE relkind IN ('r', 'S') AND oid >= 16384`

func tables(t *testing.T, s *store.Store) map[string]int64 {
	t.Helper()
	rows, err := s.Pool().Query(t.Context(), tablesSQL)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	var name string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { all[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestUsedDatabaseIsAsNew: databases are handed on, and a test finds in them what the migrations leave.
func TestUsedDatabaseIsAsNew(t *testing.T) {
	storetest.NeedsOneServer(t, "each test has a database of its own")
	var first map[string]int64
	used := map[uint32]int{}
	handedOn := false
	for round := 0; !handedOn; round++ {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			s := storetest.New(t)
			found := tables(t, s)
			if first == nil {
				first = found
			}
			if diff := cmp.Diff(first, found); diff != "" {
				t.Errorf("something is left of an earlier test:\n%s", diff)
			}
			var id uint32
			err := s.Pool().QueryRow(t.Context(), "SELECT oid FROM pg_database WHERE datname = current_database()").Scan(&id)
			if err != nil {
				t.Fatal(err)
			}
			used[id]++
			handedOn = used[id] > 2

			paidOrder(t, s, "small", order.Provisioning, order.Fulfilled)
			exec(t, s, "INSERT INTO locks (id) SELECT repeat(n::text, 20) FROM generate_series(1, 1000) n") // large
			if cmp.Equal(first, tables(t, s)) {
				t.Error("the test has left nothing")
			}
		})
		if t.Failed() || round > 100 {
			t.Fatal("no database is handed on")
		}
	}
}

// TestOddDatabaseIsNotHandedOn: neither after more than rows has changed, nor while somebody is connected, nor after a
// failure.
func TestOddDatabaseIsNotHandedOn(t *testing.T) {
	storetest.NeedsOneServer(t, "each test has a database of its own")
	changes := map[string]string{
		"column":  "ALTER TABLE jobs ADD COLUMN odd text",
		"default": "ALTER TABLE jobs ALTER COLUMN kind SET DEFAULT 'odd'",
		"table":   "CREATE TABLE odd (id int)",
		"index":   "CREATE INDEX odd ON jobs (kind)",
		"trigger": "ALTER TABLE audit DISABLE TRIGGER USER",
		"function": "CREATE OR REPLACE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql " +
			"AS 'BEGIN RETURN NEW; END'",
		"constraint": "ALTER TABLE transfers DROP CONSTRAINT transfers_value",
		"sequence":   "ALTER TABLE transfers ALTER COLUMN id SET INCREMENT 2",
		"options":    "ALTER TABLE jobs SET (fillfactor = 50)",
		"rights":     "GRANT SELECT ON jobs TO PUBLIC",
		"role":       "CREATE ROLE odd",
		"setting":    "ALTER ROLE CURRENT_USER SET jit = on",
		"schema":     "CREATE SCHEMA odd",
		"statistics": "ANALYZE jobs",
		"seed":       "UPDATE goose_db_version SET tstamp = tstamp + interval '1 s'",
	}
	// What all databases of the server share makes all of them odd, until it is undone.
	shared := map[string]string{
		"role": "DROP ROLE odd", "setting": "ALTER ROLE CURRENT_USER RESET jit",
	}
	id := func(s *store.Store) (id uint32) {
		err := s.Pool().QueryRow(t.Context(), "SELECT oid FROM pg_database WHERE datname = current_database()").Scan(&id)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	odd := map[uint32]string{}
	for _, what := range slices.Sorted(maps.Keys(changes)) {
		t.Run(what, func(t *testing.T) {
			s := storetest.Open(t, storetest.URL(t)) // as the owner, who may do all of it
			if was := odd[id(s)]; was != "" {
				t.Errorf("handed on with another %s", was)
			}
			odd[id(s)] = what
			paidOrder(t, s, "k")
			exec(t, s, changes[what])
		})
		t.Run("after "+what, func(t *testing.T) {
			s := storetest.Open(t, storetest.URL(t)) // as the owner, who may do all of it
			if was := odd[id(s)]; was != "" {
				t.Errorf("handed on with another %s", was)
			}
			if undo := shared[what]; undo != "" {
				exec(t, s, undo)
				maps.DeleteFunc(odd, func(_ uint32, was string) bool { return was == what })
			}
		})
	}
	var open *pgx.Conn
	t.Run("connected", func(t *testing.T) {
		address := storetest.URL(t)
		odd[id(storetest.Open(t, address))] = "connection"
		var err error
		if open, err = pgx.Connect(t.Context(), address); err != nil {
			t.Fatal(err)
		}
	})
	defer open.Close(context.WithoutCancel(t.Context()))
	var former string
	t.Run("after connected", func(t *testing.T) {
		former = storetest.URL(t)
		if was := odd[id(storetest.Open(t, former))]; was != "" {
			t.Errorf("handed on with another %s", was)
		}
	})
	// Whoever has a former address gets no later test's database.
	for range 3 {
		t.Run("former", func(t *testing.T) {
			address := storetest.URL(t)
			was, err := url.Parse(former)
			if err != nil {
				t.Fatal(err)
			}
			if now, err := url.Parse(address); err != nil || strings.EqualFold(now.Path, was.Path) {
				t.Errorf("%v at %s again", err, now.Path)
			}
			former = address
		})
	}
}
