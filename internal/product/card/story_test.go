package card_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	callTimeout     = 5 * time.Second
	visibilityDelay = time.Minute
	deadline        = time.Hour
)

var owner = x402.Address{0: 0xaa, 19: 1}

// shelf is the card product over an issuer, a store and a queue in memory, on a virtual clock.
type shelf struct {
	*testing.T
	*card.Cards
	issuer *cardtest.Issuer
	store  memory.Cards
	queue  memory.Jobs
	// made are the deliveries.
	made *fulfilmenttest.Deliveries
	// limits says that the issuer has spending limits from the next delivery on.
	limits atomic.Bool
}

// careful is an issuer that shows a reference late, and deduplicates.
var careful = fulfilment.Traits{Deduplicates: true, VisibilityDelay: visibilityDelay}

// story runs a test with a worker in a bubble of time of its own.
func story(t *testing.T, traits fulfilment.Traits, tell func(s *shelf)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, traits)
		s.made.Work(t, map[job.Kind]job.Handler{card.FeeJob: s.WithdrawFee}, func() { tell(s) })
	})
}

func newShelf(t *testing.T, traits fulfilment.Traits) *shelf {
	t.Helper()
	s := &shelf{
		T: t, issuer: cardtest.NewIssuer(cardtest.Config{Instant: true, Traits: traits}),
		made: fulfilmenttest.NewDeliveries(),
	}
	s.queue, s.made.Deliver = s.made.Queue, s.fulfill
	s.store = s.made.Store.Cards()
	s.Cards = card.New(card.Config{
		Store: s.store, Now: time.Now,
		Providers: []card.Provider{{
			Issuer: s.issuer, Vault: s.issuer, Stock: s.issuer, Lister: s.issuer, Controls: s.issuer, Traits: traits,
			Capabilities: s.issuer.Capabilities(),
		}},
		Workers: working(nil), Poll: time.Second, CallTimeout: callTimeout,
		Deadline: deadline,
	})
	return s
}

// working is a check for workers that ends as it is told.
func working(err error) availability.Check {
	return availability.Check{Name: "workers", Run: func(context.Context) error { return err }}
}

// product is what checkout asks of one.
type product interface {
	Availability() availability.Product
	Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error)
}

// offered is what a product offers, if it can be sold now.
func offered(ctx context.Context, p product, quoted *order.Offer) (order.Offer, error) {
	if err := p.Availability().Open(ctx); err != nil {
		return order.Offer{}, err
	}
	return p.Offer(ctx, order.OfferRequest{Quoted: quoted})
}

// fulfill delivers a card with what the issuer is capable of now.
func (s *shelf) fulfill(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	if of := &s.Providers[0]; s.limits.Load() && of.Capabilities.Funding != card.Limit {
		of.Capabilities.Funding = card.Limit
	}
	return s.Deliver(ctx, l, o)
}

// ended is how the delivery of an order ended.
func (s *shelf) ended(id order.ID) order.Progress { return s.made.Of(id) }

// paid lets an order of the owner be delivered.
func (s *shelf) paid() order.ID { return s.paidBy(owner) }

func (s *shelf) paidBy(by x402.Address) order.ID {
	s.Helper()
	o := order.Order{ID: order.NewID(time.Now()), Kind: card.Kind, Owner: by, Price: card.Price, UpdatedAt: time.Now()}
	s.made.Begin(s.T, o)
	return o.ID
}

// pass lets time go by until everybody waits.
func (s *shelf) pass(d time.Duration) { fulfilmenttest.Pass(d) }

// card is the one of an order.
func (s *shelf) card(id order.ID) card.Card {
	s.Helper()
	found, err := s.store.Issued(s.Context(), id)
	if err != nil || found[id].Order != id {
		s.Fatalf("the card of %s: %+v, %v", id, found, err)
	}
	return found[id]
}

// fee is the fee job of an order's card.
func (s *shelf) fee(id order.ID) job.Row {
	s.Helper()
	row, found, err := s.queue.Find(s.Context(), card.FeeJob, s.card(id).ID.String())
	if err != nil || !found {
		s.Fatalf("fee job: found %t, %v", found, err)
	}
	return row
}

func (s *shelf) wantBalance(id order.ID, want money.Cents) {
	s.Helper()
	if b, err := s.Balance(s.Context(), s.card(id).ID, owner); err != nil || b.Available != want {
		s.Errorf("%s on the card, %v; want %s", b.Available, err, want)
	}
}
