package store_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// TestDeliveryTimesAreOfTheLastDeliveries: the median of those since a time, no more than were asked for, and only of
// what was delivered.
func TestDeliveryTimesAreOfTheLastDeliveries(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	delivered := func(key string, took time.Duration) {
		t.Helper()
		p, fence := paidOrder(t, s, key, order.Provisioning)
		ahead.Add(int64(took))
		if err := errOf(s.Orders().Move(t.Context(), fence, move(p, order.Provisioning, order.Fulfilled))); err != nil {
			t.Fatal(err)
		}
	}
	want := func(since time.Time, most, count int, median time.Duration) {
		t.Helper()
		times, err := s.Orders().DeliveryTimes(t.Context(), since, most)
		got := times[card.Kind]
		if err != nil || got.Count != count || got.Median < median || got.Median > median+30*time.Second {
			t.Errorf("%+v, %v, want %d with a median of %s", times, err, count, median)
		}
	}
	begin := time.Now().Add(-time.Minute)
	want(begin, 10, 0, 0)
	delivered("slow", time.Hour)
	middle := time.Now().Add(time.Duration(ahead.Load())).Add(time.Minute)
	delivered("a", 10*time.Minute)
	delivered("b", 2*time.Minute)
	delivered("c", 4*time.Minute)
	paidOrder(t, s, "waiting", order.Provisioning)
	paidOrder(t, s, "review", order.Provisioning, order.OperatorReview)
	want(begin, 10, 4, 4*time.Minute)
	want(middle, 10, 3, 4*time.Minute)
	want(begin, 1, 1, 4*time.Minute)
	want(middle.Add(time.Hour), 10, 0, 0)
}
