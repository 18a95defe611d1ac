package checkout_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/store"
)

// TestCheckoutLostOrderFindsItsGoods: the database forgot the order after the card was opened. Its payer repeats the
// purchase, or buys under another key.
func TestCheckoutLostOrderFindsItsGoods(t *testing.T) {
	for name, c := range map[string]struct {
		key    string
		habits fulfilment.Traits
	}{
		"the same key": {"k", fulfilment.Traits{Deduplicates: true}},
		"the same key, at an issuer that takes a reference twice": {
			"k", fulfilment.Traits{VisibilityDelay: time.Millisecond},
		},
		"another key": {"another", fulfilment.Traits{Deduplicates: true}},
	} {
		t.Run(name, func(t *testing.T) {
			before := open(t, options{habits: c.habits})
			b := before.newBuyer(t)
			sold := before.mustBuy(t, before.paid(t, b, "k"))
			before.reaches(t, sold.Order.ID, order.Fulfilled)
			before.onCard(t, b, card.Remaining)
			// An empty database, the same chain and the same issuer.
			s := open(t, options{chain: before.chain, issuer: before.issuer})
			if err := s.store.Orders().Arrive(t.Context(), arrivedAs(sold.Payment)); err != nil {
				t.Fatal(err)
			}
			again, err := s.Buy(t.Context(), s.paid(t, b, c.key))
			if c.key == "k" {
				if err != nil || !again.Replayed || again.Order.ID == sold.Order.ID {
					t.Fatalf("sold %+v, %v", again, err)
				}
				s.reaches(t, again.Order.ID, order.Fulfilled)
				s.onCard(t, b, card.Remaining)
			} else {
				wantFault(t, err, fault.SettlementUnknown)
			}
			if made := len(s.issuer.Opened()); s.spent(b) != priceOf || made != 1 {
				t.Errorf("spent %s, %d cards", s.spent(b), made)
			}
		})
	}
}

// onCard waits until so much is on the buyer's card.
func (s *shop) onCard(t *testing.T, b buyer, want any) {
	t.Helper()
	until(t, "the balance of the card", func() bool {
		c, err := s.store.Cards().Live(t.Context(), b.address)
		if err != nil {
			return false
		}
		balance, err := s.issuer.Balance(t.Context(), c.Account)
		return err == nil && balance.Available == want
	})
}

// unexplained compares a shop's books with its issuer's.
func unexplained(s *store.Store, i *cardtest.Issuer) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var made []uuid.UUID
		for _, ref := range i.Opened() {
			made = append(made, uuid.UUID(ref))
		}
		explained, err := s.Explains(ctx, card.Kind, made)
		return !explained, err
	}
}

// arrivedAs is a payment as the chain shows it to books that do not know it.
func arrivedAs(p payment.Payment) payment.Arrived {
	return payment.Arrived{Network: p.Network, Asset: p.Asset, Authorization: p.Authorization, Receipt: *p.Receipt}
}

// TestCheckoutKeylessOrdersAreDifferentPurchases: an order that was opened without a key is nobody's repeat.
func TestCheckoutKeylessOrdersAreDifferentPurchases(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	s.reaches(t, s.mustBuy(t, s.paid(t, b, "card")).Order.ID, order.Fulfilled)
	s.onCard(t, b, card.Remaining)
	want := card.Remaining
	request, err := json.Marshal(topup.Request{Gross: 2500})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		opened, err := s.Create(t.Context(), checkout.CreateRequest{Kind: topup.Kind, Owner: b.address, Request: request})
		if err != nil {
			t.Fatal(err)
		}
		paid := b.pay(t, s.terms(t, opened.Order.ID))
		if _, err := s.Pay(t.Context(), opened.Order.ID, paid, at); err != nil {
			t.Fatal(err)
		}
		s.reaches(t, opened.Order.ID, order.Fulfilled)
		want += topup.SplitOf(2500).Credit
		s.onCard(t, b, want)
	}
}
