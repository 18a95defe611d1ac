package checkout_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// restock sets the issuer's float and waits until the shop, which remembers it for a moment, has read it.
func (s *shop) restock(t *testing.T, float money.Cents) {
	t.Helper()
	for _, step := range []struct {
		float money.Cents
		want  fault.Code
	}{{0, fault.FloatUnavailable}, {float, fault.PaymentRequired}} {
		s.issuer.SetFloat(step.float)
		until(t, "the float is read again", func() bool {
			_, err := s.Buy(t.Context(), purchase("restock"))
			return fault.Of(err) == step.want
		})
	}
}

func TestFloatThatWasSpentSinceItWasReadIsNotPromisedAgain(t *testing.T) {
	s := open(t, options{})
	first, second := s.newBuyer(t), s.newBuyer(t)
	p, q := s.paid(t, first, "k"), s.paid(t, second, "k")
	s.restock(t, card.Price)
	sold := s.mustBuy(t, p)
	s.reaches(t, sold.Order.ID, order.Fulfilled) // its hold is given back
	_, err := s.Buy(t.Context(), q)
	wantFault(t, err, fault.FloatUnavailable)
	if s.spent(second) != 0 {
		t.Errorf("spent %d", s.spent(second))
	}
}
