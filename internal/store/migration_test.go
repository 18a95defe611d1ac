package store_test

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent/migrate/migrations"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// migrationsAnd are the program's migrations and more.
func migrationsAnd(t *testing.T, more map[string]string) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range more {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// told is a log that signals each of its lines that has a text.
type told struct {
	mu   sync.Mutex
	all  bytes.Buffer
	text string
	seen chan struct{}
}

func newTold(text string) *told { return &told{text: text, seen: make(chan struct{}, 1000)} }

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	if bytes.Contains(p, []byte(l.text)) {
		l.seen <- struct{}{}
	}
	return len(p), nil
}

func (l *told) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// reading begins a transaction that has read the orders and will read them again, and returns what ends it.
func reading(t *testing.T, url string) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM orders"); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = tx.Rollback(context.WithoutCancel(t.Context())) // the connection ends either way
		_ = conn.Close(context.WithoutCancel(t.Context()))
	})
	t.Cleanup(end)
	return end
}

// A statement that waits for a table keeps everybody else waiting behind it. The report ends only after buyers got
// through, so with a migration that waits for it this test would not end.
func TestMigrationGivesWayToSales(t *testing.T) {
	url := storetest.URL(t)
	s := storetest.Open(t, url)
	endReport := reading(t, url)
	files := migrationsAnd(t, map[string]string{
		"29990101000000_gift.sql": "-- +goose Up\nALTER TABLE orders ADD COLUMN gift_note text;\n",
	})
	log := newTold("gave way")
	done := make(chan error, 1)
	go func() {
		_, err := store.MigrateWith(t.Context(), url, files, slog.New(slog.NewTextHandler(log, nil)), 300*time.Millisecond,
			time.Minute)
		done <- err
	}()
	buying, stop := context.WithCancel(t.Context())
	defer stop()
	buyers := make(chan error, 1)
	var bought atomic.Int64
	go func() { buyers <- buy(buying, s, &bought) }()
	for range 3 { // it has waited, gave way, and waited again
		select {
		case <-log.seen:
		case err := <-buyers:
			t.Fatalf("a buyer next to the migration: %v", err)
		case err := <-done:
			t.Fatalf("migrated over an open transaction: %v\n%s", err, log)
		}
	}
	stop()
	if err := <-buyers; err != nil || bought.Load() == 0 {
		t.Fatalf("%d got through next to the migration: %v", bought.Load(), err)
	}
	endReport()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if said := log.String(); !strings.Contains(said, "for=orders") || !strings.Contains(said, "migration waits") {
		t.Errorf("it does not say what it waited for:\n%s", said)
	}
	if _, err := s.Pool().Exec(t.Context(), "SELECT gift_note FROM orders"); err != nil {
		t.Error(err)
	}
}

// buy changes an order again and again until ctx ends, and is an error when that takes as long as a buyer waits.
func buy(ctx context.Context, s *store.Store, bought *atomic.Int64) error {
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		_, err := s.Pool().Exec(one, "UPDATE orders SET version = version WHERE id = 'ord_none'")
		cancel()
		if err != nil {
			return err
		}
		bought.Add(1)
	}
	return nil
}

func TestMigrationGivesUpInTheEnd(t *testing.T) {
	url := storetest.URL(t)
	reading(t, url)
	files := migrationsAnd(t, map[string]string{
		"29990101000000_gift.sql": "-- +goose Up\nALTER TABLE orders ADD COLUMN gift_note text;\n",
	})
	n, err := store.MigrateWith(t.Context(), url, files, nil, 50*time.Millisecond, 200*time.Millisecond)
	if err == nil || n != 0 || !strings.Contains(err.Error(), "no lock within") {
		t.Errorf("%d, %v", n, err)
	}
}

