package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/migrate"
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
	files, err := fs.Glob(migrate.Files, "migrations/*.sql")
	if err != nil || int(applied.Load()) != len(files) {
		t.Errorf("applied %d of %d files, %v", applied.Load(), len(files), err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	}
	if _, err := s.Pool().Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckSchema(t.Context()); !errors.Is(err, store.ErrSchemaBehind) {
		t.Errorf("one file missing: %v", err)
	}
}

// A difference here means that ent/schema was changed without ent/migrate/new.sh.
func TestMigrationsGiveTheSchema(t *testing.T) {
	config, err := pgx.ParseConfig(storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	var difference bytes.Buffer
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db)))
	if err := client.Schema.WriteTo(t.Context(), &difference); err != nil {
		t.Fatal(err)
	}
	if difference.Len() > 0 {
		t.Errorf("the schema needs a migration:\n%s", &difference)
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	s := storetest.New(t)
	exec := func(sql string, args ...any) error {
		_, err := s.Pool().Exec(t.Context(), sql, args...)
		return err
	}
	if err := exec("INSERT INTO audit (id, at, actor, action, subject) VALUES ($1, now(), 'a', 'b', 'c')", uuid.New()); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"UPDATE audit SET actor = 'x'", "DELETE FROM audit", "TRUNCATE audit"} {
		if exec(sql) == nil {
			t.Errorf("%s went through", sql)
		}
	}
}
