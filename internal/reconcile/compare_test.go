package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

var (
	alice = x402.Address{19: 1}
	bob   = x402.Address{19: 2}
	// The things of the good books.
	cardID   = uuid.MustParse("00000000-0000-7000-8000-00000000000c")
	cardRef  = fulfilment.Ref(uuid.MustParse("00000000-0000-5000-8000-00000000000c"))
	feeArgs  = card.FeeArgs{Card: cardID, Order: "ord_issue", Account: "crd_1", Amount: card.Fee, Version: 2}
	feeRef   = feeArgs.Ref()
	loadRef  = topup.LoadRef("ord_topup", 1)
	openRef  = topup.LoadRef("ord_open", 1)
	funded   = topup.Split{Gross: 5000, Fee: 100, Credit: 4900, Card: cardID}
	openItem = topup.Split{Gross: 2500, Fee: 50, Credit: 2450, Card: cardID}
)

// books are ours, with what each product has of the orders.
type books struct {
	Records
	Cards  []card.Card
	Fees   []card.FeeRecord
	Topups map[order.ID]topup.Split
	Esims  []esim.Profile
}

// compare looks at whole books as a comparison does at parts of them: at the orders, and at the transfers.
func compare(r books, s card.Statement) (found []Finding, unposted []ledger.Posting, spent money.Cents) {
	orders, transfers := r.Records, r.Records
	transfers.Orders, transfers.Postings, orders.Postings = nil, nil, nil
	for _, p := range r.Postings {
		if p.Order != "" {
			orders.Postings = append(orders.Postings, p)
		} else {
			transfers.Postings = append(transfers.Postings, p)
		}
	}
	accounts := map[uuid.UUID]string{}
	orders.Balances, orders.Loading = map[uuid.UUID]money.USDC{}, map[uuid.UUID]money.Cents{}
	sums := ledger.Balances(r.Postings)
	for _, k := range r.Cards {
		accounts[k.ID], orders.Balances[k.ID] = k.Account, sums[ledger.Card(k.ID.String())]
	}
	for _, o := range r.Orders {
		if split, loads := r.Topups[o.ID]; loads && o.Uncertain() {
			orders.Loading[split.Card] += split.Credit
		}
	}
	orders.Goods = []Goods{
		card.Records{Cards: r.Cards, Fees: r.Fees}, topup.Records{Splits: r.Topups, Accounts: accounts},
		esim.Records{Profiles: r.Esims},
	}
	for i, m := range s.Movements {
		orders.Lines = append(orders.Lines, card.Line{ID: fmt.Sprint("mov_", i), Provider: m.Provider, Movement: &m})
	}
	for i, a := range s.Accounts {
		orders.Lines = append(orders.Lines, card.Line{ID: fmt.Sprint("crd_", i), Provider: a.Provider, Card: &a})
	}
	c, d := compareOrders(orders), compareTransfers(transfers)
	for _, l := range c.lines {
		spent += l.Spent
	}
	return slices.Concat(c.found, d.found), slices.Concat(c.unposted, d.unposted), spent
}

// differences are the findings that nobody has resolved, sorted.
func differences(found []Finding) []Finding {
	open := slices.DeleteFunc(found, func(f Finding) bool { return f.Resolved != nil })
	slices.SortFunc(open, compareFindings)
	return open
}

