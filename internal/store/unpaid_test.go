package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// clocked opens a store on a database, whose clock runs as far ahead as the test says.
func clocked(t *testing.T, url string) (*store.Store, *atomic.Int64) {
	t.Helper()
	var ahead atomic.Int64
	s, err := store.Open(t.Context(),
		store.Config{URL: url, Products: storetest.Products(), MaxConns: 8, Now: func() time.Time {
			return time.Now().Add(time.Duration(ahead.Load()))
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, &ahead
}

func TestUnpaidOrdersExpireInBatchesWithATimeline(t *testing.T) {
	url := storetest.URL(t)
	s, ahead := clocked(t, url)
	for i := range 5 {
		opened(t, s, unpaid(fmt.Sprint(i)), false)
	}
	later := opened(t, s,
		unpaid("later", func(o *order.Order) { until := o.CreatedAt.Add(3 * time.Hour); o.ExpiresAt = &until }), false)
	ahead.Store(int64(2 * time.Hour))
	for _, want := range []int{2, 2, 1, 0} {
		if n := expire(t, checkouttest.Of(s), 2); n != want {
			t.Errorf("%d expired, want %d", n, want)
		}
	}
	if found, err := s.Orders().Find(t.Context(), later.ID); err != nil || found.Status != order.PaymentRequired {
		t.Errorf("order %s, %v", found.Status, err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	var n int
	if err := db.QueryRow(t.Context(),
		`SELECT count(*) FROM orders o JOIN timeline m ON m.order_id = o.id AND m.owner = o.owner
			AND m.version = o.version
		WHERE o.status = 'expired' AND o.version = 2 AND m.from_status = 'payment_required'
			AND m.to_status = 'expired' AND m.actor = 'worker'`).Scan(&n); err != nil || n != 5 {
		t.Errorf("%d moves on the timeline, %v", n, err)
	}
}
