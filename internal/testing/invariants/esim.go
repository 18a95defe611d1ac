package invariants

import (
	"context"
	"fmt"
	"slices"
)

// profileRow is the eSIM of an order.
type profileRow struct{ ID, Order, Status, Reference, Account string }

// supplierBook is what the eSIM supplier executed. Topups are those of its eSIMs that were added to another one.
type supplierBook struct {
	Esims    []supplierEsim `json:"esims"`
	Topups   []supplierEsim `json:"-"`
	Executed map[string]int `json:"executed"`
}

type supplierEsim struct {
	ID        string `json:"id"`
	Reference string `json:"reference"`
	Status    string `json:"status"`
	// Cost is in millionths of a dollar.
	Cost int64 `json:"costMicros"`
	// Code is the supplier's name of the plan.
	Code string `json:"code"`
	// Onto is the eSIM that it was added to; empty for an eSIM of its own.
	Onto string `json:"onto"`
}

// journalRow is what was sent to a supplier that takes no reference.
type journalRow struct{ Reference, Code, Account string }

// readSuppliers reads the books of all suppliers.
func readSuppliers(ctx context.Context, urls []string, journal []journalRow) (all supplierBook, err error) {
	all.Executed = map[string]int{}
	for _, url := range urls {
		b, err := readSupplier(ctx, url, journal)
		if err != nil {
			return all, err
		}
		all.Esims, all.Topups = append(all.Esims, b.Esims...), append(all.Topups, b.Topups...)
		for ref, n := range b.Executed {
			all.Executed[ref] += n
		}
	}
	return all, nil
}

// readSupplier reads a supplier's book and finds the reference of each eSIM.
func readSupplier(ctx context.Context, url string, journal []journalRow) (supplierBook, error) {
	b, err := readBook[supplierBook](ctx, "supplier", url)
	if err != nil {
		return b, err
	}
	if b.Executed == nil {
		refer(b.Esims, journal)
		b.Executed = map[string]int{}
		for _, e := range b.Esims {
			b.Executed[lower(e.Reference)]++
		}
	}
	isTopup := func(e supplierEsim) bool { return e.Onto != "" }
	for _, e := range b.Esims {
		if isTopup(e) {
			b.Topups = append(b.Topups, e)
		}
	}
	b.Esims = slices.DeleteFunc(b.Esims, isTopup)
	return b, nil
}

// refer gives each eSIM its reference. A supplier that takes one has it at the beginning of its client's name of the
// order. For any other the journal has it: by the supplier's name, and what has none there can be any order of that
// plan which was sent and has no name yet: first of those whose price was not sent back.
func refer(esims []supplierEsim, journal []journalRow) {
	const length = 36
	used := make([]bool, len(journal))
	take := func(e *supplierEsim, fits func(journalRow) bool) {
		for i, j := range journal {
			if e.Reference == "" && !used[i] && fits(j) {
				e.Reference, used[i] = j.Reference, true
			}
		}
	}
	for i := range esims {
		e := &esims[i]
		e.Reference = e.Reference[:min(len(e.Reference), length)]
		take(e, func(j journalRow) bool { return j.Account == e.ID })
	}
	for i := range esims {
		e := &esims[i]
		take(e, func(j journalRow) bool { return j.Account == "" && j.Code == e.Code })
		if e.Reference == "" {
			e.Reference = fmt.Sprintf("none of eSIM %s", e.ID)
		}
	}
}

func (r *records) profilesByReference() map[string]profileRow {
	out := make(map[string]profileRow, len(r.profiles))
	for _, p := range r.profiles {
		out[lower(p.Reference)] = p
	}
	return out
}

// esimNeedsATransfer starts at the supplier's books, as deliveryNeedsATransfer does at the issuer's.
func esimNeedsATransfer(r *records) []string {
	var f findings
	proven, profiles := r.provenOnChain(), r.profilesByReference()
	for _, e := range r.supplier.Esims {
		switch p, ours := profiles[lower(e.Reference)]; {
		case !ours && e.Status == "cancelled" && len(r.lost) > 0:
			// Its order is lost, and nothing was delivered.
		case !ours:
			f.add("the supplier has eSIM %s under the reference %s, which is none of ours", e.ID, e.Reference)
		case !proven[p.Order]:
			f.add("the supplier has eSIM %s for order %s, whose transfer is not on chain", e.ID, p.Order)
		}
	}
	return f
}

func eachEsimOnce(r *records) []string {
	var f findings
	for ref, n := range r.supplier.Executed {
		if n > 1 {
			f.add("the supplier executed reference %s %d times", ref, n)
		}
	}
	profiles, orders := r.profilesByReference(), map[string]int{}
	for _, e := range r.supplier.Esims {
		if p, ours := profiles[lower(e.Reference)]; ours && e.Status != "cancelled" {
			orders[p.Order]++
		}
	}
	for id, n := range orders {
		if n > 1 {
			f.add("the supplier has %d eSIMs for order %s", n, id)
		}
	}
	return f
}

// esimsAreThere checks that fulfilled orders have their eSIM.
func esimsAreThere(r *records) []string {
	var f findings
	byOrder := group(r.profiles, func(p profileRow) string { return p.Order })
	at, cancels := map[string]supplierEsim{}, r.cancelsByOrder()
	for _, e := range r.supplier.Esims {
		at[lower(e.Reference)] = e
	}
	// has reports whether an order has what was delivered. While a cancellation is not decided, the supplier may have it
	// back; see I27 for those that are.
	has := func(p profileRow, e supplierEsim) bool {
		c, cancelling := cancels[p.Order]
		switch {
		case p.Account == "" || p.Account != e.ID:
			return false
		case cancelling && c.granted():
			return p.Status == "cancelled"
		case p.Status != "ready":
			return false
		}
		return e.Status == "released" || cancelling && c.Stage == "cancelling" && e.Status == "cancelled"
	}
	for _, o := range r.orders {
		if o.Kind != "esim" || o.Status != "fulfilled" {
			continue
		}
		ready := 0
		for _, p := range byOrder[o.ID] {
			if has(p, at[lower(p.Reference)]) {
				ready++
			}
		}
		if ready != 1 {
			f.add("order %s is fulfilled without an eSIM of the supplier", o.ID)
		}
	}
	return f
}

func refundedHasNoEsim(r *records) []string {
	var f findings
	orders, profiles := r.ordersByID(), r.profilesByReference()
	for _, e := range r.supplier.Esims {
		if p, ours := profiles[lower(e.Reference)]; ours && e.Status == "released" && orders[p.Order].Status == "refunded" {
			f.add("order %s is refunded and the supplier made eSIM %s for it", p.Order, e.ID)
		}
	}
	return f
}

// esimsOf counts the eSIMs that the supplier made for a payer.
func (r *records) esimsOf(payer string) int {
	orders, profiles, n := r.ordersByID(), r.profilesByReference(), 0
	for _, e := range r.supplier.Esims {
		if p, ours := profiles[lower(e.Reference)]; ours && e.Status == "released" && same(orders[p.Order].Owner, payer) {
			n++
		}
	}
	return n
}
