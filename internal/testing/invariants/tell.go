package invariants

import "context"

// Tally is what one payer paid and got.
type Tally struct {
	// Orders that are paid, in the database; Transfers to the payee and Refunds from the treasury, on chain.
	Orders, Transfers, Refunds int
	// Cards, Withdrawals and Loads executed at the issuer.
	Cards, Withdrawals, Loads int
	// Esims executed at the supplier.
	Esims int
}

// Tell counts what a payer has, in all three books.
func Tell(ctx context.Context, b Books, payer string) (Tally, error) {
	r, err := read(ctx, b)
	if err != nil {
		return Tally{}, err
	}
	var t Tally
	for _, o := range r.orders {
		if o.paid() && same(o.Owner, payer) {
			t.Orders++
		}
	}
	for _, c := range r.chain.credits {
		if same(c.From, payer) {
			t.Transfers++
		}
	}
	for _, p := range r.chain.payouts {
		if same(p.To, payer) {
			t.Refunds++
		}
	}
	cards := r.cardsByReference()
	theirs := map[string]bool{}
	for _, a := range r.issuer.Cards {
		if c, ok := cards[lower(a.Reference)]; ok && same(c.Owner, payer) {
			theirs[a.ID] = true
			t.Cards++
		}
	}
	for _, m := range r.issuer.Movements {
		switch {
		case !theirs[m.Card] || m.Status != "done":
		case m.Direction == "out":
			t.Withdrawals++
		default:
			t.Loads++
		}
	}
	t.Esims = r.esimsOf(payer)
	return t, nil
}
