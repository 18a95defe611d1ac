package checkout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// forged is a payment in the name of a wallet, signed by another.
func (s *shop) forged(t *testing.T, victim, by buyer, key string) checkout.Purchase {
	t.Helper()
	p := purchase(key)
	p.Payment = by.pay(t, s.challenge(t, p), func(a *x402.Authorization) { a.From = victim.address })
	return p
}

func TestNobodyLearnsOfAnOrderByNamingItsWallet(t *testing.T) {
	s := open(t, options{})
	victim, stranger := s.newBuyer(t), s.newBuyer(t)
	s.mustBuy(t, s.paid(t, victim, "k"))
	for _, key := range []string{"k", "unknown"} {
		_, err := s.Buy(t.Context(), s.forged(t, victim, stranger, key))
		f := wantFault(t, err, fault.PaymentRejected)
		if _, ok := errors.AsType[*checkout.Challenge](err); !ok || f.OrderID != "" {
			t.Errorf("key %q: %+v", key, f)
		}
	}
	// The stranger's own payment with the victim's key is a purchase of its own.
	if sold := s.mustBuy(t, s.paid(t, stranger, "k")); sold.Replayed || sold.Order.Owner != stranger.address {
		t.Errorf("sold %+v", sold)
	}
}

func TestAnOrderExistsForItsOwnerOnly(t *testing.T) {
	s := open(t, options{})
	b, stranger := s.newBuyer(t), s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k"))
	if got, err := s.Order(t.Context(), sold.Order.ID, b.address); err != nil || got.Order.ID != sold.Order.ID ||
		got.Payment.Receipt == nil {
		t.Errorf("the owner sees %+v, %v", got, err)
	}
	_, foreign := s.Order(t.Context(), sold.Order.ID, stranger.address)
	_, unknown := s.Order(t.Context(), "ord_unknown", stranger.address)
	if f := wantFault(t, foreign, fault.OrderNotFound); f.Error() != wantFault(t, unknown, fault.OrderNotFound).Error() {
		t.Errorf("a foreign order is %v, an unknown one %v", foreign, unknown)
	}
	page, next, err := s.Orders(t.Context(), stranger.address, checkout.Query{Limit: 10})
	if err != nil || len(page) != 0 || next != "" {
		t.Errorf("the stranger lists %d orders, %v", len(page), err)
	}
}

func TestNothingIsDeliveredBeforeThePaymentIsProven(t *testing.T) {
	s := open(t, options{wait: 300 * time.Millisecond})
	b := s.newBuyer(t)
	for range 5000 { // whatever is sent
		s.chain.Next(paymenttest.Stall)
	}
	_, err := s.Buy(t.Context(), s.paid(t, b, "k"))
	wantFault(t, err, fault.SettlementUnknown)
	until(t, "the payment was sent several times", func() bool { return s.chain.Calls().Submit > 5 })
	if n := s.issuer.Calls(cardtest.Open); n != 0 {
		t.Errorf("the issuer was asked %d times for a card that is not paid", n)
	}
}