// An index is built while older transactions are open and buyers write, and waits for the former without a timeout.
func TestIndexIsBuiltConcurrently(t *testing.T) {
	url := storetest.URL(t)
	s := storetest.Open(t, url)
	endReport := reading(t, url)
	files := migrationsAnd(t, map[string]string{"29990101000000_index.sql": concurrently})
	log := newTold("migration waits")
	done := make(chan error, 1)
	go func() {
		_, err := store.MigrateWith(t.Context(), url, files, slog.New(slog.NewTextHandler(log, nil)), 10*time.Millisecond,
			time.Minute)
		done <- err
	}()
	select {
	case <-log.seen:
	case err := <-done:
		t.Fatalf("the index is there before the transaction ended: %v\n%s", err, log)
	}
	if _, err := s.Pool().Exec(t.Context(), "UPDATE orders SET version = version WHERE id = 'ord_none'"); err != nil {
		t.Fatalf("a buyer next to the index: %v", err)
	}
	endReport()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	var valid bool
	if err := s.Pool().QueryRow(t.Context(),
		"SELECT indisvalid FROM pg_index WHERE indexrelid = 'orders_gift'::regclass").Scan(&valid); err != nil || !valid {
		t.Errorf("valid %t, %v", valid, err)
	}
}

const concurrently = `-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS orders_gift;
CREATE INDEX CONCURRENTLY orders_gift ON orders (updated_at, id);
`

// What runs outside a transaction stays half done when it fails, so each statement can be repeated: an index that could
// not be built is dropped first.
func TestFilesWithoutATransactionCanBeRepeated(t *testing.T) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		if why := unrepeatable(string(text)); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	for text, ok := range map[string]bool{
		concurrently: true,
		strings.Replace(concurrently, "DROP INDEX CONCURRENTLY IF EXISTS orders_gift;", "", 1): false,
		strings.ReplaceAll(concurrently, "CONCURRENTLY ", ""):                                  false,
		concurrently + "ALTER TABLE orders ADD COLUMN gift_note text;\n":                       false,
		strings.Replace(concurrently, "-- +goose NO TRANSACTION\n", "", 1):                     false,
	} {
		if why := unrepeatable(text); (why == "") != ok {
			t.Errorf("%q in:\n%s", why, text)
		}
	}
}

var indexes = regexp.MustCompile(`^(DROP INDEX CONCURRENTLY IF EXISTS|CREATE (?:UNIQUE )?INDEX CONCURRENTLY) (\w+)`)

// unrepeatable says why a file without a transaction cannot be tried again; empty when it can.
func unrepeatable(text string) string {
	if !strings.Contains(text, "-- +goose NO TRANSACTION") {
		if strings.Contains(text, "CONCURRENTLY") {
			return "an index is built concurrently outside a transaction only"
		}
		return ""
	}
	var dropped string
	for statement := range strings.SplitSeq(text, ";") {
		var lines []string
		for line := range strings.Lines(statement) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		found := indexes.FindStringSubmatch(strings.Join(lines, " "))
		switch {
		case found == nil:
			return "it does more than drop and create indexes concurrently"
		case strings.HasPrefix(found[1], "DROP"):
			dropped = found[2]
		case dropped != found[2]:
			return "index " + found[2] + " is not dropped first"
		}
	}
	return ""
}

func TestOneProcessMigratesAtATime(t *testing.T) {
	url := storetest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	// As a program of an older release takes it.
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(4097083626)"); err != nil {
		t.Fatal(err)
	}
	files := migrationsAnd(t, map[string]string{"29990101000000_one.sql": "-- +goose Up\nCREATE TABLE gifts (id int);\n"})
	log := newTold("another process")
	done := make(chan error, 1)
	go func() {
		_, err := store.MigrateWith(t.Context(), url, files, slog.New(slog.NewTextHandler(log, nil)), time.Second,
			time.Minute)
		done <- err
	}()
	select {
	case <-log.seen:
	case err := <-done:
		t.Fatalf("two migrate at once: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock(4097083626)"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}
