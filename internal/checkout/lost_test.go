package checkout_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
)

// TestCheckoutLostOrderFindsItsGoods: the database lost the order after the card was opened. Its payer repeats the
// purchase, or buys under another key.
func TestCheckoutLostOrderFindsItsGoods(t *testing.T) {
	for name, c := range map[string]struct {
		key    string
		traits fulfilment.Traits
	}{
		"the same key": {"k", fulfilment.Traits{Deduplicates: true}},
		"the same key, at an issuer that takes a reference twice": {
			"k", fulfilment.Traits{VisibilityDelay: time.Millisecond},
		},
		"another key": {"another", fulfilment.Traits{Deduplicates: true}},
	} {
		checkouttest.Run(t, name, func(t *testing.T) {
			before := checkouttest.Open(t, checkouttest.Options{Traits: c.traits})
			b := before.NewBuyer(t)
			sold := before.MustBuy(t, before.PaidCard(t, b, "k"))
			before.Reaches(t, sold.Order.ID, order.Fulfilled)
			onCard(t, before, b, card.Remaining)
			// An empty database, the same chain and the same issuer.
			s := checkouttest.Open(t, checkouttest.Options{Chain: before.Chain, Issuer: before.Issuer})
			if err := s.Store.Orders.Arrive(t.Context(), arrivedAs(sold.Payment)); err != nil {
				t.Fatal(err)
			}
			again, err := s.Buy(t.Context(), s.PaidCard(t, b, c.key))
			if c.key == "k" {
				if err != nil || !again.Replayed || again.Order.ID == sold.Order.ID {
					t.Fatalf("sold %+v, %v", again, err)
				}
				s.Reaches(t, again.Order.ID, order.Fulfilled)
				onCard(t, s, b, card.Remaining)
			} else {
				checkouttest.WantFault(t, err, fault.SettlementUnknown)
			}
			if made := len(s.Issuer.Opened()); s.Spent(b) != price || made != 1 {
				t.Errorf("spent %s, %d cards", s.Spent(b), made)
			}
		})
	}
}

// onCard waits until the balance of the buyer's card is want.
func onCard(t *testing.T, s *checkouttest.Shop, b checkouttest.Buyer, want any) {
	t.Helper()
	checkouttest.Until(t, "the balance of the card", func() bool {
		c, err := s.Store.Cards.Live(t.Context(), b.Address)
		if err != nil {
			return false
		}
		balance, err := s.Issuer.Balance(t.Context(), c.Account)
		return err == nil && balance.Available == want
	})
}

// arrivedAs is a payment as the chain shows it to a store without it.
func arrivedAs(p payment.Payment) payment.Arrived {
	return payment.Arrived{Network: p.Network, Asset: p.Asset, Authorization: p.Authorization, Receipt: *p.Receipt}
}

// TestCheckoutKeylessOrdersAreDifferentPurchases: an order that was created without a key repeats no other.
func TestCheckoutKeylessOrdersAreDifferentPurchases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "card")).Order.ID, order.Fulfilled)
		onCard(t, s, b, card.Remaining)
		want := card.Remaining
		request, err := json.Marshal(topup.Request{Gross: 2500})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			opened, err := s.Create(t.Context(), checkout.CreateRequest{Kind: topup.Kind, Owner: b.Address, Request: request})
			if err != nil {
				t.Fatal(err)
			}
			paid := b.Pay(t, termsOf(t, s, opened.Order.ID))
			if _, err := s.Pay(t.Context(), opened.Order.ID, paid, at); err != nil {
				t.Fatal(err)
			}
			s.Reaches(t, opened.Order.ID, order.Fulfilled)
			want += topup.SplitOf(2500).Credit
			onCard(t, s, b, want)
		}
	})
}
