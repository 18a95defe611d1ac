package checkout_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// wantPosted compares the ledger of an order with what it must be.
func (s *shop) wantPosted(t *testing.T, id order.ID, want ...ledger.Posting) {
	t.Helper()
	records, err := s.store.Treasury(x402.Address{}, x402.Address{}).OfOrders(t.Context(), []order.ID{id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, got := map[ledger.ID][]ledger.Entry{}, map[ledger.ID][]ledger.Entry{}
	for _, p := range want {
		all[p.ID] = p.Entries
	}
	for _, p := range records.Postings {
		got[p.ID] = p.Entries
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("the ledger differs (-want +got):\n%s", diff)
	}
}

func TestATopUpIsPostedWhoeverDeliversIt(t *testing.T) {
	for name, byHand := range map[string]bool{"by its job": false, "by hand": true} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options{})
			b := s.newBuyer(t)
			c := s.withCard(t, b)
			p := topUp("t", 2500)
			p.Payment = b.pay(t, s.challenge(t, p))
			if byHand {
				s.issuer.Fault(cardtest.Move, fulfilmenttest.Rejected)
			}
			id := s.mustBuy(t, p).Order.ID
			if byHand {
				s.reaches(t, id, order.OperatorReview)
				s.wantPosted(t, id, ledger.Settled(string(id), price))
				s.decide(t, id, admin.DecideFulfilled, "loaded at the counter")
			}
			s.reaches(t, id, order.Fulfilled)
			s.wantPosted(t, id, ledger.Settled(string(id), price),
				ledger.Loaded(string(id), c.ID.String(), 2450), ledger.LoadFee(string(id), 50))
		})
	}
}

func TestACardThatIsRefusedIsPostedAsRefunded(t *testing.T) {
	s, _ := openWithTreasury(t, options{}, 100_000_000)
	id := s.mustBuy(t, s.paid(t, s.newBuyer(t), "k~002")).Order.ID
	s.reaches(t, id, order.Refunded)
	s.wantPosted(t, id, ledger.Settled(string(id), price), ledger.Refunded(string(id), price))
}
