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
		if split, loads := r.Topups[o.ID]; loads && o.Perhaps() {
			orders.Loading[split.Card] += split.Credit
		}
	}
	orders.Goods = []Goods{
		card.Records{Cards: r.Cards, Fees: r.Fees}, topup.Records{Splits: r.Topups, Accounts: accounts},
		esim.Records{Profiles: r.Esims},
	}
	for i, m := range s.Movements {
		orders.Lines = append(orders.Lines, card.Line{ID: fmt.Sprint("mov_", i), Movement: &m})
	}
	for i, a := range s.Accounts {
		orders.Lines = append(orders.Lines, card.Line{ID: fmt.Sprint("crd_", i), Card: &a})
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
		Movements: []card.Moved{
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

// resolve adds a transfer of nobody's that an operator has resolved.
func resolve(r *books, t Transfer, as Resolution) {
	r.Arrivals = append(r.Arrivals, t)
	r.Resolved = append(r.Resolved, Resolved{Place: t.Place(), As: as, Reason: "why", Operator: "ada"})
	r.Postings = append(r.Postings, ledger.Unmatched(t.Transaction.String(), t.LogIndex, t.Value))
	r.Postings = append(r.Postings, as.Postings(t)...)
}

// TestEachDifferenceHasItsCode spoils a copy of the good books and expects the codes named, and no others.
func TestEachDifferenceHasItsCode(t *testing.T) {
	unmatched := Transfer{Transaction: x402.Hash{0xdd}, LogIndex: 5, Block: 50, From: bob, Value: 7}
	tests := map[string]struct {
		spoil func(*books, *card.Statement)
		want  []Code
	}{
		"an unmatched transfer": {func(r *books, _ *card.Statement) { r.Arrivals = append(r.Arrivals, unmatched) },
			[]Code{TransferUnmatched}},
		"a stranger's same nonce": {func(r *books, _ *card.Statement) {
			s := unmatched
			s.Nonce = x402.Hash{1}
			r.Arrivals = append(r.Arrivals, s)
		}, []Code{TransferUnmatched}},
		"a second transfer of the payer's": {func(r *books, _ *card.Statement) {
			s := unmatched
			s.From, s.Value = alice, 25_000_000
			r.Arrivals = append(r.Arrivals, s)
		}, []Code{TransferUnmatched}},
		"a posted unmatched transfer stays open": {func(r *books, _ *card.Statement) {
			r.Arrivals = append(r.Arrivals, unmatched)
			r.Postings = append(r.Postings,
				ledger.Unmatched(unmatched.Transaction.String(), unmatched.LogIndex, unmatched.Value))
		}, []Code{TransferUnmatched}},
		"an unmatched transfer that an operator knows": {func(r *books, _ *card.Statement) { resolve(r, unmatched, Known) },
			nil},
		"one that was sent back": {func(r *books, _ *card.Statement) { resolve(r, unmatched, RefundedByHand) },
			nil},
		"one that was given": {func(r *books, _ *card.Statement) { resolve(r, unmatched, Donation) }, nil},
		"one resolved without its posting": {func(r *books, _ *card.Statement) {
			resolve(r, unmatched, Donation)
			r.Postings = r.Postings[:len(r.Postings)-1]
		}, []Code{PostingMissing}},
		"one posted to another account than was resolved": {func(r *books, _ *card.Statement) {
			resolve(r, unmatched, Donation)
			r.Resolved[0].As = RefundedByHand
		}, []Code{PostingDiffers}},
		"one posted as resolved that nobody resolved": {func(r *books, _ *card.Statement) {
			resolve(r, unmatched, Donation)
			r.Resolved = nil
		}, []Code{PostingUnexpected, TransferUnmatched}},
		"another transfer than the one resolved": {func(r *books, _ *card.Statement) {
			resolve(r, unmatched, Known)
			other := unmatched
			other.LogIndex++
			r.Arrivals = append(r.Arrivals, other)
		}, []Code{TransferUnmatched}},
		"an unmatched transfer posted twice": {func(r *books, _ *card.Statement) {
			r.Postings = append(r.Postings,
				ledger.Unmatched(unmatched.Transaction.String(), unmatched.LogIndex, unmatched.Value))
		}, []Code{PostingUnexpected}},
		"a transfer not recorded yet": {func(r *books, _ *card.Statement) {
			r.Payments[3].Status = payment.Claimed
			r.Arrivals = append(r.Arrivals,
				Transfer{Transaction: x402.Hash{0xa4}, Block: 40, From: alice, Value: 25_000_000, Nonce: x402.Hash{4}})
		}, []Code{TransferUnrecorded}},
		"a dead payment that arrived": {func(r *books, _ *card.Statement) {
			r.Arrivals = append(r.Arrivals,
				Transfer{Transaction: x402.Hash{0xa4}, Block: 40, From: alice, Value: 25_000_000, Nonce: x402.Hash{4}})
		}, []Code{TransferOfDeadPayment}},
		"a nonce used for another amount than the dead payment's": {func(r *books, _ *card.Statement) {
			r.Arrivals = append(r.Arrivals,
				Transfer{Transaction: x402.Hash{0xa4}, Block: 40, From: alice, Value: 1, Nonce: x402.Hash{4}})
		}, []Code{TransferUnmatched}},
		"a transfer of nobody's that an order was paid with": {func(r *books, _ *card.Statement) {
			r.Postings = append(r.Postings, ledger.Unmatched(x402.Hash{0xa1}.String(), 3, 25_000_000))
		}, nil},
		"a payment of a block that nobody could read": {func(r *books, _ *card.Statement) {
			r.Arrivals,
				r.Unread = r.Arrivals[1:], []uint64{20}
		}, nil},
		"a payment to another payee": {func(r *books, _ *card.Statement) {
			r.Arrivals,
				r.Payments[0].Elsewhere = r.Arrivals[1:], true
		}, nil},
		"a line that the issuer shows no more": {func(r *books, _ *card.Statement) { r.Epoch = 1 },
			[]Code{ProviderRecordMissing}},
		"a payment that never arrived": {func(r *books, _ *card.Statement) { r.Arrivals = r.Arrivals[1:] },
			[]Code{PaymentWithoutTransfer}},
		"a payment of a block that is not read": {func(r *books, _ *card.Statement) {
			r.Arrivals,
				r.Scan = r.Arrivals[1:], Scan{First: 21, Next: 100}
		}, nil},
		"a transfer of another amount": {func(r *books, _ *card.Statement) { r.Arrivals[0].Value-- },
			[]Code{PaymentDiffers}},
		"a transfer of another sender": {func(r *books, _ *card.Statement) { r.Arrivals[0].From = bob },
			[]Code{PaymentDiffers}},
		"a payment recorded at somebody's plain transfer": {func(r *books,
			_ *card.Statement) {
			r.Arrivals[0].Nonce = x402.Hash{}
		}, nil},
		"a price changed": {func(r *books, _ *card.Statement) {
			r.Orders[0].Price = 2400
		}, []Code{OrderAmount}},
		"a card's load changed": {func(r *books, _ *card.Statement) { r.Cards[0].Load = 2400 },
			[]Code{PostingDiffers, ProviderDiffers}},
		"a top-up split otherwise": {func(r *books, s *card.Statement) {
			r.Topups["ord_topup"] = topup.Split{Gross: 5000, Credit: 5000, Card: cardID}
		}, []Code{OrderAmount, PostingDiffers, PostingUnexpected, ProviderDiffers}},
		"a paid order without a payment": {func(r *books, _ *card.Statement) {
			r.Payments[2].Status = payment.Dead
		}, []Code{OrderWithoutPayment, PostingUnexpected}},
		"no posting of a payment": {func(r *books, _ *card.Statement) { r.Postings = r.Postings[1:] },
			[]Code{PostingMissing}},
		"no posting of a load": {func(r *books, s *card.Statement) { r.Postings = slices.Delete(r.Postings, 1, 2) },
			[]Code{PostingMissing}},
		"no posting of a fee": {func(r *books, s *card.Statement) { r.Postings = slices.Delete(r.Postings, 2, 3) },
			[]Code{PostingMissing}},
		"no posting of a load fee": {func(r *books, s *card.Statement) { r.Postings = slices.Delete(r.Postings, 6, 7) },
			[]Code{PostingMissing}},
		"no posting of an eSIM": {func(r *books, _ *card.Statement) { r.Postings = r.Postings[:9] },
			[]Code{PostingMissing}},
		"no posting of an eSIM's cost": {func(r *books, _ *card.Statement) { r.Postings = slices.Delete(r.Postings, 8, 9) },
			[]Code{PostingMissing}},
		"an eSIM of another cost": {func(r *books, _ *card.Statement) { r.Esims[0].Cost++ }, []Code{PostingDiffers}},
		"an eSIM of another price": {func(r *books, _ *card.Statement) {
			r.Postings[9] = ledger.Sold("ord_esim", 501, ledger.EsimRevenue)
		},
			[]Code{PostingDiffers}},
		"an eSIM whose cost nobody knows": {func(r *books, _ *card.Statement) {
			r.Esims[0].Cost = 0
			r.Postings = slices.Delete(r.Postings, 8, 9)
		}, nil},
		"an eSIM posted and not delivered": {func(r *books, _ *card.Statement) { r.Orders[3].Status = order.OperatorReview },
			[]Code{PostingUnexpected}},
		"a refunded order whose eSIM was made": {func(r *books, _ *card.Statement) {
			r.Orders[3].Status = order.Refunded
			r.Postings[9] = ledger.Refunded("ord_esim", 5_000_000)
		}, nil},
		"a posting nobody can explain": {func(r *books, s *card.Statement) {
			r.Postings = append(r.Postings, ledger.Refunded("ord_topup", 50_000_000))
		}, []Code{PostingUnexpected}},
		"a posting of another amount": {func(r *books,
			_ *card.Statement) {
			r.Postings[0] = ledger.Settled("ord_issue", 24_000_000)
		}, []Code{PostingDiffers}},
		"a posting of another order": {func(r *books, _ *card.Statement) { r.Postings[0].Order = "ord_x" },
			[]Code{PostingDiffers}},
		"a posting that does not balance": {func(r *books, _ *card.Statement) {
			r.Postings[0].Entries[0].Amount++
		}, []Code{LedgerUnbalanced, PostingDiffers}},
		"a posting without entries": {func(r *books, _ *card.Statement) { r.Postings[0].Entries = nil },
			[]Code{LedgerUnbalanced, PostingDiffers}},
		"a refunded order": {func(r *books, _ *card.Statement) {
			r.Orders[2].Status = order.Refunded
		}, []Code{PostingMissing}},
		"a refunded order with its posting": {func(r *books, _ *card.Statement) {
			r.Orders[2].Status = order.Refunded
			r.Postings = append(r.Postings, ledger.Refunded("ord_open", 25_000_000))
		}, nil},
		"a card of nobody's": {func(_ *books, s *card.Statement) {
			s.Accounts = append(s.Accounts,
				card.StatedAccount{Account: card.Account{ID: "crd_2", Ref: fulfilment.Ref{1}, State: card.AccountActive,
					Loaded: 2500}, Balance: 2500})
		}, []Code{ProviderUnknown}},
		"a movement of nobody's": {func(_ *books, s *card.Statement) {
			s.Movements = append(s.Movements,
				card.Moved{Ref: fulfilment.Ref{2}, Account: "crd_1", Direction: card.Load, Amount: 1, State: card.MovePending})
		}, []Code{ProviderUnknown}},
		"a load carried out twice": {func(_ *books, s *card.Statement) { s.Movements = append(s.Movements, s.Movements[2]) },
			[]Code{ProviderDuplicate}},
		"a card opened twice": {func(_ *books, s *card.Statement) { s.Accounts = append(s.Accounts, s.Accounts[0]) },
			[]Code{ProviderDuplicate}},
		"a fee withdrawn by two versions": {func(_ *books, s *card.Statement) {
			s.Movements[0].State = card.MoveSucceeded
		}, []Code{ProviderDuplicate, ProviderUnrecorded}},
		"a load of another amount": {func(_ *books, s *card.Statement) { s.Movements[2].Amount = 5000 },
			[]Code{ProviderDiffers}},
		"a load on another card": {func(_ *books, s *card.Statement) { s.Movements[2].Account = "crd_9" },
			[]Code{ProviderDiffers}},
		"a withdrawal instead of a load": {func(_ *books,
			s *card.Statement) {
			s.Movements[2].Direction = card.Withdrawal
		}, []Code{ProviderDiffers}},
		"a card opened with another amount": {func(_ *books, s *card.Statement) { s.Accounts[0].Loaded = 5000 },
			[]Code{ProviderDiffers}},
		"a fulfilled top-up that was not loaded": {func(_ *books, s *card.Statement) { s.Movements = s.Movements[:2] },
			[]Code{ProviderRecordMissing}},
		"a fulfilled top-up that is pending": {func(_ *books, s *card.Statement) { s.Movements[2].State = card.MovePending },
			[]Code{ProviderRecordMissing}},
		"a card the issuer does not know": {func(_ *books, s *card.Statement) { s.Accounts = nil },
			[]Code{ProviderRecordMissing}},
		"a fee that was never withdrawn": {func(_ *books,
			s *card.Statement) {
			s.Movements = slices.Delete(s.Movements, 1, 2)
		}, []Code{ProviderRecordMissing}},
		"a load taken back": {func(_ *books, s *card.Statement) { s.Movements[2].State = card.MoveFailed },
			[]Code{ProviderReversed}},
		"a card closed by the issuer": {func(_ *books, s *card.Statement) {
			s.Accounts[0].State,
				s.Accounts[0].Balance = card.AccountClosed, 0
		}, []Code{ProviderReversed}},
		"a card closed by both": {func(r *books, s *card.Statement) {
			s.Accounts[0].State = card.AccountClosed
			r.Cards[0].Status = card.Closed
		}, []Code{ProviderReversed}},
		"a fee that was never on its card": {func(r *books, s *card.Statement) { keepFee(r, s) }, nil},
		"one that is posted as withdrawn": {func(r *books, s *card.Statement) {
			keepFee(r, s)
			r.Postings[2] = ledger.FeeWithdrawn("ord_issue", cardID.String(), 1000)
		}, []Code{PostingMissing, PostingUnexpected}},
		"a fee that was spent": {func(r *books, s *card.Statement) { oweFee(r, s) }, nil},
		"one whose debt is not posted": {func(r *books,
			s *card.Statement) {
			oweFee(r, s)
			r.Postings = slices.Delete(r.Postings, 2, 3)
		}, []Code{PostingMissing}},
		"one that was written off": {func(r *books, s *card.Statement) { writeOffFee(r, s) }, nil},
		"one that nobody has given up": {func(r *books,
			s *card.Statement) {
			writeOffFee(r, s)
			r.Fees[0].Args.WrittenOff = false
		}, []Code{PostingUnexpected}},
		"one that was collected after all": {func(r *books,
			s *card.Statement) {
			collectFee(r, s, ledger.Receivable(cardID.String()))
		}, nil},
		"one collected from the wrong account": {func(r *books, s *card.Statement) { collectFee(r, s, ledger.IssueFeeCost) },
			[]Code{PostingDiffers}},
		"a fee given back": {func(_ *books, s *card.Statement) {
			s.Movements[1].State = card.MoveFailed
			s.Accounts[0].Balance += 1400
		}, []Code{ProviderReversed}},
		"a load that nobody recorded": {func(r *books,
			s *card.Statement) {
			r.Orders[2].Status = order.OperatorReview
			loadOpen(s)
		}, []Code{ProviderUnrecorded}},
		"a load under way": {func(_ *books,
			s *card.Statement) {
			loadOpen(s)
			s.Accounts[0].Balance = 6400 + 2450
		}, nil},
		"more on a card than it can have": {func(_ *books, s *card.Statement) { s.Accounts[0].Balance = 6401 + 2450 },
			[]Code{CardBalanceHigh}},
		"all spent": {func(_ *books, s *card.Statement) { s.Accounts[0].Balance = 0 }, nil},
		"a card refused, and then opened": {func(r *books, s *card.Statement) {
			refuseCard(r)
			s.Accounts[0].Balance,
				s.Movements = 0, nil
		}, []Code{PostingUnexpected, ProviderUnrecorded}},
		"a card that the issuer opens meanwhile": {func(r *books, s *card.Statement) { openCard(r, s) }, nil},
		"a fee that the issuer withdrew meanwhile": {func(r *books, _ *card.Statement) {
			r.Fees[0].Status = job.Processing
			r.Postings = slices.Delete(r.Postings, 2, 3)
		}, nil},
		"a fee withdrawn after all": {func(r *books, _ *card.Statement) {
			r.Fees[0].Status = job.OperatorReview
			r.Postings = slices.Delete(r.Postings, 2, 3)
		}, []Code{ProviderUnrecorded}},
	}
	fired := map[Code]bool{}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, s := good()
			tt.spoil(&r, &s)
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
			if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
				t.Errorf("codes differ (-want +got):\n%s", diff)
			}
		})
	}
	for code := range blocking {
		if !fired[code] && code != BlockUnread {
			t.Errorf("%s is never found", code)
		}
	}
}

