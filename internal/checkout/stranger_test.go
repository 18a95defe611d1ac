package checkout_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// forged is a payment in the name of a wallet, signed by another.
func forged(t *testing.T, s *checkouttest.Shop, victim, by checkouttest.Buyer, key string) checkout.Purchase {
	t.Helper()
	p := checkouttest.Purchase(key)
	p.Payment = by.Pay(t, s.Challenge(t, p), func(a *x402.Authorization) { a.From = victim.Address })
	return p
}

func TestForgedPaymentLearnsNothingOfTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		victim, stranger := s.NewBuyer(t), s.NewBuyer(t)
		s.MustBuy(t, s.PaidCard(t, victim, "k"))
		for _, key := range []string{"k", "unknown"} {
			_, err := s.Buy(t.Context(), forged(t, s, victim, stranger, key))
			f := checkouttest.WantFault(t, err, fault.PaymentRejected)
			if _, ok := errors.AsType[*checkout.Challenge](err); !ok || f.OrderID != "" {
				t.Errorf("key %q: %+v", key, f)
			}
		}
		// The stranger's own payment with the victim's key is a purchase of its own.
		if sold := s.MustBuy(t, s.PaidCard(t, stranger, "k")); sold.Replayed || sold.Order.Owner != stranger.Address {
			t.Errorf("sold %+v", sold)
		}
	})
}

func TestOrderExistsForItsOwnerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b, stranger := s.NewBuyer(t), s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		if got, err := s.Order(t.Context(), sold.Order.ID, b.Address); err != nil || got.Order.ID != sold.Order.ID ||
			got.Payment.Receipt == nil {
			t.Errorf("the owner sees %+v, %v", got, err)
		}
		_, foreign := s.Order(t.Context(), sold.Order.ID, stranger.Address)
		_, unknown := s.Order(t.Context(), "ord_unknown", stranger.Address)
		if f := checkouttest.WantFault(t, foreign,
			fault.OrderNotFound); f.Error() != checkouttest.WantFault(t, unknown, fault.OrderNotFound).Error() {
			t.Errorf("a foreign order is %v, an unknown one %v", foreign, unknown)
		}
		page, next, err := s.Orders(t.Context(), stranger.Address, checkout.Query{Limit: 10})
		if err != nil || len(page) != 0 || next != "" {
			t.Errorf("the stranger lists %d orders, %v", len(page), err)
		}
	})
}
