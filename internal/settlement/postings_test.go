package settlement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
)

// wantPosted compares the postings of an order.
func wantPosted(t *testing.T, s *checkouttest.Shop, id order.ID, want ...ledger.Posting) {
	t.Helper()
	all, got := map[ledger.ID][]ledger.Entry{}, map[ledger.ID][]ledger.Entry{}
	for _, p := range want {
		all[p.ID] = p.Entries
	}
	for _, p := range s.Store.Postings(t, id) {
		got[p.ID] = p.Entries
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("the ledger differs (-want +got):\n%s", diff)
	}
}

func TestTopUpIsPostedWhoeverDeliversIt(t *testing.T) {
	for name, byHand := range map[string]bool{"by its job": false, "by hand": true} {
		t.Run(name, func(t *testing.T) {
			s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
			b := s.NewBuyer(t)
			c := s.WithCard(t, b)
			p := checkouttest.TopUp("t", 2500)
			p = s.Paid(t, b, p)
			if byHand {
				s.Issuer.Fault(cardtest.Move, fulfilmenttest.Rejected)
			}
			id := s.MustBuy(t, p).Order.ID
			if byHand {
				s.Reaches(t, id, order.OperatorReview)
				wantPosted(t, s, id, ledger.Settled(string(id), price))
				s.Decide(t, id, admin.DecideFulfilled, "loaded at the counter")
			}
			s.Reaches(t, id, order.Fulfilled)
			wantPosted(t, s, id, ledger.Settled(string(id), price),
				ledger.Loaded(string(id), c.ID.String(), 2450), ledger.LoadFee(string(id), 50))
		})
	}
}

func TestRefusedCardIsPostedAsRefunded(t *testing.T) {
	s, _ := checkouttest.OpenWithTreasury(t, checkouttest.Options{Postgres: true}, 100_000_000)
	id := s.MustBuy(t, s.PaidCard(t, s.NewBuyer(t), "k~002")).Order.ID
	s.Reaches(t, id, order.Refunded)
	wantPosted(t, s, id, ledger.Settled(string(id), price), ledger.Refunded(string(id), price))
}
