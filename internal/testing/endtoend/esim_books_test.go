package endtoend_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// supplierCost is what the supplier charged for all eSIMs that it made.
func (w *world) supplierCost() (cost money.USDC) {
	w.t.Helper()
	var books struct {
		Esims []struct {
			Status string
			Cost   money.USDC `json:"costMicros"`
		}
	}
	if err := json.Unmarshal(w.issuer.call("GET", "esim/books", nil), &books); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range books.Esims {
		if e.Status == "released" {
			cost += e.Cost
		}
	}
	return cost
}

// TestEsimBooksAgree: one eSIM is delivered and one sold out after the payment, which goes back. Nobody
// is owed anything then, and the ledger has what was earned and what the supplier charged.
func TestEsimBooksAgree(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.awaitEsimReady(nil)
	b, c := w.buyer(), w.buyer()
	c.signIn()
	terms := w.esimTerms("books-of-the-first")
	var price int64
	if err := json.Unmarshal([]byte(terms.Accepts[0].Amount), &price); err != nil {
		t.Fatal(err)
	}
	if o := b.buyEsim("books-of-the-first"); o.Status != "fulfilled" {
		t.Fatalf("bought %+v", o)
	}
	w.wantFindings("a delivered eSIM")
	w.issuer.esimFault("order", "refused", 1)
	c.awaitStatus(c.buyEsim("books-of-the-second").OrderID, "refunded")
	w.awaitSettled()

	r := w.wantFindings("a delivered and a refunded eSIM")
	cost := w.supplierCost()
	want := []reconcile.Balance{
		{Account: "cost:esim", Units: cost}, {Account: "customer"}, {Account: "revenue:esim", Units: -money.USDC(price)},
		{Account: "supplier:float", Units: -cost}, {Account: "treasury:usdc", Units: money.USDC(price)},
	}
	if diff := cmp.Diff(want, r.Balances); diff != "" || cost <= 0 || int64(cost) >= price {
		t.Errorf("an eSIM of %d that cost %d (-want +got):\n%s", price, cost, diff)
	}
	if n := w.count("SELECT count(*) FROM ledger_postings"); n != 5 {
		t.Errorf("%d postings, want two payments, a cost, a sale and a refund", n)
	}
	w.checkBooks()
}