// good are the books of one buyer with a card, a top-up and an eSIM, all delivered, a top-up under way, and a payment
// that died.
func good() (books, card.Statement) {
	r := books{Records: Records{
		Scan: Scan{First: 10, Next: 100, Begun: true},
		Orders: []order.Sale{
			{ID: "ord_issue", Owner: alice, Kind: card.Kind, Status: order.Fulfilled, Price: 2500},
			{ID: "ord_topup", Owner: alice, Kind: topup.Kind, Status: order.Fulfilled, Price: 5000},
			{ID: "ord_open", Owner: alice, Kind: topup.Kind, Status: order.Provisioning, Price: 2500},
			{ID: "ord_esim", Owner: alice, Kind: esim.Kind, Status: order.Fulfilled, Price: 500},
		},
		Payments: []Payment{
			{ID: uuid.UUID{15: 1}, Order: "ord_issue", Status: payment.Paid, Payer: alice, Value: 25_000_000,
				Nonce: x402.Hash{1}, Transaction: x402.Hash{0xa1}, LogIndex: 3, Block: 20},
			{ID: uuid.UUID{15: 2}, Order: "ord_topup", Status: payment.Paid, Payer: alice, Value: 50_000_000,
				Nonce: x402.Hash{2}, Transaction: x402.Hash{0xa2}, LogIndex: 1, Block: 30},
			{ID: uuid.UUID{15: 3}, Order: "ord_open", Status: payment.Paid, Payer: alice, Value: 25_000_000, Nonce: x402.Hash{3},
				Transaction: x402.Hash{0xa3}, LogIndex: 1, Block: 120},
			{ID: uuid.UUID{15: 4}, Order: "ord_issue", Status: payment.Dead, Payer: alice, Value: 25_000_000,
				Nonce: x402.Hash{4}},
			{ID: uuid.UUID{15: 5}, Order: "ord_esim", Status: payment.Paid, Payer: alice, Value: 5_000_000, Nonce: x402.Hash{5},
				Transaction: x402.Hash{0xa5}, LogIndex: 1, Block: 121},
		},
		Arrivals: []Transfer{
			{Transaction: x402.Hash{0xa1}, LogIndex: 3, Block: 20, From: alice, Value: 25_000_000, Nonce: x402.Hash{1}},
			// Seen in another transaction than the one recorded; the authorization is the same.
			{Transaction: x402.Hash{0xb2}, LogIndex: 7, Block: 31, From: alice, Value: 50_000_000, Nonce: x402.Hash{2}},
		},
	}}
	r.Cards = []card.Card{{ID: cardID, Order: "ord_issue", Status: card.Active, Ref: cardRef, Load: 2500,
		Account: "crd_1"}}
	r.Esims = []esim.Profile{{Order: "ord_esim", Cost: 4_000_000}}
	r.Fees = []card.FeeRecord{{Status: job.Succeeded, Args: feeArgs}}
	r.Topups = map[order.ID]topup.Split{"ord_topup": funded, "ord_open": openItem}
	r.Postings = slices.Concat([]ledger.Posting{
		ledger.Settled("ord_issue", 25_000_000), ledger.Loaded("ord_issue", cardID.String(), 2500),
		ledger.FeeWithdrawn("ord_issue", cardID.String(), 1000),
		ledger.Settled("ord_topup", 50_000_000), ledger.Settled("ord_open", 25_000_000),
	}, topup.Split{Fee: 100, Credit: 4900, Card: cardID}.Postings("ord_topup"), []ledger.Posting{
		ledger.Settled("ord_esim", 5_000_000), ledger.Supplied("ord_esim", 4_000_000),
		ledger.Sold("ord_esim", 500, ledger.EsimRevenue),
	})
	first := feeArgs
	first.Version = 1
	s := card.Statement{
		// 15.00 and 49.00, of which 4.00 are spent.
		Accounts: []card.StatedAccount{{Account: card.Account{ID: "crd_1", Ref: cardRef, State: card.AccountActive,
			Loaded: 2500}, Balance: 6000}},
		Movements: []card.MovementRecord{
			{Ref: first.Ref(), Account: "crd_1", Direction: card.Withdrawal, Amount: 1000, State: card.MoveFailed},
			{Ref: feeRef, Account: "crd_1", Direction: card.Withdrawal, Amount: 1000, State: card.MoveSucceeded},
			{Ref: loadRef, Account: "crd_1", Direction: card.Load, Amount: 4900, State: card.MoveSucceeded},
		},
	}
	return r, s
}

func TestGoodBooksAgree(t *testing.T) {
	if found, unposted, spent := compare(good()); len(found) > 0 || len(unposted) > 0 || spent != 400 {
		t.Errorf("found %v, to post %v, spent %s", found, unposted, spent)
	}
}

// resolve adds an unmatched transfer that an operator has resolved.
func resolve(r *books, t Transfer, as Resolution) {
	r.Arrivals = append(r.Arrivals, t)
	r.Resolved = append(r.Resolved, Resolved{Place: t.Place(), As: as, Reason: "why", Operator: "ada"})
	r.Postings = append(r.Postings, ledger.Unmatched(t.Transaction.String(), t.LogIndex, t.Value))
	r.Postings = append(r.Postings, as.Postings(t)...)
}

// TestEachDifferenceHasItsCode changes a copy of the good books and expects the codes named, and no others. Every code
// is found in one of the cases.
func TestEachDifferenceHasItsCode(t *testing.T) {
	// No comparison finds these, but the scan, and the reading of the issuers' books.
	found := map[Code]bool{BlockUnread: true, ProviderSilent: true}
	for _, group := range []map[string]difference{
		unmatchedDifferences, paymentDifferences, postingDifferences, issuerDifferences, feeDifferences, progressDifferences,
	} {
		for name, d := range group {
			t.Run(name, func(t *testing.T) { d.check(t, found) })
		}
	}
	for code := range blocking {
		if !found[code] {
			t.Errorf("%s is never found", code)
		}
	}
}

// check compares the changed books, and adds the codes that are found.
func (d difference) check(t *testing.T, fired map[Code]bool) {
	t.Helper()
	r, s := good()
	d.change(&r, &s)
	var got []Code
	found, _, _ := compare(r, s)
	for _, f := range differences(found) {
		got = append(got, f.Code)
		fired[f.Code] = true
		if f.Subject == "" || f.Detail == "" || f.Unit == "" || f.Evidence == "" || f.Blocks && !blocking[f.Code] {
			t.Errorf("finding %+v", f)
		}
		t.Log(f.Code, f.Detail)
	}
	if diff := cmp.Diff(d.want, slices.Compact(got)); diff != "" {
		t.Errorf("codes differ (-want +got):\n%s", diff)
	}
}

func TestUnmatchedTransfersArePostedOnceEach(t *testing.T) {
	r, s := good()
	for i := range 3 {
		r.Arrivals = append(r.Arrivals,
			Transfer{Transaction: x402.Hash{0xdd}, LogIndex: uint(i), Block: 50, From: bob, Value: 7})
	}
	found, unposted, _ := compare(r, s)
	if len(unposted) != 3 {
		t.Fatalf("%d to post", len(unposted))
	}
	r.Postings = append(r.Postings, unposted...)
	again, unposted, _ := compare(r, s)
	if len(unposted) != 0 {
		t.Errorf("%d to post again", len(unposted))
	}
	if diff := cmp.Diff(differences(found), differences(again)); diff != "" {
		t.Errorf("a second look differs (-first +second):\n%s", diff)
	}
}
