package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// moneyIn is a transfer of the price that used an authorization of the payer.
func moneyIn() payment.Arrived {
	a := x402.Authorization{From: payer, To: x402.Address{19: 7}, Value: 25_000_000, ValidBefore: 2_000_000_000,
		Nonce: nonce()}
	return payment.Arrived{
		Network: x402.NetworkID, Asset: x402.Address{19: 9}, Authorization: a,
		Receipt: payment.Receipt{
			Transaction: nonce(), Block: 90, BlockHash: nonce(), LogIndex: 2, Payer: a.From, PayTo: a.To, Amount: a.Value,
			SettledAt: time.Now().UTC().Add(-time.Hour).Truncate(time.Second),
		},
	}
}

func query() checkout.UnmatchedQuery {
	return checkout.UnmatchedQuery{Network: x402.NetworkID, Asset: x402.Address{19: 9}, PayTo: x402.Address{19: 7},
		Payer: payer, Value: 25_000_000}
}

// claiming is a purchase of a key that is paid by an arrived transfer.
func claiming(key string, a payment.Arrived) checkout.ClaimRequest {
	return claimRequest(key, func(p *checkout.ClaimRequest) {
		p.Payment = a.Claim(p.Payment.ID, p.Order.ID, time.Hour, p.Payment.CreatedAt)
	})
}

