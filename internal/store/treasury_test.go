package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func treasury(s *store.Store) store.Treasury {
	return s.Treasury(x402.Address{19: 9}, x402.Address{19: 7})
}

func TestChainIsReadOnceAndNeverBackwards(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	if scan, err := books.Scanned(t.Context()); err != nil || scan != (reconcile.Scan{}) {
		t.Errorf("before: %+v, %v", scan, err)
	}
	p := claimRequest("k")
	paid := settled(p)
	paid.Receipt.Block = 77
	if err := errOf(s.Orders().Settle(t.Context(), claim(t, s, p).Job.Fence(), paid,
		move(p, order.Settling, order.Settled), watchJob(p))); err != nil {
		t.Fatal(err)
	}
	if scan, err := books.Scanned(t.Context()); err != nil || scan != (reconcile.Scan{Oldest: 77}) {
		t.Errorf("with a payment: %+v, %v", scan, err)
	}
	found := []reconcile.Transfer{
		{Transaction: x402.Hash{1}, LogIndex: 2, Block: 90, From: payer, Value: 5, Nonce: x402.Hash{3}},
		{Transaction: x402.Hash{1}, LogIndex: 4, Block: 90, From: payer, Value: 6},
	}
	if n := atOnce(func() error { return books.Arrive(t.Context(), 77, 100, found) }); n != 10 {
		t.Errorf("stored %d times without an error, want all", n)
	}
	if err := books.Arrive(t.Context(), 80, 90, nil); err != nil {
		t.Fatal(err)
	}
	want := reconcile.Scan{First: 77, Next: 100, Begun: true}
	if scan, err := books.Scanned(t.Context()); err != nil || scan != want {
		t.Errorf("after: %+v, %v", scan, err)
	}
	subjects := []string{found[0].Place().String(), found[1].Place().String()}
	r, err := books.OfTransfers(t.Context(), subjects, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(found, r.Arrivals); diff != "" {
		t.Errorf("arrivals differ (-want +got):\n%s", diff)
	}
	// Another payee's books are its own.
	stranger := s.Treasury(x402.Address{19: 9}, x402.Address{19: 8})
	other, err := stranger.OfTransfers(t.Context(), subjects, nil)
	if err != nil || len(other.Arrivals) != 0 {
		t.Errorf("another payee's: %+v, %v", other, err)
	}
	if of, err := stranger.OfOrders(t.Context(), []order.ID{p.Order.ID}, nil); err != nil || len(of.Payments) != 1 ||
		!of.Payments[0].Elsewhere || of.Scan.Begun {
		t.Errorf("another payee's: %+v, %v", of, err)
	}
	for _, sql := range []string{"UPDATE transfers SET value = 1", "DELETE FROM transfers", "TRUNCATE transfers"} {
		if _, err := s.Pool().Exec(t.Context(), sql); err == nil {
			t.Errorf("done: %s", sql)
		}
	}
}

func TestUnmatchedTransferIsPostedOnce(t *testing.T) {
	s := storetest.New(t)
	p := ledger.Unmatched(x402.Hash{1}.String(), 2, 5)
	if n := atOnce(func() error {
		return treasury(s).Conclude(t.Context(), reconcile.Conclusion{Postings: []ledger.Posting{p}})
	}); n != 10 {
		t.Errorf("posted %d times without an error, want all", n)
	}
	r, err := treasury(s).OfTransfers(t.Context(), []string{x402.Hash{1}.String() + "/2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ledger.Posting{p}, r.Postings, cmpopts.IgnoreFields(ledger.Posting{}, "At")); diff != "" {
		t.Errorf("postings differ (-want +got):\n%s", diff)
	}
}

func TestRecordsAreWhatWasStored(t *testing.T) {
	s := storetest.New(t)
	c, a, row := activated(t, s)
	if err := s.Cards().FeeTaken(t.Context(), row.Fence(), a.Postings(job.Succeeded)); err != nil {
		t.Fatal(err)
	}
	r, err := treasury(s).OfOrders(t.Context(), []order.ID{c.Order}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Orders) != 1 ||
		r.Orders[0] != (order.Sale{ID: c.Order, Kind: card.Kind, Status: order.Settling, Owner: c.Owner, Price: 2500,
			Delivery: 1, Name: string(c.Order)}) {
		t.Errorf("orders %+v", r.Orders)
	}
	if len(r.Payments) != 1 || r.Payments[0].Order != c.Order || r.Payments[0].Status != payment.Claimed ||
		r.Payments[0].Payer != c.Owner || r.Payments[0].Value != 25_000_000 {
		t.Errorf("payments %+v", r.Payments)
	}
	of, ok := r.Goods[0].(card.Records)
	if !ok || len(of.Cards) != 1 ||
		of.Cards[0] != (card.Card{ID: c.ID, Order: c.Order, Status: card.Active, Ref: c.Ref, Load: c.Load,
			Account: c.Account}) {
		t.Errorf("cards %+v", r.Goods)
	}
	if len(of.Fees) != 1 || of.Fees[0] != (card.FeeRecord{Status: job.Succeeded, Args: a}) {
		t.Errorf("fees %+v", of.Fees)
	}
	if len(r.Postings) != 2 {
		t.Errorf("postings %+v", r.Postings)
	}
}

func TestLatestReportIsKept(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	if err := books.Arrive(t.Context(), 1, 2, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := books.Last(t.Context()); ok || err != nil {
		t.Errorf("before: %t, %v", ok, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := reconcile.Report{At: at.Add(time.Minute), LastBlock: 7,
		Balances: []reconcile.Balance{{Account: "x", Units: -1}},
		Findings: []reconcile.Finding{{Code: reconcile.PostingMissing, Subject: "s", Blocks: true}},
		Sums:     []reconcile.Sum{{Code: reconcile.PostingMissing, Open: 1, Blocking: 1}}}
	for _, r := range []reconcile.Report{{At: at, LastBlock: 5}, later, {At: at, LastBlock: 6}} {
		if err := books.Keep(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := books.Last(t.Context())
	if err != nil || !ok {
		t.Fatalf("%t, %v", ok, err)
	}
	if diff := cmp.Diff(later, got); diff != "" || !got.Blocks() {
		t.Errorf("the report differs (-want +got):\n%s", diff)
	}
}
