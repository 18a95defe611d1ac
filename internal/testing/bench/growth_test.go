package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	events "github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// empty is how many orders a database has that is as good as empty: there has to be something to look up.
	empty = 200
	// filled is how many one has for an operation whose batches or bounds an empty one would not fill: a comparison sums a
	// million entries at most.
	filled = 100_000
	// turns is how often each operation is measured on both, alternately.
	turns = 41
)

// BenchmarkGrowth measures operations of the store in a database that is as good as empty and in one with many orders,
// alternately: the ratio is that of the medians. ROAMCARD_BENCH_ORDERS is how many there are; all are fulfilled, with
// everything that purchases leave behind.
func BenchmarkGrowth(b *testing.B) {
	orders := 200_000
	if n, err := strconv.Atoi(os.Getenv("ROAMCARD_BENCH_ORDERS")); err == nil {
		orders = n
	}
	few := map[int]*grown{empty: newBooks(b, empty), filled: newBooks(b, filled)}
	many := newBooks(b, orders)
	var size int64
	row(b, many.url, "SELECT pg_database_size(current_database())", &size)
	for _, o := range operations() {
		b.Run(o.name, func(b *testing.B) {
			small := few[cmp.Or(o.least, empty)]
			var before, after []time.Duration
			for range b.N * o.turns() {
				before, after = append(before, small.time(b, o)), append(after, many.time(b, o))
			}
			slices.Sort(before)
			slices.Sort(after)
			mid := len(before) / 2
			b.ReportMetric(float64(small.orders), "small-orders")
			b.ReportMetric(float64(before[mid].Microseconds()), "small-µs")
			b.ReportMetric(float64(after[mid].Microseconds()), "grown-µs")
			b.ReportMetric(float64(after[mid])/float64(before[mid]), "ratio")
			b.ReportMetric(float64(orders), "orders")
			b.ReportMetric(float64(size)/1e9, "GB")
		})
	}
}

// grown is a database with many orders that are all fulfilled.
type grown struct {
	*store.Store
	url    string
	orders int
	events *events.Activity
	books  *reconcile.Reconciler
	now    time.Time
	// next is the number of an order that the operations use: each has its turn.
	next int
}