// read stores a transfer as the books read it, and posts it as unmatched.
func read(t *testing.T, books store.Treasury, a payment.Arrived) reconcile.Transfer {
	t.Helper()
	r := a.Receipt
	found := reconcile.Transfer{
		Transaction: r.Transaction, LogIndex: r.LogIndex, Block: r.Block, From: a.Authorization.From, Value: r.Amount,
		Nonce: a.Authorization.Nonce,
	}
	if err := books.Arrive(t.Context(), 1, 100, []reconcile.Transfer{found}); err != nil {
		t.Fatal(err)
	}
	if err := books.Conclude(t.Context(),
		reconcile.Conclusion{Postings: []ledger.Posting{ledger.Unmatched(r.Transaction.String(), r.LogIndex,
			r.Amount)}}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestArrivedTransferIsFoundUntilItIsClaimed(t *testing.T) {
	s := storetest.New(t)
	if _, err := s.Orders().Unmatched(t.Context(), query()); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	shown := moneyIn()
	// Shown twice, the second time where a reorganisation put it.
	for block := range uint64(2) {
		shown.Receipt.Block, shown.Receipt.Transaction = 80+block, nonce()
		if err := s.Orders().Arrive(t.Context(), shown); err != nil {
			t.Fatal(err)
		}
	}
	later := moneyIn()
	read(t, treasury(s), later)
	got, err := s.Orders().Unmatched(t.Context(), query())
	if err != nil || got != shown {
		t.Errorf("found %+v, %v, want %+v", got, err, shown)
	}
	q := query()
	q.Except = []x402.Hash{shown.Authorization.Nonce}
	got, err = s.Orders().Unmatched(t.Context(), q)
	if err != nil || got.Authorization.Nonce != later.Authorization.Nonce {
		t.Errorf("but for that one: %+v, %v", got, err)
	}
	for name, other := range map[string]func(*checkout.UnmatchedQuery){
		"another payer's": func(q *checkout.UnmatchedQuery) { q.Payer[0]++ },
		"another payee's": func(q *checkout.UnmatchedQuery) { q.PayTo[0]++ },
		"another value":   func(q *checkout.UnmatchedQuery) { q.Value++ },
		"another asset":   func(q *checkout.UnmatchedQuery) { q.Asset[0]++ },
		"none of them": func(q *checkout.UnmatchedQuery) {
			q.Except = []x402.Hash{shown.Authorization.Nonce, later.Authorization.Nonce}
		},
	} {
		q := query()
		other(&q)
		if got, err := s.Orders().Unmatched(t.Context(), q); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if claimed := claim(t, s, claiming("k", shown)); claimed.Claim != checkout.Fresh {
		t.Fatalf("claim %v", claimed.Claim)
	}
	pays, err := s.Orders().Payments(t.Context(), claimedID(t, s, "k"))
	if p := pays[claimedID(t, s, "k")]; err != nil || p.Signed() || p.ArrivedAt == nil ||
		!p.ArrivedAt.Equal(shown.Receipt.SettledAt) {
		t.Errorf("the payment is %+v, %v", p, err)
	}
	got, err = s.Orders().Unmatched(t.Context(), query())
	if err != nil || got.Authorization.Nonce != later.Authorization.Nonce || !got.Receipt.SettledAt.IsZero() {
		t.Errorf("after the claim: %+v, %v, want the one that was read for the books", got, err)
	}
}

func claimedID(t *testing.T, s *store.Store, key string) order.ID {
	t.Helper()
	o, err := s.Orders().FindByKey(t.Context(), card.Kind, payer, key)
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

func TestArrivedTransferIsClaimedOnce(t *testing.T) {
	s := storetest.New(t)
	a := moneyIn()
	if err := s.Orders().Arrive(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	all := make([]checkout.ClaimRequest, 8)
	for i := range all {
		all[i] = claiming(fmt.Sprint("key", i), a)
	}
	claims, _ := race(t, checkouttest.Of(s), all)
	if claims[checkout.Fresh] != 1 || claims[checkout.Reused] != len(all)-1 {
		t.Errorf("claims %v, want one winner", claims)
	}
}

// TestArrivedTransferIsClaimedOrResolved: an operator sends it back while its payer buys with it. One of them has it.
func TestArrivedTransferIsClaimedOrResolved(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	outcomes := map[string]int{}
	for i := range 60 {
		a := moneyIn()
		found := read(t, books, a)
		var group sync.WaitGroup
		var claimed checkout.ClaimResult
		var claimErr, resolveErr error
		group.Go(func() { claimed, claimErr = s.Orders().Claim(t.Context(), claiming(fmt.Sprint("race", i), a)) })
		group.Go(func() {
			_, resolveErr = books.Resolve(t.Context(), found.Place(), reconcile.RefundedByHand,
				order.OperatorContext{Operator: "ada", Key: uuid.NewString(), Reason: "r"})
		})
		group.Wait()
		if claimErr != nil || (resolveErr != nil && !errors.Is(resolveErr, reconcile.ErrNoUnmatched)) {
			t.Fatalf("claim: %v, resolve: %v", claimErr, resolveErr)
		}
		bought, sentBack := claimed.Claim == checkout.Fresh, resolveErr == nil
		if bought == sentBack {
			t.Errorf("round %d: bought %v, sent back %v", i, bought, sentBack)
		}
		outcomes[fmt.Sprint(bought)]++
		if got, err := s.Orders().Unmatched(t.Context(), query()); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("round %d: still there: %+v, %v", i, got, err)
		}
	}
	t.Logf("bought: %v", outcomes)
}

// TestClaimedTransferIsNoLongerUnmatched: a comparison has posted it there before its payer came.
func TestClaimedTransferIsNoLongerUnmatched(t *testing.T) {
	for _, byOperator := range []bool{false, true} {
		t.Run(fmt.Sprintf("proven by an operator: %v", byOperator), func(t *testing.T) {
			s := storetest.New(t)
			books := treasury(s)
			a := moneyIn()
			read(t, books, a)
			p := claiming("k", a)
			claimed := claim(t, s, p)
			paid := p.Payment
			paid.Status, paid.Receipt = payment.Paid, &a.Receipt
			m := move(p, order.Settling, order.Settled)
			m.Postings = paid.Postings()
			var err error
			if byOperator {
				err = s.Admin().Prove(t.Context(), paid, m, watchJob(p),
					order.OperatorContext{Operator: "ada", Key: "k", Reason: "seen"})
			} else {
				_, err = s.Orders().Settle(t.Context(), claimed.Job.Fence(), paid, m, watchJob(p))
			}
			if err != nil {
				t.Fatal(err)
			}
			wantClaimed(t, books, p.Order.ID)
		})
	}
}

// TestLedgerIsSummedInParts: however few entries a statement adds up, the sums are those of all, and so is the last.
func TestLedgerIsSummedInParts(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t)) // as the owner, who takes numbers ahead
	if err := kit.Sell(t.Context(), s.Pool(), 1, 2); err != nil {
		t.Fatal(err)
	}
	// Numbers are missing wherever something was undone.
	exec(t, s, "SELECT setval(pg_get_serial_sequence('ledger_entries', 'id'), 30)")
	if err := kit.Sell(t.Context(), s.Pool(), 3, 6); err != nil {
		t.Fatal(err)
	}
	books := s.Treasury(kit.Asset, kit.PayTo)
	for _, bounds := range [][2]int64{{0, 0}, {0, 41}, {13, 0}, {20, 29}, {64, 64}, {99, 0}} {
		want, last, err := books.Sum(t.Context(), bounds[0], bounds[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, atOnce := range []int64{1, 7, 70} {
			got, gotLast, err := books.SumBy(t.Context(), bounds[0], bounds[1], atOnce)
			if err != nil || !maps.Equal(got, want) || gotLast != last {
				t.Errorf("%d entries at once of %v: %v up to %d (%v), want %v up to %d", atOnce, bounds, got, gotLast, err,
					want, last)
			}
		}
	}
	var want money.USDC
	if err := s.Pool().QueryRow(t.Context(), "SELECT sum(amount) FROM ledger_entries WHERE account = 'treasury:usdc'").
		Scan(&want); err != nil {
		t.Fatal(err)
	}
	if sums, last, err := books.Sum(t.Context(), 0, 0); err != nil || last != 70 || sums[string(ledger.Treasury)] != want {
		t.Errorf("%v up to %d, %v: want %v in the treasury, up to 70", sums, last, err, want)
	}
}

// wantClaimed checks that money which was posted as unmatched belongs to an order now, and counts once.
func wantClaimed(t *testing.T, books store.Treasury, id order.ID) {
	t.Helper()
	ofOrder, err := books.OfOrders(t.Context(), []order.ID{id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sums, _, err := books.Sum(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	balances := map[ledger.Account]money.USDC{}
	for account, units := range sums {
		balances[ledger.Account(account)] = units
	}
	if balances[ledger.UnmatchedFunds] != 0 || balances[ledger.Treasury] != 25_000_000 {
		t.Errorf("balances %v", balances)
	}
	if !slices.ContainsFunc(ofOrder.Postings, func(p ledger.Posting) bool { return p.Kind == ledger.KindMatched }) {
		t.Error("nothing is posted as matched")
	}
	if open, err := books.ListUnmatched(t.Context(), reconcile.UnmatchedQuery{Limit: 9},
		order.OperatorContext{Operator: "ada"}); err != nil || len(open) != 0 {
		t.Errorf("open: %+v, %v", open, err)
	}
}
