package invariants

// topupRow is the data that one order adds to a profile.
type topupRow struct{ ID, Order, Profile, Status, Reference, Account string }

// topupsAreOnTheirEsims follows every top-up of an eSIM from the supplier's books to the order that paid for it, and
// back.
func topupsAreOnTheirEsims(r *records) []string {
	var f findings
	proven, orders := r.provenOnChain(), r.ordersByID()
	rows, profiles := map[string]topupRow{}, map[string]profileRow{}
	for _, p := range r.profiles {
		profiles[p.ID] = p
	}
	for _, t := range r.topups {
		rows[lower(t.Reference)] = t
		if p := profiles[t.Profile]; t.Status != "failed" && p.Status != "ready" {
			f.add("top-up %s is %s, and its eSIM %q", t.ID, t.Status, p.Status)
		}
	}
	made, delivered := map[string]int{}, map[string]int{}
	for _, e := range r.supplier.Topups {
		t, ours := rows[lower(e.Reference)]
		p := profiles[t.Profile]
		switch {
		case !ours:
			f.add("the supplier has top-up %s under the reference %s, which is none of ours", e.ID, e.Reference)
			continue
		case !proven[t.Order]:
			f.add("the supplier has top-up %s for order %s, whose transfer is not on chain", e.ID, t.Order)
		case p.Account != e.Onto:
			f.add("top-up %s is on the supplier's eSIM %s, and its order's is %s", e.ID, e.Onto, p.Account)
		case !same(orders[t.Order].Owner, orders[p.Order].Owner):
			f.add("top-up %s was paid by %s, and the eSIM is of %s", e.ID, orders[t.Order].Owner, orders[p.Order].Owner)
		}
		if e.Status == "cancelled" {
			continue
		}
		if made[t.Order]++; made[t.Order] > 1 {
			f.add("the supplier has several top-ups for order %s", t.Order)
		}
		if e.Status == "released" && orders[t.Order].Status == "refunded" {
			f.add("order %s is refunded and the supplier made top-up %s for it", t.Order, e.ID)
		}
		if e.Status == "released" && t.Status == "ready" && t.Account == e.ID {
			delivered[t.Order]++
		}
	}
	for _, o := range r.orders {
		if o.Kind == "esim_topup" && o.Status == "fulfilled" && delivered[o.ID] != 1 {
			f.add("order %s is fulfilled without a top-up of the supplier", o.ID)
		}
	}
	return f
}
