package topup

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// direction is the issuer's direction of a load.
const direction = "load"

// Records are the splits of some top-up orders. They implement reconcile.Goods.
type Records struct {
	Splits map[order.ID]Split
	// Accounts are the issuer's IDs of the cards, and Providers the issuers' names.
	Accounts, Providers map[uuid.UUID]string
}

// Differs reports a top-up whose split does not match its price.
func (r Records) Differs(s order.Sale) string {
	t, ours := r.Splits[s.ID]
	whole := Split{Gross: t.Gross, Fee: t.Fee, Credit: t.Credit}
	if !ours || !s.WasClaimed() || (t.Gross == s.Price && SplitOf(t.Gross) == whole) {
		return ""
	}
	return fmt.Sprintf("a top-up of %s is split into %s for the card and %s for us", s.Price, t.Credit, t.Fee)
}

// Postings are the expected ledger postings of the delivered top-ups.
func (r Records) Postings(sales []order.Sale) (all []ledger.Posting) {
	for _, s := range sales {
		if t, ours := r.Splits[s.ID]; ours && s.Status == order.Fulfilled {
			all = append(all, t.Postings(s.ID)...)
		}
	}
	return all
}

// Calls are the attempts at the loads.
func (r Records) Calls(sales []order.Sale) (all []order.Call) {
	for _, s := range sales {
		t, ours := r.Splits[s.ID]
		if !ours || !s.WasClaimed() {
			continue
		}
		for attempt := max(1, s.Delivery); attempt > 0; attempt-- {
			call := order.Call{
				Order: s.ID, Reference: uuid.UUID(LoadRef(s.Named(), attempt)), Description: "load", Amount: t.Credit,
				Card: t.Card, Account: r.Accounts[t.Card], Provider: r.Providers[t.Card], Direction: direction,
			}
			switch {
			case attempt < s.Delivery: // confirmed as refused, or there would be no later one
			case s.Uncertain():
				call.Standing = order.InFlight
			case s.Status == order.Fulfilled:
				call.Standing = order.Made
			}
			all = append(all, call)
		}
	}
	return all
}

// IssuedRecords are the loads that the issuer has made. It implements reconcile.Product.
type IssuedRecords struct{ Book Book }

// Book lists the loads in the issuer's books.
type Book interface {
	// Loads are all loads, with their cards as far as we have them.
	Loads(ctx context.Context) ([]order.Goods, error)
}

// Kind implements reconcile.Product.
func (m IssuedRecords) Kind() order.Kind { return Kind }

// References implements reconcile.Product.
func (m IssuedRecords) References(o order.Order) []order.Reference { return loads.References(o) }

// Made implements reconcile.Product.
func (m IssuedRecords) Made(ctx context.Context) ([]order.Goods, error) {
	loads, err := m.Book.Loads(ctx)
	for i := range loads {
		g := &loads[i]
		on, credit := g.Card, g.Amount
		g.Kind, g.Step = Kind, LoadStep
		g.Costs = func(v money.USDC) int {
			if gross, exact := v.Cents(); exact && SplitOf(gross).Credit == credit {
				return 2
			}
			return 0
		}
		g.Item = func(v money.USDC) json.RawMessage {
			gross, _ := v.Cents()
			split := SplitOf(gross)
			split.Card = on
			return marshal(split)
		}
	}
	return loads, err
}
