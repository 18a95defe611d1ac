package esim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// Records are the profiles of some orders that their supplier made, and the cancellations of these orders. They
// implement reconcile.Goods.
type Records struct {
	Profiles      []Profile
	Cancellations []CancelArgs
}

// Differs finds nothing: a plan's price is whatever it was offered at.
func (r Records) Differs(order.Sale) string { return "" }

// Postings are the sales that were delivered, what the supplier charged, and what it took back.
func (r Records) Postings(sales []order.Sale) (all []ledger.Posting) {
	for _, s := range sales {
		if s.Kind == Kind && s.Status == order.Fulfilled {
			all = append(all, ledger.Sold(string(s.ID), s.Price, ledger.EsimRevenue))
		}
	}
	for _, p := range r.Profiles {
		all = append(all, p.Postings()...)
	}
	for _, c := range r.Cancellations {
		all = append(all, c.Postings()...)
	}
	return all
}

// Calls are none: the supplier's book is not compared.
func (r Records) Calls([]order.Sale) []order.Call { return nil }

// Book is the supplier's own book.
type Book interface {
	// Purchases are all orders it has of ours, without their activation data.
	Purchases(ctx context.Context) ([]Purchase, error)
}

// Plans are all that were ever in the catalogue.
type Plans interface {
	// PlansByCode finds those of a provider by the supplier's codes.
	PlansByCode(ctx context.Context, provider string) (map[string]Plan, error)
}

// NamedBook is the book of one supplier.
type NamedBook struct {
	// Provider is the supplier's name in the settings.
	Provider string
	Book     Book
}

// IssuedRecords is what the suppliers have made for us. It implements reconcile.Product.
type IssuedRecords struct {
	Books []NamedBook
	Plans Plans
}

// Kind implements reconcile.Product.
func (m IssuedRecords) Kind() order.Kind { return Kind }

// References implements reconcile.Product.
func (m IssuedRecords) References(o order.Order) []order.Reference { return orders.References(o) }

// Made implements reconcile.Product.
func (m IssuedRecords) Made(ctx context.Context) (all []order.Goods, err error) {
	for _, of := range m.Books {
		made, err := m.of(ctx, of)
		if err != nil {
			return nil, err
		}
		all = append(all, made...)
	}
	return all, nil
}

// of is what one supplier has made.
func (m IssuedRecords) of(ctx context.Context, from NamedBook) ([]order.Goods, error) {
	purchases, err := from.Book.Purchases(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the supplier's books: %w", err)
	}
	plans, err := m.Plans.PlansByCode(ctx, from.Provider)
	if err != nil {
		return nil, fmt.Errorf("find the plans: %w", err)
	}
	var all []order.Goods
	for _, p := range purchases {
		if p.State == PurchaseRejected || p.Onto != "" {
			continue
		}
		plan, sold := plans[p.Code]
		all = append(all, order.Goods{
			Kind: Kind, Reference: uuid.UUID(p.Ref), Note: p.Buyer, Step: OrderStep,
			Description: fmt.Sprintf("the supplier has an eSIM of the plan %s, for %s USDC", plan.ID, p.Cost.Dollars()),
			Costs:       costOf(plan, sold, p.Cost),
			Item: func(money.USDC) json.RawMessage {
				return marshal(itemOf(plan))
			},
		})
	}
	return all, nil
}

// costOf says how well an amount fits what the supplier charged for a plan of ours.
func costOf(plan Plan, sold bool, cost money.USDC) func(money.USDC) int {
	return func(v money.USDC) int {
		switch {
		case !sold:
			return 0
		case v == plan.Price.USDC():
			return 2
		case v >= cost && v <= 2*plan.Price.USDC():
			return 1 // sold at an earlier price
		}
		return 0
	}
}
