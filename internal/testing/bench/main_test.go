package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/x402"
)

// durable is a PostgreSQL of the benchmark's own that keeps what it commits, as in production. The tests'
// one does not.
func durable(b *testing.B) *devnet.Postgres {
	b.Helper()
	db, err := devnet.StartPostgres(b.Context(), devnet.PostgresConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if _, err := store.Migrate(b.Context(), db.URL(), nil); err != nil {
		b.Fatal(err)
	}
	return db
}

// row reads one.
func row(b *testing.B, url, sql string, into ...any) {
	b.Helper()
	connected(b, url, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(into...) })
}

// tell runs statements.
func tell(b *testing.B, url, sql string) {
	b.Helper()
	connected(b, url, func(ctx context.Context, conn *pgx.Conn) error { _, err := conn.Exec(ctx, sql); return err })
}

func connected(b *testing.B, url string, do func(context.Context, *pgx.Conn) error) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := do(ctx, conn); err != nil {
		b.Fatalf("%s: %v", url, err)
	}
}

// activity is the server's statistics of a database.
type activity struct{ transactions, written int64 }

// activityOf waits until the database at url has no session, because an open one has not reported all of its
// statistics. It connects to another database of the server, so that the reading itself is not counted.
func activityOf(b *testing.B, url string) (a activity) {
	b.Helper()
	const name = "roamcard"
	connected(b, strings.Replace(url, "/"+name+"?", "/postgres?", 1), func(ctx context.Context, conn *pgx.Conn) error {
		for sessions := 1; sessions > 0; {
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1",
				name).Scan(&sessions); err != nil {
				return err
			}
		}
		return conn.QueryRow(ctx, `SELECT xact_commit + xact_rollback, tup_inserted + tup_updated + tup_deleted
			FROM pg_stat_database WHERE datname = $1`, name).Scan(&a.transactions, &a.written)
	})
	return a
}

// inParallel calls do for each number below n, as often at once as there are workers.
func inParallel(n, workers int, do func(worker, i int)) {
	var next int
	var mu sync.Mutex
	take := func() int { mu.Lock(); defer mu.Unlock(); next++; return next - 1 }
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := take(); i < n; i = take() {
				do(worker, i)
			}
		})
	}
	all.Wait()
}

func usdc() x402.Address { return x402.Address(common.HexToAddress(devnet.USDCAddress)) }

func domain() x402.Domain {
	return x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: usdc()}
}

func newKey(b *testing.B) *ecdsa.PrivateKey {
	b.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	return key
}

func addressOf(key *ecdsa.PrivateKey) x402.Address {
	return x402.Address(crypto.PubkeyToAddress(key.PublicKey))
}

func newNonce() (n x402.Hash) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}
