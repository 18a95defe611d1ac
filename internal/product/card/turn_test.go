package card_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// pairs is how many cards have two movements at once.
const pairs = 60

// crowd is a shelf with many cards whose issuer takes its time for movements.
type crowd struct {
	*shelf
	cards []card.Card
}

// newCrowd makes one over an issuer. change may wrap both.
func newCrowd(t *testing.T, limits bool, change func(*card.Config, *cardtest.Issuer)) *crowd {
	t.Helper()
	c := &crowd{shelf: newShelf(t, careful)}
	c.issuer = cardtest.NewIssuer(cardtest.Config{Limits: limits, Traits: careful})
	cfg := c.Config
	of := c.Providers[0]
	of.Issuer, of.Vault, of.Stock, of.Capabilities = c.issuer, c.issuer, c.issuer, c.issuer.Capabilities()
	cfg.Providers = []card.Provider{of}
	change(&cfg, c.issuer)
	c.Cards = card.New(cfg)
	credit := topup.Topups{Cards: c.Cards}
	c.made.Deliver = func(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
		if o.Kind == topup.Kind {
			return credit.Deliver(ctx, l, o)
		}
		return c.Deliver(ctx, l, o)
	}
	c.made.Ended = c.post
	return c
}

// post adds the postings of a top-up that is delivered.
func (s *shelf) post(o order.Order, at order.Progress) {
	if o.Kind != topup.Kind || at.State != order.Delivered {
		return
	}
	all, err := topup.Topups{}.Postings(o)
	if err != nil {
		s.Error(err)
	}
	s.store.Orders().Post(o.Owner, all...)
}

// tell runs the jobs while the test tells its story, in a bubble of time of its own.
func (c *crowd) tell(tell func()) {
	c.made.Work(c.T, map[job.Kind]job.Handler{card.FeeJob: c.WithdrawFee}, tell)
}

// settle lets the issuer execute what it has accepted, again and again.
func (c *crowd) settle(times int) {
	for range times {
		c.pass(10 * time.Second)
		c.issuer.Settle()
	}
	c.pass(10 * time.Second)
}

// sold lets many owners buy a card each.
func (c *crowd) sold() {
	c.Helper()
	ids := make([]order.ID, pairs)
	for i := range ids {
		o := order.Order{
			ID: order.NewID(time.Now()), Kind: card.Kind, Owner: ownerOf(i), Price: card.Price, UpdatedAt: time.Now(),
		}
		c.made.Begin(c.T, o)
		ids[i] = o.ID
	}
	c.pass(time.Second)
	c.issuer.Settle()
	c.pass(2 * time.Second)
	for _, id := range ids {
		if got := c.card(id); got.Status != card.Active {
			c.Fatalf("card %+v, delivery %+v", got, c.ended(id))
		}
		c.cards = append(c.cards, c.card(id))
	}
}

func ownerOf(i int) (a x402.Address) {
	binary.BigEndian.PutUint32(a[16:], uint32(i)+1)
	return a
}

// tops lets the owner of every card pay for a load.
func (c *crowd) tops(gross money.Cents) {
	c.Helper()
	for _, on := range c.cards {
		split := topup.SplitOf(gross)
		split.Card = on.ID
		c.made.Begin(c.T, order.Order{
			ID: order.NewID(time.Now()), Kind: topup.Kind, Owner: on.Owner, Price: gross, UpdatedAt: time.Now(),
			Item: asItem(c.T, split), Delivery: 1,
		})
	}
}

func asItem(t *testing.T, split topup.Split) json.RawMessage {
	t.Helper()
	item, err := json.Marshal(split)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// wrong counts the cards with another balance.
func (c *crowd) wrong(want money.Cents) (n int) {
	c.Helper()
	for _, on := range c.cards {
		b, err := c.Providers[0].Vault.Balance(c.Context(), on.Account)
		if err != nil {
			c.Fatal(err)
		}
		if b.Available != want {
			n++
		}
	}
	return n
}

// oneByOne is an issuer that notices when a movement of a card is asked for while another one is under way.
type oneByOne struct {
	*cardtest.Issuer
	t    *testing.T
	mu   sync.Mutex
	last map[string]fulfilment.Ref
}

// Move implements card.Issuer.
func (o *oneByOne) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	o.mu.Lock()
	last, moved := o.last[m.Account]
	o.last[m.Account] = m.Ref
	o.mu.Unlock()
	if moved && last != m.Ref {
		if before, err := o.Issuer.Moved(ctx, m.Account, last); err != nil || before.State == card.MovePending {
			o.t.Errorf("a %s is sent while another movement of the card is %s, %v", m.Direction, before.State, err)
		}
	}
	return o.Issuer.Move(ctx, m)
}

func watched(t *testing.T) func(*card.Config, *cardtest.Issuer) {
	return func(cfg *card.Config, i *cardtest.Issuer) {
		cfg.Providers[0].Issuer = &oneByOne{Issuer: i, t: t, last: map[string]fulfilment.Ref{}}
	}
}

func TestTwoLoadsAtOnceReachALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, true, watched(t))
		c.tell(func() {
			c.sold()
			c.tops(2500)
			c.tops(5000)
			c.settle(10)
		})
		if n := c.wrong(card.Remaining + 2450 + 4900); n != 0 {
			t.Errorf("%d of %d cards have another balance", n, pairs)
		}
	})
}

