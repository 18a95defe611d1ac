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
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
)

// TestPreconfirmationIsShownOnceAndDecidesNothing has a payment wait for its block. Its watcher is told once that the
// next block has it; the order is not paid, posts nothing and delivers nothing until the block is there.
func TestPreconfirmationIsShownOnceAndDecidesNothing(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{
		Wait:         100 * time.Millisecond,
		Preconfirmed: func(_ context.Context, p payment.Payment) bool { return p.Status == payment.Claimed },
	})
	b := s.NewBuyer(t)
	s.Chain.Next(paymenttest.Stall)
	if _, err := s.Buy(t.Context(), s.PaidCard(t, b, "k")); fault.Of(err) != fault.SettlementUnknown {
		t.Fatalf("%v, want settlement_unknown", err)
	}
	page, _, err := s.Orders(t.Context(), b.Address, checkout.Query{Limit: 1})
	if err != nil || len(page) != 1 {
		t.Fatalf("%d orders, %v", len(page), err)
	}
	var shown []checkout.PaidOrder
	err = s.Watch(t.Context(), page[0].Order.ID, b.Address, page[0].Order.Version, 10*time.Second,
		func(at checkout.PaidOrder) error {
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
}
