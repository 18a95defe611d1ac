package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestUnmatchedTransferIsResolvedOnce(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	found := []reconcile.Transfer{
		{Transaction: x402.Hash{1}, LogIndex: 2, Block: 90, From: payer, Value: 5},
		{Transaction: x402.Hash{1}, LogIndex: 4, Block: 90, From: payer, Value: 6},
		{Transaction: x402.Hash{2}, LogIndex: 4, Block: 91, From: payer, Value: 7},
	}
	if err := books.Arrive(t.Context(), 1, 100, found); err != nil {
		t.Fatal(err)
	}
	posted := []ledger.Posting{
		ledger.Unmatched(found[0].Transaction.String(), 2, 5), ledger.Unmatched(found[1].Transaction.String(), 4, 6),
	}
	if err := books.Conclude(t.Context(), reconcile.Conclusion{Postings: posted}); err != nil {
		t.Fatal(err)
	}
	ada := func(key, reason string) order.OperatorContext {
		return order.OperatorContext{Operator: "ada", Key: key, Reason: reason}
	}
	list := func(q reconcile.UnmatchedQuery) (all []reconcile.Transfer) {
		t.Helper()
		page, err := books.ListUnmatched(t.Context(), q, order.OperatorContext{Operator: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		for _, transfer := range page {
			all = append(all, transfer.Transfer)
		}
		return all
	}
	// The third was not found to be unmatched: it may be a payment.
	if diff := cmp.Diff([]reconcile.Transfer{found[1], found[0]}, list(reconcile.UnmatchedQuery{Limit: 9})); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	if _, err := books.Resolve(t.Context(), found[2].Place(), reconcile.Donation, ada("k",
		"r")); !errors.Is(err, reconcile.ErrNoUnmatched) {
		t.Errorf("one that is not unmatched: %v", err)
	}
	if _, err := s.Treasury(x402.Address{19: 9}, x402.Address{19: 8}).Resolve(t.Context(), found[0].Place(),
		reconcile.Donation, ada("k", "r")); !errors.Is(err, reconcile.ErrNoUnmatched) {
		t.Errorf("another payee's: %v", err)
	}

	// Ten with one key are one action; of ten keys one wins.
	if n := atOnce(func() error {
		_, err := books.Resolve(t.Context(), found[0].Place(), reconcile.Donation, ada("same", "why"))
		return err
	}); n != 10 {
		t.Errorf("resolved %d times without an error, want all", n)
	}
	if _, err := books.Resolve(t.Context(), found[0].Place(), reconcile.Known, ada("same",
		"why")); !errors.Is(err, order.KeyReused()) {
		t.Errorf("the key for another act: %v", err)
	}
	if n := atOnce(func() error {
		_, err := books.Resolve(t.Context(), found[1].Place(), reconcile.RefundedByHand, ada(uuid.NewString(), "why"))
		if err != nil && !errors.Is(err, reconcile.ErrResolved) {
			t.Errorf("resolve: %v", err)
		}
		return err
	}); n != 1 {
		t.Errorf("%d of ten acts resolved it", n)
	}
	if left := list(reconcile.UnmatchedQuery{Limit: 9}); left != nil {
		t.Errorf("open: %+v", left)
	}
	if got := list(reconcile.UnmatchedQuery{Resolved: true, Limit: 1}); len(got) != 1 || got[0] != found[1] {
		t.Errorf("the first page: %+v", got)
	}
	r, err := books.OfTransfers(t.Context(), []string{found[0].Place().String(), found[1].Place().String()}, nil)
	if err != nil || len(r.Resolved) != 2 || len(r.Postings) != 4 {
		t.Fatalf("%+v, %+v, %v", r.Resolved, r.Postings, err)
	}
	sums := ledger.Balances(r.Postings)
	if sums[ledger.UnmatchedFunds] != 0 || sums[ledger.Treasury] != 5 || sums[ledger.Donations] != -5 {
		t.Errorf("balances %v", sums)
	}
	for _, sql := range []string{"UPDATE transfer_resolutions SET reason = ''", "DELETE FROM transfer_resolutions",
		"TRUNCATE transfer_resolutions"} {
		if _, err := s.Pool().Exec(t.Context(), sql); err == nil {
			t.Errorf("done: %s", sql)
		}
	}
}

// TestSentBackNamesWhatSentIt: what the catch-up has resolved names its transaction, and what an operator has does not.
func TestSentBackNamesWhatSentIt(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	marks := s.Watermarks(x402.Address{19: 9}, x402.Address{19: 7})
	found := []reconcile.Transfer{
		{Transaction: x402.Hash{1}, LogIndex: 2, Block: 90, From: payer, Value: 5, Nonce: x402.Hash{1, 1}},
		{Transaction: x402.Hash{2}, LogIndex: 4, Block: 91, From: payer, Value: 6},
		{Transaction: x402.Hash{3}, LogIndex: 4, Block: 91, From: payer, Value: 7},
	}
	if err := books.Arrive(t.Context(), 1, 100, found); err != nil {
		t.Fatal(err)
	}
	if err := books.Conclude(t.Context(), reconcile.Conclusion{Postings: []ledger.Posting{
		ledger.Unmatched(found[1].Transaction.String(), 4, 6), ledger.Unmatched(found[2].Transaction.String(), 4, 7),
	}}); err != nil {
		t.Fatal(err)
	}
	back := reconcile.Transfer{Transaction: x402.Hash{9}, Block: 95, Value: 5}
	refunded := []reconcile.RefundedTransfer{{Arrived: found[0], Back: back}}
	if err := marks.ResolveRefunded(t.Context(), refunded); err != nil {
		t.Fatal(err)
	}
	for i, as := range map[int]reconcile.Resolution{1: reconcile.RefundedByHand, 2: reconcile.Donation} {
		by := order.OperatorContext{Operator: "ada", Key: uuid.NewString(), Reason: back.Transaction.String()}
		if _, err := books.Resolve(t.Context(), found[i].Place(), as, by); err != nil {
			t.Fatal(err)
		}
	}
	got, err := marks.SentBack(t.Context(), []x402.Address{payer, {8}})
	want := []reconcile.SentBack{{To: payer, Value: 5, In: x402.Hash{9}}, {To: payer, Value: 6}}
	for i := range got {
		got[i].At = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("sent back (-want +got):\n%s%v", diff, err)
	}
	byHand := x402.Hash{7}
	if _, err := s.Pool().Exec(t.Context(), `INSERT INTO jobs
		(id, kind, unique_key, payload, max_attempts, run_at, created_at)
		VALUES (gen_random_uuid(), 'card_close', 'a card', jsonb_build_object('byHand', $1::text), 1, now(), now())`,
		byHand.String()); err != nil {
		t.Fatal(err)
	}
	concluded, err := marks.Concluded(t.Context(), []x402.Hash{{9}, byHand})
	if diff := cmp.Diff([]x402.Hash{byHand}, concluded); diff != "" || err != nil {
		t.Errorf("concluded by hand (-want +got):\n%s%v", diff, err)
	}
	if open, err := marks.Unclaimed(t.Context(), []x402.Address{payer}); err != nil || len(open) != 0 {
		t.Errorf("open: %v, %v", open, err)
	}
}

// TestClaimedNamesTheAuthorizationsOfAPayer: those that its orders have claimed.
func TestClaimedNamesTheAuthorizationsOfAPayer(t *testing.T) {
	s := storetest.New(t)
	req := claimRequest("k")
	req.Payment.Network = x402.NetworkID
	claim(t, s, req)
	marks := s.Watermarks(req.Payment.Asset, req.Payment.Authorization.To)
	got, err := marks.Claimed(t.Context(), []x402.Address{req.Order.Owner, {8}})
	want := []x402.Authorization{{From: req.Order.Owner, Nonce: req.Payment.Authorization.Nonce}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("claimed (-want +got):\n%s%v", diff, err)
	}
	if got, err := marks.Claimed(t.Context(), []x402.Address{{8}}); err != nil || len(got) > 0 {
		t.Errorf("of a stranger: %v, %v", got, err)
	}
}