// keepFee opens the card without the fee, as an issuer with limits does.
func keepFee(r *books, s *card.Statement) {
	r.Cards[0].Load, r.Fees[0].Args.Kept = 1500, true
	r.Postings[1], r.Postings[2] = ledger.Loaded("ord_issue", cardID.String(), 1500), ledger.FeeKept("ord_issue", 1000)
	s.Accounts[0].Loaded, s.Movements = 1500, s.Movements[2:]
}

// oweFee lets the holder be quicker than the withdrawal.
func oweFee(r *books, s *card.Statement) {
	r.Fees[0].Status, r.Fees[0].Args.Owed = job.Failed, true
	r.Postings[2] = ledger.FeeOwed("ord_issue", cardID.String(), 1000)
	s.Movements[1].State = card.MoveFailed
}

func writeOffFee(r *books, s *card.Statement) {
	oweFee(r, s)
	r.Fees[0].Args.WrittenOff = true
	r.Postings = append(r.Postings, ledger.FeeWrittenOff("ord_issue", cardID.String(), 1000))
}

func collectFee(r *books, s *card.Statement, from ledger.Account) {
	oweFee(r, s)
	r.Fees[0].Status, s.Movements[1].State = job.Succeeded, card.MoveSucceeded
	r.Postings = append(r.Postings, ledger.FeeCollected("ord_issue", cardID.String(), 1000, from))
}

func loadOpen(s *card.Statement) {
	s.Movements = append(s.Movements,
		card.Moved{Ref: openRef, Account: "crd_1", Direction: card.Load, Amount: 2450, State: card.MoveSucceeded})
}

// refuseCard leaves the purchase of the card alone, refused by the issuer and with an operator.
func refuseCard(r *books) {
	r.Cards[0].Status, r.Orders[0].Status, r.Fees = card.Failed, order.OperatorReview, nil
	r.Postings = r.Postings[:2]
	r.Esims = nil
	r.Orders, r.Payments, r.Arrivals = r.Orders[:1], r.Payments[:1], r.Arrivals[:1]
}

// openCard is the moment between the issuer's opening of a card and our record of it.
func openCard(r *books, s *card.Statement) {
	refuseCard(r)
	r.Cards[0].Status, r.Orders[0].Status = card.Pending, order.Provisioning
	r.Postings = r.Postings[:1]
	s.Accounts[0].Balance, s.Movements = 2500, nil
}

func TestStraysArePostedOnceEach(t *testing.T) {
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
