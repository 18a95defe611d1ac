package checkout_test

import (
	"testing"
	"testing/synctest"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// restock sets the issuer's float and waits until the shop, which caches it, has read it.
func restock(t *testing.T, s *checkouttest.Shop, float money.Cents) {
	t.Helper()
	for _, step := range []struct {
		float money.Cents
		want  fault.Code
	}{{0, fault.FloatUnavailable}, {float, fault.PaymentRequired}} {
		s.Issuer.SetFloat(step.float)
		checkouttest.Until(t, "the float is read again", func() bool {
			_, err := s.Buy(t.Context(), checkouttest.Purchase("restock"))
			return fault.Of(err) == step.want
		})
	}
}

func TestFloatSpentSinceItWasReadIsNotReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		first, second := s.NewBuyer(t), s.NewBuyer(t)
		p, q := s.PaidCard(t, first, "k"), s.PaidCard(t, second, "k")
		restock(t, s, card.Price)
		sold := s.MustBuy(t, p)
		s.Reaches(t, sold.Order.ID, order.Fulfilled) // its reservation is released
		_, err := s.Buy(t.Context(), q)
		checkouttest.WantFault(t, err, fault.FloatUnavailable)
		if s.Spent(second) != 0 {
			t.Errorf("spent %d", s.Spent(second))
		}
	})
}