func newBooks(b *testing.B, orders int) *grown {
	b.Helper()
	db := durable(b)
	connected(b, db.URL(), func(ctx context.Context, conn *pgx.Conn) error { return fill(ctx, conn, orders) })
	s, err := store.Open(b.Context(), store.Config{
		URL: db.URL(), MaxConns: 4, Now: time.Now, Products: storetest.Products(),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	g := &grown{Store: s, url: db.URL(), orders: orders, now: time.Now()}
	g.events = events.New(events.Config{Store: s.Events(), Now: time.Now})
	if err := g.events.RollUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	books := s.Treasury(kit.Asset, kit.PayTo)
	g.books = reconcile.New(reconcile.Config{
		Chain: quiet{}, Issuers: []card.NamedBook{{Book: quiet{}}}, Arrivals: books, Unread: books, Books: books,
		Reports: books, Unmatched: books, PayTo: kit.PayTo, Now: func() time.Time { return g.now },
	})
	if _, err := g.books.Run(b.Context()); err != nil { // the first reads everything
		b.Fatal(err)
	}
	tell(b, db.URL(), "CHECKPOINT") // writing what was filled in is no part of what is measured
	return g
}

func (g *grown) time(b *testing.B, o operation) (took time.Duration) {
	b.Helper()
	g.next = g.next%g.orders + 1
	times := 1
	if o.again {
		times = 2
	}
	for range times {
		began := time.Now()
		if err := o.do(b.Context(), g); err != nil {
			b.Fatal(err)
		}
		took = time.Since(began)
	}
	return took
}

// id spreads the turns over all orders.
func (g *grown) id() int { return 1 + g.next*(g.orders/turns-1)%g.orders }

type operation struct {
	name string
	do   func(context.Context, *grown) error
	// least is how many orders the small database has when that is not empty.
	least int
	// again measures it once its pages have been read.
	again bool
	// few is how often it is measured when that is not turns.
	few int
}

func (o operation) turns() int { return cmp.Or(o.few, turns) }

// operations are what the service does all the time, and what it does by itself now and then.
func operations() []operation {
	old := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // before all orders and events
	kinds := []job.Kind{settlement.Fulfilling, settlement.Confirming, settlement.RefundConfirming}
	operator := order.OperatorContext{Operator: "ann"}
	all := []operation{
		{name: "claim", do: claimAnother},
		{name: "order", do: func(ctx context.Context, g *grown) error {
			_, err := g.Orders().Find(ctx, order.ID(kit.OrderID(g.id())))
			return err
		}},
		{name: "order-by-key", do: func(ctx context.Context, g *grown) error {
			_, err := g.Orders().FindByKey(ctx, card.Kind, kit.Owner(g.id()), fmt.Sprint("k", g.id()))
			return err
		}},
		{name: "orders-of-a-wallet", do: func(ctx context.Context, g *grown) error {
			found, err := g.Orders().Orders(ctx, kit.Owner(g.id()), checkout.Query{Limit: 20})
			if err == nil && len(found) == 0 {
				err = order.ErrNotFound
			}
			return err
		}},
		{name: "operators-queue", do: func(ctx context.Context, g *grown) error {
			_, err := g.Admin().Queue(ctx, admin.QueueQuery{Status: order.OperatorReview, Limit: 20}, operator)
			return err
		}},
		{name: "history-of-an-order", do: func(ctx context.Context, g *grown) error {
			_, err := g.Admin().History(ctx, order.ID(kit.OrderID(g.id())), operator)
			return err
		}},
		{name: "jobs-due", do: func(ctx context.Context, g *grown) error {
			_, err := g.Jobs().Claim(ctx, "bench", job.Maintain, kinds, 10, time.Minute)
			return err
		}},
		{name: "jobs-reaped", do: func(ctx context.Context, g *grown) error { return errOf(g.Jobs().Reap(ctx, 100)) }},
		{name: "jobs-counted", do: func(ctx context.Context, g *grown) error { return errOf(g.Jobs().Depth(ctx)) }},
		{name: "orders-expired", do: func(ctx context.Context, g *grown) error { return errOf(g.Orders().Expire(ctx, 200)) }},
		{name: "jobs-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.Jobs().PruneOfFinal(ctx, settlement.Fulfilling, old, 500))
		}},
		{name: "jobs-of-maintenance-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.Jobs().Prune(ctx, []job.Kind{"reconcile"}, time.Now(), 500))
		}},
		{name: "reservations-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.PruneReservations(ctx, old, 500))
		}},
		{name: "transactions-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.Transactions().Prune(ctx, old, 500))
		}},
		{name: "timelines-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.Orders().PruneTimeline(ctx, old, 500))
		}},
		{name: "reads-pruned", do: func(ctx context.Context, g *grown) error { return errOf(g.PruneReads(ctx, old, 500)) }},
		{name: "expired-orders-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.Orders().PruneExpired(ctx, old, 500))
		}},
		{name: "events-pruned", do: func(ctx context.Context, g *grown) error {
			return errOf(g.Events().Prune(ctx, old, 1000))
		}},
		{name: "days-rolled-up", do: func(ctx context.Context, g *grown) error { return g.events.RollUp(ctx) }},
		{name: "report-of-events", do: func(ctx context.Context, g *grown) error { return errOf(g.events.Report(ctx, 7)) }},
		{name: "oldest-orders", do: func(ctx context.Context, g *grown) error { return errOf(g.Orders().Oldest(ctx)) }},
		{name: "migration", do: func(ctx context.Context, g *grown) error { return errOf(store.Migrate(ctx, g.url, nil)) }},
		{name: "column-added", do: addColumn},
		{name: "batch-of-timelines-pruned", least: filled, do: func(ctx context.Context, g *grown) error {
			return errOf(g.Orders().PruneTimeline(ctx, time.Now(), 100))
		}},
		{name: "batch-of-jobs-pruned", least: filled, do: func(ctx context.Context, g *grown) error {
			return errOf(g.Jobs().PruneOfFinal(ctx, settlement.Fulfilling, time.Now(), 100))
		}},
		{name: "comparison", least: filled, few: 5, do: func(ctx context.Context, g *grown) error {
			g.now = g.now.Add(15 * time.Minute)
			return errOf(g.books.Run(ctx))
		}},
	}
	for _, o := range all {
		if slices.Contains([]string{"order", "order-by-key", "orders-of-a-wallet"}, o.name) {
			all = append(all, operation{name: o.name + "-again", do: o.do, again: true})
		}
	}
	return all
}

func errOf[T any](_ T, err error) error { return err }

// addColumn does what most migrations do to a table of orders, and undoes it.
func addColumn(ctx context.Context, g *grown) error {
	conn, err := pgx.Connect(ctx, g.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `BEGIN; ALTER TABLE orders ADD COLUMN note varchar NOT NULL DEFAULT ''; ROLLBACK`)
	return err
}

// claimAnother claims an order of a new wallet.
func claimAnother(ctx context.Context, g *grown) error {
	wallet := newNonce()
	now := time.Now().UTC().Truncate(time.Microsecond)
	r := checkout.ClaimRequest{
		Order: order.Order{
			ID: order.NewID(now), Operation: uuid.New(), Kind: card.Kind, Owner: x402.Address(wallet[:20]), Key: "k",
			Price: 2500, Fingerprint: order.FingerprintOf(card.Kind, json.RawMessage(`{}`)), Item: json.RawMessage(`{}`),
			Status: order.Settling, Version: 1, CreatedAt: now, UpdatedAt: now,
		},
		Payment: payment.Payment{
			ID: uuid.New(), Status: payment.Claimed, Network: x402.NetworkID, Asset: kit.Asset, CreatedAt: now,
			Signature: x402.KeySignature(make([]byte, 64), 0),
			Authorization: x402.Authorization{
				From: x402.Address(wallet[:20]), To: kit.PayTo, Value: 25_000_000, ValidBefore: 2_000_000_000, Nonce: newNonce(),
			},
		},
		Reservations: []order.Reservation{{Resource: "float", Units: 2500, Limit: 1 << 40, Most: 25_000, AsOf: now}},
		MaxUndecided: 3,
	}
	r.Payment.Order = r.Order.ID
	r.Job = settlement.FulfillJob(r.Order.ID, r.Payment.ID.String())
	claimed, err := g.Orders().Claim(ctx, r)
	return cmp.Or(err, missed(claimed))
}

func missed(c checkout.ClaimResult) error {
	if c.Claim == checkout.Fresh {
		return nil
	}
	return fmt.Errorf("claimed %v", c.Claim)
}
