package bench

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/x402"
)

// chunk is how many purchases one statement puts into the books.
const chunk = 50_000

// BenchmarkComparison compares books of a million purchases, each with its payment, transfer, card, fee and postings:
// how long a comparison takes once there was one, and the most memory that the process has meanwhile.
// ROAMCARD_BENCH_ORDERS is another number.
func BenchmarkComparison(b *testing.B) {
	orders := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("ROAMCARD_BENCH_ORDERS")); err == nil {
		orders = n
	}
	db := durable(b)
	connected(b, db.URL(), func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SET synchronous_commit = off; SET session_replication_role = replica"); err != nil {
			return err
		}
		for n := 1; n <= orders; n += chunk {
			if err := kit.Sell(ctx, conn, n, min(n+chunk-1, orders)); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "VACUUM ANALYZE")
		return err
	})
	s, err := store.Open(b.Context(), store.Config{URL: db.URL(), MaxConns: 4, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	books := s.Treasury(kit.Asset, kit.PayTo)
	now := time.Now()
	r := reconcile.New(reconcile.Config{
		Chain: quiet{}, Issuers: []card.NamedBook{{Book: quiet{}}}, Arrivals: books, Unread: books, Books: books,
		Reports: books, Unmatched: books,
		PayTo: kit.PayTo,
		Now:   func() time.Time { return now },
	})
	compare := func() time.Duration {
		began := time.Now()
		report, err := r.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if report.Open() > 0 || report.Checked.Orders == 0 {
			b.Fatalf("%+v", report)
		}
		return time.Since(began)
	}
	first := compare()
	b.Run(strconv.Itoa(orders), func(b *testing.B) {
		var took time.Duration
		fresh(b)
		for b.Loop() {
			now = now.Add(15 * time.Minute)
			took = max(took, compare())
		}
		b.ReportMetric(first.Seconds(), "first-s")
		b.ReportMetric(took.Seconds(), "later-s")
		b.ReportMetric(peak(b), "peak-MB")
	})
}

// BenchmarkUnmatched compares books to which strangers have sent 40,000 transfers of one unit, in one block.
func BenchmarkUnmatched(b *testing.B) {
	const transfers = 40_000
	db := durable(b)
	s, err := store.Open(b.Context(), store.Config{URL: db.URL(), MaxConns: 4, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	books, now, flood := s.Treasury(kit.Asset, kit.PayTo), time.Now(), &flooded{safe: 89}
	r := reconcile.New(reconcile.Config{
		Chain: flood, Issuers: []card.NamedBook{{Book: quiet{}}}, Arrivals: books, Unread: books, Books: books,
		Reports: books, Unmatched: books,
		PayTo: kit.PayTo,
		Now:   func() time.Time { return now },
	})
	compare := func(open int) time.Duration {
		now = now.Add(10 * time.Minute)
		began := time.Now()
		report, err := r.Run(b.Context())
		if err != nil || report.Open() != open {
			b.Fatalf("%d open, %v", report.Open(), err)
		}
		return time.Since(began)
	}
	compare(0)
	flood.safe = 100
	for i := range transfers {
		flood.all = append(flood.all, reconcile.Transfer{
			Transaction: x402.Hash{1, byte(i >> 16), byte(i >> 8), byte(i)}, Block: 95,
			From: x402.Address{byte(i >> 8), byte(i)}, Value: 1,
		})
	}
	first := compare(transfers)
	b.Run(strconv.Itoa(transfers), func(b *testing.B) {
		var took time.Duration
		fresh(b)
		for b.Loop() {
			took = max(took, compare(transfers))
		}
		b.ReportMetric(first.Seconds(), "first-s")
		b.ReportMetric(took.Seconds(), "later-s")
		b.ReportMetric(peak(b), "peak-MB")
	})
}

// flooded is a chain with a block full of transfers.
type flooded struct {
	safe uint64
	all  []reconcile.Transfer
}

func (f *flooded) Safe(context.Context) (uint64, error) { return f.safe, nil }

func (f *flooded) Transfers(_ context.Context, _ x402.Address, from, to uint64) ([]reconcile.Transfer, error) {
	if from <= 95 && to >= 95 {
		return f.all, nil
	}
	return nil, nil
}

// quiet is a chain on which nothing happens any more, and an issuer whose books did not change.
type quiet struct{}

func (quiet) Safe(context.Context) (uint64, error) { return 89, nil }

func (quiet) Transfers(context.Context, x402.Address, uint64, uint64) ([]reconcile.Transfer, error) {
	return nil, nil
}

func (quiet) Changes(context.Context, string) (card.Page, error) { return card.Page{}, nil }

// fresh resets the process's peak memory.
func fresh(b *testing.B) {
	b.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
		b.Skip("the system does not tell the most memory that a process had:", err)
	}
}

// peak is the most memory that the process had since, in MB.
func peak(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}
