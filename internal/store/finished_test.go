package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func finished(t *testing.T, books store.Treasury, q reconcile.FinishedQuery) []reconcile.Finished {
	t.Helper()
	page, err := books.Finished(t.Context(), q, order.OperatorContext{Operator: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestComparisonIsListedWithItsReport: also one whose report is not kept, because it ended before another one. What it
// opened and closed is what did so since it began.
func TestComparisonIsListedWithItsReport(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	books := treasury(s)
	if err := books.Arrive(t.Context(), 1, 2, nil); err != nil {
		t.Fatal(err)
	}
	concluded := func(units []reconcile.Unit, found ...reconcile.Finding) {
		t.Helper()
		if err := books.Conclude(t.Context(), reconcile.Conclusion{Units: units, Found: found}); err != nil {
			t.Fatal(err)
		}
	}
	differs := func(id order.ID, blocks bool) reconcile.Finding {
		return reconcile.Finding{Code: reconcile.OrderAmount, Unit: reconcile.OrderUnit(id), Subject: string(id),
			Order: string(id), Detail: "d", Evidence: "e", Blocks: blocks}
	}
	ahead.Store(-int64(time.Hour))
	concluded(nil, differs("ord_old", true), differs("ord_gone", false), differs("ord_known", false))
	known := findingsOf(t, books, "ord_known")
	if _, err := books.ResolveFinding(t.Context(), known,
		order.OperatorContext{Operator: "ann", Key: "k", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	ahead.Store(0)
	began := time.Now().UTC().Truncate(time.Microsecond).Add(-time.Minute)
	concluded([]reconcile.Unit{reconcile.OrderUnit("ord_gone")}, differs("ord_new", false))

	r := reconcile.Report{At: began.Add(90 * time.Second), ReadSince: began, FirstBlock: 3, LastBlock: 70,
		Checked:       reconcile.Checked{Orders: 1, Payments: 2, Transfers: 3, Postings: 4, Cards: 5, Movements: 6},
		SpentUSDCents: 7, Balances: []reconcile.Balance{{Account: "treasury:usdc", Units: -5}},
		Sums: []reconcile.Sum{{Code: reconcile.OrderAmount, Open: 2, Blocking: 1}}}
	early := r
	early.At, early.Sums, early.LastBlock = r.At.Add(-time.Second), nil, 69
	for _, keep := range []reconcile.Report{r, early} {
		if err := books.Keep(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
	}
	want := reconcile.Finished{Began: began, Ended: r.At, Outcome: reconcile.Differed, FirstBlock: 3, LastBlock: 70,
		Checked: r.Checked, SpentUSDCents: 7, Opened: 1, Closed: 1, Open: 2, Blocking: 1, Resolved: 1, Sums: r.Sums,
		Balances: r.Balances}
	all := finished(t, books, reconcile.FinishedQuery{Limit: 10})
	if len(all) != 2 || all[0].Outcome != reconcile.Agreed || all[0].LastBlock != 69 || all[0].ID <= all[1].ID {
		t.Fatalf("comparisons %+v", all)
	}
	want.ID = all[1].ID
	if diff := cmp.Diff(want, all[1]); diff != "" || want.Took() != 90*time.Second {
		t.Errorf("the comparison differs (-want +got):\n%s", diff)
	}
	if last, _, err := books.Last(t.Context()); err != nil || last.LastBlock != 70 {
		t.Errorf("the last report is of block %d, %v", last.LastBlock, err)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE actor = 'ann' AND action = 'reconciliations.list'"); n != 1 {
		t.Errorf("%d of 1 reading is audited", n)
	}
}

func findingsOf(t *testing.T, books store.Treasury, subject string) int64 {
	t.Helper()
	all, err := books.Findings(t.Context(), reconcile.FindingQuery{Limit: 100}, order.OperatorContext{Operator: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Subject == subject {
			return f.ID
		}
	}
	t.Fatalf("no finding about %s in %+v", subject, all)
	return 0
}

// TestComparisonsAreSelectedAndTurnedOver: each payee has a list of its own.
func TestComparisonsAreSelectedAndTurnedOver(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	at := time.Now().UTC().Truncate(time.Microsecond)
	for i := range 5 {
		began := at.Add(time.Duration(i) * time.Minute)
		f := reconcile.Finished{Began: began, Ended: began.Add(time.Second), Outcome: reconcile.Failed, Unread: "chain"}
		if err := books.Fail(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if err := books.Keep(t.Context(), reconcile.Report{At: f.Ended.Add(time.Second), ReadSince: f.Ended}); err != nil {
			t.Fatal(err)
		}
	}
	stranger := s.Treasury(x402.Address{19: 9}, x402.Address{19: 8})
	if err := stranger.Keep(t.Context(), reconcile.Report{At: at}); err != nil {
		t.Fatal(err)
	}
	var turned []reconcile.Finished
	for before := int64(0); ; {
		page := finished(t, books, reconcile.FinishedQuery{Outcome: reconcile.Failed, Before: before, Limit: 2})
		if len(page) == 0 {
			break
		}
		turned, before = append(turned, page...), page[len(page)-1].ID
	}
	if len(turned) != 5 || !turned[0].Began.Equal(at.Add(4*time.Minute)) || !turned[4].Began.Equal(at) {
		t.Errorf("turned over %+v", turned)
	}
	if all := finished(t, books, reconcile.FinishedQuery{Limit: 100}); len(all) != 10 {
		t.Errorf("%d comparisons, want 10", len(all))
	}
	if f := turned[0]; f.Unread != "chain" || f.Took() != time.Second || f.Sums != nil || f.Balances != nil ||
		f.Checked != (reconcile.Checked{}) {
		t.Errorf("one that failed %+v", f)
	}
	if execErr(t, s, "UPDATE reconciliation_runs SET outcome = 'lost'") == nil {
		t.Error("an unknown outcome is stored")
	}
}

func TestOldComparisonsArePruned(t *testing.T) {
	s := storetest.New(t)
	books := treasury(s)
	for _, age := range []time.Duration{96, 95, 94, 40, 0} {
		at := time.Now().Add(-age * time.Hour)
		if err := books.Fail(t.Context(), reconcile.Finished{Began: at, Ended: at, Outcome: reconcile.Failed}); err != nil {
			t.Fatal(err)
		}
	}
	prune := func(before time.Time, want int) {
		t.Helper()
		if n, err := s.PruneComparisons(t.Context(), before, 2); err != nil || n != want {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	prune(time.Now().Add(-48*time.Hour), 2)
	prune(time.Now().Add(-48*time.Hour), 1)
	prune(time.Now().Add(-48*time.Hour), 0)
	prune(time.Now().Add(time.Hour), 1) // those of today stay, whatever the time that is given
	prune(time.Now().Add(time.Hour), 0)
}
