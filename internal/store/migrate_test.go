package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/roamcard/roamcard/ent/migrate"
	"github.com/roamcard/roamcard/ent/migrate/migrations"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestReplicasMigrateOnce(t *testing.T) {
	url := storetest.EmptyURL(t)
	s := storetest.Open(t, url)
	if err := s.CheckSchema(t.Context()); !errors.Is(err, store.ErrSchemaBehind) {
		t.Errorf("before: %v", err)
	}
	var applied atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			n, err := store.Migrate(t.Context(), url, nil)
			if err != nil {
				t.Errorf("Migrate: %v", err)
			}
			applied.Add(int32(n))
		})
	}
	wg.Wait()
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil || int(applied.Load()) != len(files) {
		t.Errorf("applied %d of %d files, %v", applied.Load(), len(files), err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	}
	if _, err := s.Pool().Exec(t.Context(),
		"DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckSchema(t.Context()); !errors.Is(err, store.ErrSchemaBehind) {
		t.Errorf("the last file missing: %v", err)
	}
}

// A difference here means that ent/schema was changed without ent/migrate/new.sh.
func TestMigrationsMakeTheSchema(t *testing.T) {
	storetest.NeedsOneServer(t, "the schema has another key of reservations, and no triggers")
	config, err := pgx.ParseConfig(storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	var difference bytes.Buffer
	schema := migrate.NewSchema(entsql.OpenDB(dialect.Postgres, db))
	if err := schema.WriteTo(t.Context(), &difference); err != nil {
		t.Fatal(err)
	}
	if difference.Len() > 0 {
		t.Errorf("the schema needs a migration:\n%s", &difference)
	}
}

// orderRows are the tables of orders and of what belongs to them.
var orderRows = []string{
	"orders", "payments", "refunds", "reservations", "cards", "esim_profiles", "esim_tokens", "esim_topups", "receipts",
	"timeline", "ledger_postings", "ledger_entries", "jobs",
}

// A unique key without the owner would keep its table from being distributed by owner.
func TestKeysOfAnOrdersRowsIncludeItsOwner(t *testing.T) {
	s := storetest.New(t)
	rows, err := s.Pool().Query(t.Context(), `
		SELECT t.relname, i.relname, 'owner' = ANY (ARRAY(
			SELECT a.attname FROM pg_attribute a WHERE a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey)))
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
		WHERE x.indisunique AND t.relnamespace = current_schema()::regnamespace AND t.relname = ANY ($1)`, orderRows)
	if err != nil {
		t.Fatal(err)
	}
	keyed := map[string]bool{}
	var table, index string
	var owned bool
	if _, err := pgx.ForEachRow(rows, []any{&table, &index, &owned}, func() error {
		keyed[table] = true
		if !owned {
			t.Errorf("%s of %s is unique without the owner", index, table)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, table := range orderRows {
		if !keyed[table] {
			t.Errorf("%s has no unique key", table)
		}
	}
}

// A table that names an order belongs to it, or is one of those that only mention orders.
func TestRowsOfAnOrderHaveAnOwner(t *testing.T) {
	telling := map[string]bool{"findings": true, "issuer_lines": true}
	s := storetest.New(t)
	rows, err := s.Pool().Query(t.Context(), `SELECT table_name::text FROM information_schema.columns
		WHERE table_schema = current_schema() AND column_name = 'order_id'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < len(telling) {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		if !telling[table] && !slices.Contains(orderRows, table) {
			t.Errorf("%s names an order and is not among the tables of its owner", table)
		}
	}
}

// The schema does not list the products; a column that names one is checked to hold a name.
func TestKindsAreNamesOfProducts(t *testing.T) {
	s := storetest.New(t)
	for kind, ok := range map[string]bool{
		"esim": true, "card_topup": true, "something_new": true, "": false, "Esim": false, "e-sim": false, "_esim": false,
		strings.Repeat("a", 33): false, "provider.": false, "provider.Lithic": false,
	} {
		_, err := s.Pool().Exec(t.Context(), `INSERT INTO kill_switches (id, paused, reason, actor, changed_at)
			VALUES ($1, false, '', '', now())`, kind)
		if (err == nil) != ok {
			t.Errorf("%q as a product: %v", kind, err)
		}
		_, err = s.Pool().Exec(t.Context(), `INSERT INTO orders (id, operation_id, kind, status, owner, idempotency_key,
			fingerprint, price_usd_cents, item, version, created_at, updated_at)
			VALUES ('ord_' || $1, $2, $1, 'fulfilled', '0x1', '', '', 1, '{}', 1, now(), now())`, kind, uuid.New())
		if (err == nil) != ok {
			t.Errorf("an order of %q: %v", kind, err)
		}
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	s := storetest.Open(t, storetest.URL(t)) // as the owner, whom triggers hold back, too
	exec := func(sql string, args ...any) error {
		_, err := s.Pool().Exec(t.Context(), sql, args...)
		return err
	}
	if err := exec("INSERT INTO audit (id, at, actor, action, subject) VALUES ($1, now(), 'a', 'b', 'c')",
		uuid.New()); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"UPDATE audit SET actor = 'x'", "DELETE FROM audit", "TRUNCATE audit"} {
		if exec(sql) == nil {
			t.Errorf("%s went through", sql)
		}
	}
}
