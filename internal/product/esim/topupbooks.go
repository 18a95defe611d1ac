package esim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// TopupRecords are the top-ups of some orders that their supplier made. They implement reconcile.Goods.
type TopupRecords struct{ Topups []Topup }

// Differs finds nothing: a plan's price is whatever it was offered at.
func (r TopupRecords) Differs(order.Sale) string { return "" }

// Postings are the sales that were delivered, and what the supplier charged.
func (r TopupRecords) Postings(sales []order.Sale) (all []ledger.Posting) {
	for _, s := range sales {
		if s.Kind == TopupKind && s.Status == order.Fulfilled {
			all = append(all, ledger.Sold(string(s.ID), s.Price, ledger.EsimRevenue))
		}
	}
	for _, t := range r.Topups {
		all = append(all, t.Postings()...)
	}
	return all
}

// Calls are none: the supplier's book is not compared.
func (r TopupRecords) Calls([]order.Sale) []order.Call { return nil }

// Delivered is an eSIM that was delivered, as the supplier's book is compared with it.
type Delivered struct {
	Order order.ID
	Owner x402.Address
}

// Accounts finds delivered eSIMs by the supplier's IDs.
type Accounts interface {
	// DeliveredByAccount finds those of a provider; an unknown one is left out.
	DeliveredByAccount(ctx context.Context, provider string, accounts []string) (map[string]Delivered, error)
}

// IssuedTopups is the data that the suppliers have added for us. It implements reconcile.Product.
type IssuedTopups struct {
	Books    []NamedBook
	Plans    Plans
	Accounts Accounts
}

// Kind implements reconcile.Product.
func (m IssuedTopups) Kind() order.Kind { return TopupKind }

// References implements reconcile.Product.
func (m IssuedTopups) References(o order.Order) []order.Reference { return topups.References(o) }

// Made implements reconcile.Product.
func (m IssuedTopups) Made(ctx context.Context) (all []order.Goods, err error) {
	for _, of := range m.Books {
		made, err := m.of(ctx, of)
		if err != nil {
			return nil, err
		}
		all = append(all, made...)
	}
	return all, nil
}

// of is what one supplier has added.
func (m IssuedTopups) of(ctx context.Context, from NamedBook) ([]order.Goods, error) {
	purchases, err := from.Book.Purchases(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the supplier's books: %w", err)
	}
	var accounts []string
	for _, p := range purchases {
		if p.Onto != "" {
			accounts = append(accounts, p.Onto)
		}
	}
	if len(accounts) == 0 {
		return nil, nil
	}
	plans, err := m.Plans.PlansByCode(ctx, from.Provider)
	if err != nil {
		return nil, fmt.Errorf("find the plans: %w", err)
	}
	ours, err := m.Accounts.DeliveredByAccount(ctx, from.Provider, accounts)
	if err != nil {
		return nil, fmt.Errorf("find the eSIMs: %w", err)
	}
	var all []order.Goods
	for _, p := range purchases {
		if p.Onto == "" || p.State == PurchaseRejected {
			continue
		}
		plan, listed := plans[p.Code]
		on, known := ours[p.Onto]
		g := order.Goods{
			Kind: TopupKind, Reference: uuid.UUID(p.Ref), Note: p.Buyer, Step: TopupStep, Owner: on.Owner, Known: known,
			Description: fmt.Sprintf("the supplier has added the plan %s to an eSIM, for %s USDC", plan.ID, p.Cost.Dollars()),
			Costs:       costOf(plan, listed, p.Cost),
			Item:        func(money.USDC) json.RawMessage { return marshal(TopupItem{itemOf(plan), on.Order}) },
		}
		if !known {
			g.Description += " that is not in our books yet"
			g.Later = true
		}
		all = append(all, g)
	}
	return all, nil
}
