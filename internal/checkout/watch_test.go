package checkout_test

import (
	"context"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// TestPreconfirmationIsShownOnceAndDecidesNothing has a payment wait for its block. Its watcher is told once that the
// next block has it; the order is not paid, posts nothing and delivers nothing until the block is there.
func TestPreconfirmationIsShownOnceAndDecidesNothing(t *testing.T) {
	type watch func(*checkouttest.Shop, order.Order, func(checkout.PaidOrder) error) error
	for name, watch := range map[string]watch{
		"one order": func(s *checkouttest.Shop, o order.Order, show func(checkout.PaidOrder) error) error {
			return s.Watch(t.Context(), o.ID, o.Owner, o.Version, 10*time.Second, show)
		},
		"several": func(s *checkouttest.Shop, o order.Order, show func(checkout.PaidOrder) error) error {
			after := map[order.ID]int{o.ID: o.Version}
			return s.WatchAll(t.Context(), o.Owner, after, 10*time.Second, show)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := stalled(t)
			var shown []checkout.PaidOrder
			err := watch(s, o, func(at checkout.PaidOrder) error {
				if shown = append(shown, at); at.Preconfirmed {
					if at.Order.Status != order.Settling || at.Payment.Receipt != nil {
						t.Errorf("%s with receipt %v", at.Order.Status, at.Payment.Receipt)
					}
					if got := s.Moves(t, at.Order.ID, order.Settled); got != 0 {
						t.Errorf("settled %d times by a preconfirmation", got)
					}
					s.Chain.Release()
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(shown) < 2 || !shown[0].Preconfirmed {
				t.Fatalf("%d views, the first preconfirmed %t", len(shown), len(shown) > 0 && shown[0].Preconfirmed)
			}
			for _, at := range shown[1:] {
				if at.Preconfirmed {
					t.Error("shown as preconfirmed again")
				}
			}
			if last := shown[len(shown)-1].Order.Status; last != order.Fulfilled {
				t.Errorf("ended %s, want fulfilled", last)
			}
		})
	}
}

// stalled is a shop that shows preconfirmations, with an order whose payment waits for its block.
func stalled(t *testing.T) (*checkouttest.Shop, order.Order) {
	t.Helper()
	s := checkouttest.Open(t, checkouttest.Options{
		Wait:         100 * time.Millisecond,
		Preconfirmed: func(_ context.Context, p payment.Payment) bool { return p.Status == payment.Claimed },
	})
	b := s.NewBuyer(t)
	s.Chain.StallAll()
	if _, err := s.Buy(t.Context(), s.PaidCard(t, b, "k")); fault.Of(err) != fault.SettlementUnknown {
		t.Fatalf("%v, want settlement_unknown", err)
	}
	page, _, err := s.Orders(t.Context(), b.Address, checkout.Query{Limit: 1})
	if err != nil || len(page) != 1 {
		t.Fatalf("%d orders, %v", len(page), err)
	}
	return s, page[0].Order
}

// TestLinkTellsOfPreconfirmation only while its order is settling, and only where somebody looks.
func TestLinkTellsOfPreconfirmation(t *testing.T) {
	s, o := stalled(t)
	linked, err := s.Linked(t.Context(), o.ID)
	if err != nil || linked.Preconfirmed == nil || !*linked.Preconfirmed || linked.Order.Status != order.Settling {
		t.Fatalf("%+v, %v", linked, err)
	}
	look := s.Preconfirmed
	s.Preconfirmed = func(context.Context, payment.Payment) bool { return false }
	if linked, err = s.Linked(t.Context(), o.ID); err != nil || linked.Preconfirmed == nil || *linked.Preconfirmed {
		t.Errorf("in no block: %+v, %v", linked, err)
	}
	s.Preconfirmed = nil
	if linked, err = s.Linked(t.Context(), o.ID); err != nil || linked.Preconfirmed != nil {
		t.Errorf("where nobody looks: %+v, %v", linked, err)
	}
	s.Preconfirmed = look
	s.Chain.Release()
	err = s.Watch(t.Context(), o.ID, o.Owner, o.Version, 10*time.Second, func(checkout.PaidOrder) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	linked, err = s.Linked(t.Context(), o.ID)
	if err != nil || linked.Preconfirmed != nil || linked.Order.Status != order.Fulfilled {
		t.Errorf("delivered: %+v, %v", linked, err)
	}
}
