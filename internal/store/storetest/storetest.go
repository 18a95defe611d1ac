// Package storetest gives each test a migrated database of its own.
package storetest

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

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
	// admin is connected to the server, not to a test's database.
	admin *pgx.Conn
	// asNew is how the template is.
	asNew state
	// used are the databases of tests that have passed, the last one at the end.
	used []string
}

// settings make the server cheap: what it writes is thrown away, and each connection is a process of its own.
var settings = []string{
	"shared_buffers=32MB", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h", "max_wal_size=4GB",
	"autovacuum_naptime=10min", "jit=off",
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

// New opens a store on a fresh, migrated database, as the role that services run as: it owns nothing.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, ServiceURL(URL(t)))
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

// URL returns the address of a migrated database that is new, or as new: see used.go. It is the test's alone until the
// test ends.
func URL(t testing.TB) string {
	t.Helper()
	if c := citus(t); c != nil {
		return c.fresh(t)
	}
	base := start(t)
	name, err := take()
	if err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() { giveBack(t, name) })
	return withDatabase(base, name)
}

// service is the role that store.Grant has prepared in each database that is migrated.
const service = "service"

// ServiceURL is a database's address for the role that services run as. Where it is distributed, that is the owner.
func ServiceURL(address string) string {
	if Distributed() {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // devnet wrote it
	}
	u.User = url.User(service)
	return u.String()
}

// EmptyURL is URL without the migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	base := start(t)
	name := empty(t)
	t.Cleanup(func() { drop(t, name) })
	return withDatabase(base, name)
}

func start(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if server.postgres == nil && server.err == nil {
		server.err = startMigrated()
	}
	if server.err != nil {
		t.Fatalf("start PostgreSQL: %v", server.err)
	}
	return server.postgres.URL()
}

func startMigrated() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	postgres, err := devnet.StartPostgres(ctx, devnet.PostgresConfig{Throwaway: true, Settings: settings})
	if err != nil {
		return err
	}
	server.postgres = postgres
	if err := run(ctx, postgres.URL(), "CREATE DATABASE "+template); err != nil {
		return fmt.Errorf("make template: %w", err)
	}
	migrated := withDatabase(postgres.URL(), template)
	if _, err := store.Migrate(ctx, migrated, nil); err != nil {
		return fmt.Errorf("migrate template: %w", err)
	}
	if err := run(ctx, migrated, "CREATE ROLE "+service+" LOGIN"); err != nil {
		return fmt.Errorf("make the service's role: %w", err)
	}
	if err := store.Grant(ctx, migrated, service); err != nil {
		return err
	}
	if server.asNew, err = stateOfTemplate(ctx, migrated); err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	return nil
}

// timeout bounds what is done to the server, which is killed with the test binary in any case.
const timeout = 5 * time.Minute

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
