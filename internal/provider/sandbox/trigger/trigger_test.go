package trigger_test

import (
	"context"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/x402"
)

// sold is a product that remembers the scenario of its last delivery.
type sold struct{ played string }

// requoted is a product whose prices change.
type requoted struct{ sold }

func (*requoted) Repriced() bool { return true }

func (*sold) Kind() order.Kind                               { return "esim" }
func (*sold) Path() string                                   { return "" }
func (*sold) Availability() availability.Product             { return availability.Product{} }
func (*sold) Postings(order.Order) ([]ledger.Posting, error) { return nil, nil }

func (*sold) Offer(context.Context, order.OfferRequest) (order.Offer, error) {
	return order.Offer{Price: 2500}, nil
}

func (*sold) Reserve(context.Context, x402.Address, order.Offer) (order.Claim, error) {
	return order.Claim{}, nil
}

func (s *sold) Deliver(ctx context.Context, _ *job.Lease, _ order.Order) (order.Progress, error) {
	s.played = scenario.In(ctx)
	return order.Progress{State: order.Delivered}, nil
}

// named is a product that answers everything that a product may be asked.
type named struct{ sold }

func (*named) Invite(context.Context, order.Order) error {
	return fault.New(fault.IssuePaused, "")
}
func (*named) Found(context.Context, order.Order) (bool, error) { return true, nil }
func (*named) References(order.Order) []order.Reference         { return []order.Reference{{Step: "made"}} }

func TestProductRefusesWhatItsKeyAsks(t *testing.T) {
	quoted := &order.Offer{Price: 2500}
	for name, c := range map[string]struct {
		key      string
		requotes bool
		quoted   *order.Offer
		want     fault.Code
	}{
		"no key":                         {"", true, quoted, ""},
		"a plain key":                    {"k", true, quoted, ""},
		"a provider's scenario":          {"k~002", true, quoted, ""},
		"no float":                       {"k~007", false, nil, fault.FloatUnavailable},
		"no float after the quote":       {"k~007", true, quoted, fault.FloatUnavailable},
		"new price, not quoted":          {"k~008", true, nil, ""},
		"new price, quoted":              {"k~008", true, quoted, fault.TermsChanged},
		"new price, of a fixed price":    {"k~008", false, quoted, ""},
		"out of stock, not quoted":       {"k~009", true, nil, ""},
		"out of stock, quoted":           {"k~009", true, quoted, fault.TermsChanged},
		"out of stock, of what has none": {"k~009", false, quoted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := trigger.Product{Inner: &sold{}}
			if c.requotes {
				p.Inner = &requoted{}
			}
			offer, err := p.Offer(t.Context(), order.OfferRequest{Key: c.key, Quoted: c.quoted})
			f, refused := fault.As(err)
			switch {
			case c.want == "" && (err != nil || offer.Price != 2500):
				t.Errorf("offers %+v, %v", offer, err)
			case c.want != "" && (!refused || f.Code != c.want):
				t.Errorf("offers %+v, %v; want %s", offer, err, c.want)
			}
		})
	}
}

func TestProductDeliversWithTheScenarioOfItsOrder(t *testing.T) {
	of := &sold{}
	p := trigger.Product{Inner: of}
	for _, key := range []string{"k~002", "k"} {
		at, err := p.Deliver(t.Context(), nil, order.Order{Key: key})
		if err != nil || at.State != order.Delivered || of.played != scenario.Of(key) {
			t.Errorf("%s: %+v, %v, played %q", key, at, err, of.played)
		}
	}
}

func TestProductAnswersAsTheProductInIt(t *testing.T) {
	for name, c := range map[string]struct {
		in      trigger.Inner
		invites bool
		found   bool
		names   int
	}{
		"with answers":    {&named{}, false, true, 1},
		"without answers": {&sold{}, true, false, 0},
	} {
		p := trigger.Product{Inner: c.in}
		if err := p.Invite(t.Context(), order.Order{}); (err == nil) != c.invites {
			t.Errorf("%s: invites with %v", name, err)
		}
		if found, err := p.Found(t.Context(), order.Order{}); err != nil || found != c.found {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
		if got := p.References(order.Order{}); len(got) != c.names {
			t.Errorf("%s: references %v", name, got)
		}
	}
}

// settler settles at once, and counts.
type settler struct{ begun int }

func (*settler) Job(id order.ID, claim string) job.New { return job.New{UniqueKey: string(id) + claim} }

func (s *settler) Begin(o order.Order, pay payment.Payment, decided chan<- payment.Decided) job.Handler {
	return func(context.Context, *job.Lease) (job.Outcome, error) {
		defer close(decided)
		s.begun++
		decided <- payment.Decided{Order: o, Payment: pay}
		return job.Done(), nil
	}
}

func TestSettlementStaysUnknownLongerThanABuyerWaits(t *testing.T) {
	const wait = 20 * time.Second
	for key, begins := range map[string]int{"k": 1, "k~002": 1, "k~004": 0} {
		inner := &settler{}
		s := trigger.Settlement{Settler: inner, Wait: wait}
		decided := make(chan payment.Decided, 1)
		got, err := s.Begin(order.Order{Key: key}, payment.Payment{}, decided)(t.Context(), nil)
		_, told := <-decided
		if err != nil || inner.begun != begins || told != (begins == 1) {
			t.Errorf("%s: %+v, %v, begun %d times, told %v", key, got, err, inner.begun, told)
		}
		if begins == 0 && (got.Status != job.Queued || got.Delay <= wait) {
			t.Errorf("%s: %+v, want to be looked at after the wait", key, got)
		}
	}
}
