package settlement_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/settlement"
)

func TestChainFaultsLeaveOnePayment(t *testing.T) {
	for name, f := range map[string]paymenttest.Fault{
		"answer lost": paymenttest.Lose, "refused": paymenttest.Refuse, "dropped": paymenttest.Drop,
		"reverted": paymenttest.Revert, "preempted": paymenttest.Preempt,
	} {
		checkouttest.Run(t, name, func(t *testing.T) {
			s := checkouttest.Open(t, checkouttest.Options{})
			b := s.NewBuyer(t)
			p := s.PaidCard(t, b, "k")
			s.Chain.Next(f)
			sold := s.MustBuy(t, p)
			s.Reaches(t, sold.Order.ID, order.Fulfilled)
			if got := s.MustBuy(t, p); got.Order.ID != sold.Order.ID || !got.Replayed || s.Spent(b) != price {
				t.Errorf("repeat %+v, spent %d", got, s.Spent(b))
			}
		})
	}
}

// TestYoungPaymentIsDecidedInOneAttempt: the process that claimed a payment looks at it again and again without giving
// its job back, which would be a transaction each time.
func TestYoungPaymentIsDecidedInOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		const looks = 5
		for range looks {
			s.Chain.Next(paymenttest.Stall)
		}
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
		row := s.FinalJob(t, settlement.Fulfilling, sold.Payment.ID.String())
		if n := s.Chain.Calls().Submit; row.Attempt != 1 || n <= looks {
			t.Errorf("%d attempts with %d submissions, want 1 with more than %d", row.Attempt, n, looks)
		}
	})
}

func TestNothingIsDeliveredBeforeThePaymentIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Wait: 300 * time.Millisecond})
		b := s.NewBuyer(t)
		s.Chain.StallAll()
		_, err := s.Buy(t.Context(), s.PaidCard(t, b, "k"))
		checkouttest.WantFault(t, err, fault.SettlementUnknown)
		checkouttest.Until(t, "the payment was sent several times", func() bool { return s.Chain.Calls().Submit > 5 })
		if n := s.Issuer.Calls(cardtest.Open); n != 0 {
			t.Errorf("the issuer was asked %d times for a card that is not paid", n)
		}
	})
}