func TestLoadAndAWithdrawalAtOnceReachAPurse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, false, watched(t))
		c.tell(func() {
			c.sold() // the fee is being withdrawn
			c.tops(2500)
			c.settle(10)
		})
		if n := c.wrong(card.Remaining + 2450); n != 0 {
			t.Errorf("%d of %d cards have another balance", n, pairs)
		}
	})
}

// naive is an adapter that adds to the limit that it finds at the issuer.
type naive struct{ *cardtest.Issuer }

// Move implements card.Issuer.
func (n naive) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	m.Target = n.Limit(m.Account) + m.Amount
	return n.Issuer.Move(ctx, m)
}

// allAtOnce is a store that lets everybody have a card.
type allAtOnce struct{ card.Store }

// TakeTurn implements card.Store.
func (allAtOnce) TakeTurn(context.Context, job.Fence, card.MovementLock) (money.Cents, error) {
	return 0, nil
}

// TestDifferencesLoseLoads shows that the tests above notice what they are about.
func TestDifferencesLoseLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, true, func(cfg *card.Config, i *cardtest.Issuer) {
			cfg.Providers[0].Issuer, cfg.Store = naive{i}, allAtOnce{cfg.Store}
		})
		c.tell(func() {
			c.sold()
			c.tops(2500)
			c.tops(5000)
			c.settle(10)
		})
		if n := c.wrong(card.Remaining + 2450 + 4900); n < pairs/2 {
			t.Errorf("%d of %d cards have another balance", n, pairs)
		}
	})
}

// TestLoadIsSentAgainWithItsTarget: what was paid for meanwhile waits.
func TestLoadIsSentAgainWithItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, true, watched(t))
		c.tell(func() {
			c.sold()
			for range pairs {
				c.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutBefore)
			}
			c.tops(2500)
			c.pass(2 * time.Second)
			c.tops(5000)
			c.settle(30)
		})
		if n := c.wrong(card.Remaining + 2450 + 4900); n != 0 {
			t.Errorf("%d of %d cards have another balance", n, pairs)
		}
	})
}

// TestLoadThatAPersonDecidesAboutKeepsItsCard: nobody knows whether the limit has it.
func TestLoadThatAPersonDecidesAboutKeepsItsCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, true, watched(t))
		c.tell(func() {
			c.sold()
			c.cards = c.cards[:1]
			c.issuer.Fault(cardtest.Move, fulfilmenttest.StaysPending)
			c.tops(2500)
			c.pass(deadline + 10*time.Minute)
			sent := c.issuer.Calls(cardtest.Move)
			c.tops(5000)
			c.settle(10)
			if n := c.issuer.Calls(cardtest.Move); n != sent {
				t.Errorf("%d movements were sent, and %d before", n, sent)
			}
		})
		if n := c.wrong(card.Remaining); n != 0 {
			t.Error("the card has another balance")
		}
	})
}

// TestLoadFromBeforeIsNotBelieved: the limit that it set may have been set again since.
func TestLoadFromBeforeIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, true, watched(t))
		c.wantDoubtfulAfter(card.Movement{Amount: 2450, Target: 9000})
	})
}

// TestLoadOfAnotherSumIsNotBelieved: an order of the same key, which was lost, has asked for more.
func TestLoadOfAnotherSumIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, false, func(*card.Config, *cardtest.Issuer) {})
		c.wantDoubtfulAfter(card.Movement{Amount: 24500})
	})
}

// wantDoubtfulAfter lets an order of 25.00 find a load that was made before under its reference.
func (c *crowd) wantDoubtfulAfter(before card.Movement) {
	c.Helper()
	var id order.ID
	c.tell(func() {
		c.sold()
		on := c.cards[0]
		id = order.NewID(time.Now())
		before.Ref, before.Account, before.Direction = topup.LoadRef(string(id), 1), on.Account, card.Load
		if _, err := c.issuer.Move(c.Context(), before); err != nil {
			c.Fatal(err)
		}
		c.issuer.Settle()
		split := topup.SplitOf(2500)
		split.Card = on.ID
		c.made.Begin(c.T, order.Order{
			ID: id, Kind: topup.Kind, Owner: on.Owner, Price: 2500, UpdatedAt: time.Now(), Item: asItem(c.T, split),
			Delivery: 1,
		})
		c.settle(20)
	})
	if at := c.ended(id); at.State != order.Doubtful {
		c.Errorf("delivery %+v", at)
	}
}

func TestIssuerThatCannotBeServedIsRefused(t *testing.T) {
	good := card.Capabilities{Funding: card.Limit, Reveal: card.RevealEmbed, Holder: card.HolderProgramme}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*card.Capabilities){
		"the owner's identity": func(c *card.Capabilities) { c.Holder = card.HolderOwner },
		"no holder":            func(c *card.Capabilities) { c.Holder = "" },
		"no funding":           func(c *card.Capabilities) { c.Funding = "" },
		"no reveal":            func(c *card.Capabilities) { c.Reveal = "post" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil {
			t.Errorf("%s: served", name)
		}
	}
}

func TestOnlyAnIssuerThatTellsItsRangesNeedsAnOpenOne(t *testing.T) {
	s := newShelf(t, careful)
	s.issuer.SetBINs()
	if _, err := offered(t.Context(), s.Cards, nil); err == nil {
		t.Error("sold without an open range")
	}
	s = newShelf(t, careful)
	s.issuer.SetBINs()
	s.Providers[0].Capabilities.BINs = false
	if _, err := offered(t.Context(), s.Cards, nil); err != nil {
		t.Error(err)
	}
}
