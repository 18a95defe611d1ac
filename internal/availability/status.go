package availability

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// State says how the sale of a product stands.
type State string

// The states, from best to worst.
const (
	// StateOpen says that it is sold and delivered.
	StateOpen State = "open"
	// StateDegraded says that something it depends on is missing.
	StateDegraded State = "degraded"
	// StatePaused says that the configuration or an operator has closed the sale.
	StatePaused State = "paused"
)

// Status says how one product stands, in words that anybody may read: they name no provider and no amount.
type Status struct {
	Product order.Kind
	// Title names the product for people.
	Title string
	State State
	// Reason says why it is not open; empty while it is.
	Reason string
	// Since is when it came to its state: when operators closed the sale, else when this process first saw it so.
	Since time.Time
	// Delivery is how long recent deliveries took.
	Delivery DeliveryTime
}

// DeliveryTime says how long the recent deliveries of a product took, from the settled payment to the goods.
type DeliveryTime struct {
	Median time.Duration
	// Count is how many deliveries that is the median of; zero says that there is none.
	Count int
}

// Report says how the service stands.
type Report struct {
	// At is when it was looked at.
	At       time.Time
	Products []Status
}

// State is the worst of the products that are sold, and paused while none is.
func (r Report) State() State {
	state, sold := StateOpen, false
	for _, p := range r.Products {
		sold = sold || p.State != StatePaused
		if p.State == StateDegraded {
			state = StateDegraded
		}
	}
	if !sold {
		return StatePaused
	}
	return state
}

// BoardConfig is what a Board is made of.
type BoardConfig struct {
	Products []Product
	// Deliveries are the recent delivery times of each product; what cannot be read is left out.
	Deliveries func(ctx context.Context) map[order.Kind]DeliveryTime
	Now        func() time.Time
}

const (
	// boardTTL is how old a report may be, so that strangers who ask cost one look, however many they are.
	boardTTL = 5 * time.Second
	// boardEvery is how often the board is looked at while nobody asks, so that Since is known.
	boardEvery = 30 * time.Second
)

// Board reports how the products stand. It caches what it reports.
type Board struct {
	config BoardConfig
	report *Memo[Report]
	// seen is the last status of each product. One look ends before the next begins.
	seen map[order.Kind]Status
}

// NewBoard makes a Board.
func NewBoard(c BoardConfig) *Board {
	b := &Board{config: c, seen: map[order.Kind]Status{}}
	b.report = NewMemo(MemoConfig[Report]{Read: b.look, TTL: boardTTL, Now: c.Now})
	return b
}

// Report says how the products stand, as of at most boardTTL ago. It fails when ctx ends first.
func (b *Board) Report(ctx context.Context) (Report, error) { return b.report.Get(ctx) }

// Watch keeps the board up to date until ctx ends.
func (b *Board) Watch(ctx context.Context) {
	every := time.NewTicker(boardEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			_, _ = b.Report(ctx) // it fails only when ctx ends
		}
	}
}

func (b *Board) look(ctx context.Context) (Report, error) {
	now := b.config.Now().UTC()
	r := Report{At: now, Products: make([]Status, len(b.config.Products))}
	var times map[order.Kind]DeliveryTime
	var all sync.WaitGroup
	all.Go(func() { times = b.config.Deliveries(ctx) })
	for i, p := range b.config.Products {
		all.Go(func() { r.Products[i] = p.status(ctx) })
	}
	all.Wait()
	for i := range r.Products {
		s := &r.Products[i]
		s.Delivery = times[s.Product]
		if s.Since.IsZero() {
			s.Since = now
			if last, ok := b.seen[s.Product]; ok && last.State == s.State {
				s.Since = last.Since
			}
		}
		b.seen[s.Product] = *s
	}
	return r, nil
}

// status is how a product stands now. Since is zero where nobody has recorded it.
func (p Product) status(ctx context.Context) Status {
	s := Status{Product: p.Kind, Title: cmp.Or(p.Title, string(p.Kind)), State: StateOpen}
	paused, err := p.Paused(ctx)
	switch {
	case err != nil:
		s.State, s.Reason = StateDegraded, "The service cannot read its records at the moment."
	case paused:
		s.State, s.Reason, s.Since = StatePaused, "Nothing of this is sold at the moment.", p.pausedSince(ctx)
	case failing(run(ctx, p.checks())):
		s.State, s.Reason = StateDegraded, "Payments cannot be settled at the moment."
	default:
		s.State, s.Reason = p.selling(ctx)
	}
	return s
}

// shortages say what a buyer would meet, by the fault of a check.
var shortages = map[fault.Code]string{
	fault.FloatUnavailable: "Too little is left to sell at the moment. Purchases are refused before anybody pays.",
	fault.FloatReserved: "What is left is reserved for payments that are not settled yet. Purchases are refused for a " +
		"moment, before anybody pays.",
}

// selling is how a product stands whose sale is open while payments settle.
func (p Product) selling(ctx context.Context) (state State, reason string) {
	state = StateOpen
	for _, r := range run(ctx, slices.Concat(p.Operated, p.Shown, p.Needs, p.Least)) {
		if r.Err == nil {
			continue
		}
		if state == StateOpen {
			state, reason = StateDegraded, "Purchases may be refused or delivered late at the moment."
		}
		if told, ok := shortages[fault.Of(r.Err)]; ok {
			reason = told
		}
	}
	return state, reason
}

func failing(results []Result) bool {
	for _, r := range results {
		if r.Err != nil {
			return true
		}
	}
	return false
}

// pausedSince is when operators closed the sale; zero when the configuration did, or when it cannot be read.
func (p Product) pausedSince(ctx context.Context) (at time.Time) {
	if p.Closed {
		return time.Time{}
	}
	if s, err := p.Switches.switchOf(ctx, p.Kind); err != nil || s.Paused {
		return s.ChangedAt
	}
	for _, name := range p.Providers {
		if s, err := p.Switches.switchOf(ctx, OfProvider(name)); err == nil && s.ChangedAt.After(at) {
			at = s.ChangedAt
		}
	}
	return at
}
