package checkout_test

import (
	"testing"
	"testing/synctest"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

func TestTopUpCreditsTheOwnersCardOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := checkouttest.TopUp("t", 2500)
		p = s.Paid(t, b, p)
		_, err := s.Buy(t.Context(), p)
		checkouttest.WantFault(t, err, fault.ActiveCardMissing)
		if s.Spent(b) != 0 {
			t.Fatal("a top-up without a card was paid")
		}
		s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID, order.Fulfilled)
		got, err := s.Cards.Ensure(t.Context(), b.Address)
		if err != nil {
			t.Fatal(err)
		}
		s.FeeJob(t, got)
		sold := s.MustBuy(t, p)
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
		if again := s.MustBuy(t, p); !again.Replayed || again.Order.ID != sold.Order.ID {
			t.Errorf("again %+v", again)
		}
		if bal, err := s.Cards.Balance(t.Context(), got.ID, b.Address); err != nil || bal.Available != 1500+2450 {
			t.Errorf("balance %v, %v", bal.Available, err)
		}
		if s.Spent(b) != 2*price {
			t.Errorf("spent %d", s.Spent(b))
		}
		other := checkouttest.TopUp("t", 5000)
		other = s.Paid(t, b, other)
		_, err = s.Buy(t.Context(), other)
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
	})
}
