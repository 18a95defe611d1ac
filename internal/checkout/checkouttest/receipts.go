package checkouttest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/x402"
)

func firstReceiptOfAnOrderIsKept(t *testing.T, db Database) {
	s, other := db.Open(t, nil), db.Open(t, nil)
	at := time.Now().UTC().Truncate(time.Microsecond)
	signed := func(id order.ID, jws string, outcome receipt.Outcome) checkout.SignedReceipt {
		return checkout.SignedReceipt{Order: id, Outcome: outcome, JWS: jws, IssuedAt: at}
	}
	one, two := signed("ord_1", "a.b.c", receipt.Delivered), signed("ord_2", "d.e.f", receipt.Refunded)
	want := map[order.ID]checkout.SignedReceipt{"ord_1": one}
	if kept, err := s.Receipts.KeepReceipts(t.Context(), Payer, one); err != nil || !cmp.Equal(kept, want) {
		t.Fatalf("%v, %v", kept, err)
	}
	want["ord_2"] = two
	kept, err := other.Receipts.KeepReceipts(t.Context(), Payer, signed("ord_1", "x.y.z", receipt.Refunded), two)
	if err != nil || !cmp.Equal(kept, want) {
		t.Errorf("%s, %v", cmp.Diff(want, kept), err)
	}
	if found, err := s.Receipts.Receipts(t.Context(), Payer, "ord_1", "ord_2", "ord_3"); err != nil ||
		!cmp.Equal(found, want) {
		t.Errorf("%s, %v", cmp.Diff(want, found), err)
	}
	for _, ids := range [][]order.ID{nil, {"ord_1", "ord_2"}} {
		stranger := x402.Address{1: 2}
		if found, err := s.Receipts.Receipts(t.Context(), stranger, ids...); err != nil || len(found) != 0 {
			t.Errorf("a stranger finds %v, %v", found, err)
		}
	}
	// Whoever comes second of two at the same time has the first one's.
	var both [2]map[order.ID]checkout.SignedReceipt
	var all sync.WaitGroup
	for i, s := range []Store{s, other} {
		all.Go(func() {
			kept, err := s.Receipts.KeepReceipts(t.Context(), Payer,
				signed("ord_4", []string{"a.a.a", "b.b.b"}[i], receipt.Delivered))
			if err != nil {
				t.Error(err)
			}
			both[i] = kept
		})
	}
	all.Wait()
	if !cmp.Equal(both[0], both[1]) || len(both[0]) != 1 {
		t.Errorf("%v and %v", both[0], both[1])
	}
}

func endedOrdersAreListed(t *testing.T, db Database) {
	s := db.Open(t, nil)
	delivered, _ := PaidOrder(t, s, "delivered", order.Provisioning, order.Fulfilled)
	PaidOrder(t, s, "moving", order.Provisioning)
	found, err := s.Orders.Orders(t.Context(), Payer, checkout.Query{Ended: true, Limit: 10})
	if err != nil || len(found) != 1 || found[0].ID != delivered.Order.ID {
		t.Errorf("%v, %v", found, err)
	}
}
