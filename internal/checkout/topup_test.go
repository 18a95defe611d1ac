package checkout_test

import (
	"encoding/json"
	"testing"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
)

// topUp is a top-up purchase of a key, not yet paid.
func topUp(key string, gross money.Cents) checkout.Purchase {
	p := purchase(key)
	p.Kind = topup.Kind
	p.Request, _ = json.Marshal(topup.Request{Gross: gross})
	return p
}

func TestATopUpCreditsTheOwnersCardOnce(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	p := topUp("t", 2500)
	p.Payment = b.pay(t, s.challenge(t, p))
	_, err := s.Buy(t.Context(), p)
	wantFault(t, err, fault.ActiveCardMissing)
	if s.spent(b) != 0 {
		t.Fatal("a top-up without a card was paid")
	}
	s.reaches(t, s.mustBuy(t, s.paid(t, b, "k")).Order.ID, order.Fulfilled)
	got, err := s.cards.Ensure(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	s.feeJob(t, got)
	sold := s.mustBuy(t, p)
	s.reaches(t, sold.Order.ID, order.Fulfilled)
	if again := s.mustBuy(t, p); !again.Replayed || again.Order.ID != sold.Order.ID {
		t.Errorf("again %+v", again)
	}
	if bal, err := s.cards.Balance(t.Context(), got.ID, b.address); err != nil || bal.Available != 1500+2450 {
		t.Errorf("balance %v, %v", bal.Available, err)
	}
	if s.spent(b) != 2*price {
		t.Errorf("spent %d", s.spent(b))
	}
	other := topUp("t", 5000)
	other.Payment = b.pay(t, s.challenge(t, other))
	_, err = s.Buy(t.Context(), other)
	wantFault(t, err, fault.IdempotencyKeyReused)
}

func TestWhateverTheIssuerDoesATopUpLoadsOnce(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore,
		fulfilmenttest.TimeoutAfter, fulfilmenttest.Malformed, fulfilmenttest.UnknownState, fulfilmenttest.Duplicate,
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := open(t, options{})
			b := s.newBuyer(t)
			s.reaches(t, s.mustBuy(t, s.paid(t, b, "k")).Order.ID, order.Fulfilled)
			got, err := s.cards.Ensure(t.Context(), b.address)
			if err != nil {
				t.Fatal(err)
			}
			s.feeJob(t, got)
			p := topUp("t", 25_000)
			p.Payment = b.pay(t, s.challenge(t, p))
			if !s.issuer.Fault(cardtest.Move, mode) {
				t.Skip("the issuer in memory cannot do that")
			}
			s.reaches(t, s.mustBuy(t, p).Order.ID, order.Fulfilled)
			if bal, err := s.cards.Balance(t.Context(), got.ID, b.address); err != nil || bal.Available != 1500+24_500 {
				t.Errorf("balance %v, %v", bal.Available, err)
			}
		})
	}
}
