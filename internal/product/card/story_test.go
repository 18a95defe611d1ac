package card_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
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
	store  *cardtest.Store
	queue  *jobtest.Queue
	// done is how each delivery ended; it is read once the clock stands still.
	done map[order.ID]order.Progress
	// limits says that the issuer has spending limits from the next delivery on.
	limits atomic.Bool
}

// careful is an issuer that shows a reference late, and deduplicates.
var careful = card.Traits{Deduplicates: true, VisibilityDelay: visibilityDelay}

// story runs a test with a worker in a bubble of time of its own.
func story(t *testing.T, habits card.Traits, tell func(s *shelf)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, habits)
		r := job.NewRunner(job.Config{Queue: s.queue})
		r.Register(fulfill, s.fulfill)
		r.Register(card.FeeJob, s.WithdrawFee)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		tell(s)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func newShelf(t *testing.T, habits card.Traits) *shelf {
	t.Helper()
	s := &shelf{T: t, issuer: cardtest.NewIssuer(cardtest.Config{Instant: true, Habits: habits}), done: map[order.ID]order.Progress{}}
	s.queue = jobtest.NewQueue(nil)
	s.store = cardtest.NewStore(s.queue)
	s.Cards = card.New(card.Config{
		Store: s.store, Issuer: s.issuer, Vault: s.issuer, Stock: s.issuer, Roll: s.issuer, Traits: habits, Now: time.Now,
		Workers: working(nil), Poll: time.Second, CallTimeout: callTimeout, Deadline: deadline,
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

const fulfill job.Kind = "carry"

type fulfillArgs struct{ Order order.Order }

func (fulfillArgs) Kind() job.Kind { return fulfill }

// fulfill does for one product what checkout does for all.
func (s *shelf) fulfill(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[fulfillArgs](l.Row())
	if err != nil {
		return job.Outcome{}, err
	}
	if s.limits.Load() && !s.Capabilities.SpendLimit {
		s.Capabilities.SpendLimit = true
	}
	at, err := s.Deliver(ctx, l, a.Order)
	if err != nil {
		return job.Outcome{}, err
	}
	if at.State == order.Waiting {
		return job.Snooze(at.After), nil
	}
	s.done[a.Order.ID] = at
	return job.Done(), nil
}

// paid lets an order of the owner be delivered.
func (s *shelf) paid() order.ID {
	s.Helper()
	o := order.Order{ID: order.NewID(time.Now()), Kind: order.CardIssue, Owner: owner, Price: card.Price, UpdatedAt: time.Now()}
	if _, err := s.queue.Enqueue(s.Context(), job.New{Args: fulfillArgs{o}, UniqueKey: string(o.ID)}); err != nil {
		s.Fatal(err)
	}
	return o.ID
}

// pass lets time go by until everybody waits.
func (s *shelf) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

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
