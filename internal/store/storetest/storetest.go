// Package storetest gives each test a migrated database of its own.
package storetest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
)

// template is the database that each test's is copied from.
const template = "migrated"

// server is the test binary's one PostgreSQL: started by the first test that needs it, stopped by Main,
// or by the kernel when the process dies.
var server struct {
	sync.Mutex
	postgres *devnet.Postgres
	citus    *cluster
	err      error
}

// Runner runs tests, as *testing.M does.
type Runner interface{ Run() int }

// Main runs a package's tests and stops the server after them. A package that uses New has
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
func Main(m Runner) int {
	defer func() {
		server.Lock()
		defer server.Unlock()
		if server.postgres != nil {
			_ = server.postgres.Close() // a throwaway; nothing depends on how it ended
		}
		if server.citus != nil {
			server.citus.close()
		}
	}()
	return m.Run()
}

// New opens a store on a fresh, migrated database.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, URL(t))
}

// Open opens another store on a database, as another process would.
func Open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{URL: url, MaxConns: 10, Products: Products()})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Products are all that is sold.
func Products() []store.Product {
	return []store.Product{store.CardProduct(), store.TopupProduct(), store.EsimProduct(), store.EsimTopupProduct()}
}

// Kinds are those of Products.
func Kinds() (all []order.Kind) {
	for _, p := range Products() {
		all = append(all, p.Kind)
	}
	return all
}

// URL makes a fresh, migrated database and returns its address. It is dropped at the end of the test.
func URL(t testing.TB) string {
	t.Helper()
	if c := citus(t); c != nil {
		return c.fresh(t)
	}
	return copyOf(t, template)
}

// EmptyURL is URL without the migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return copyOf(t, "template0")
}

func copyOf(t testing.TB, source string) string {
	t.Helper()
	base := start(t)
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, base, "CREATE DATABASE "+name+" TEMPLATE "+source)
	t.Cleanup(func() { execute(t, base, "DROP DATABASE "+name+" WITH (FORCE)") })
	return withDatabase(base, name)
}

func start(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if server.postgres == nil && server.err == nil {
		server.postgres, server.err = startMigrated()
	}
	if server.err != nil {
		t.Fatalf("start PostgreSQL: %v", server.err)
	}
	return server.postgres.URL()
}

func startMigrated() (*devnet.Postgres, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	postgres, err := devnet.StartPostgres(ctx, devnet.PostgresConfig{Throwaway: true})
	if err != nil {
		return nil, err
	}
	if err := run(ctx, postgres.URL(), "CREATE DATABASE "+template); err != nil {
		return nil, fmt.Errorf("make template: %w", err)
	}
	if _, err := store.Migrate(ctx, withDatabase(postgres.URL(), template), nil); err != nil {
		return nil, fmt.Errorf("migrate template: %w", err)
	}
	return postgres, nil
}

func execute(t testing.TB, url, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, url, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func run(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func withDatabase(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // devnet wrote it
	}
	u.Path = "/" + name
	return u.String()
}
