package endtoend_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/reconcile"
)

const reconciliationsPath = "/api/admin/reconciliations"

// comparison is one that has ended, as operators see it.
type comparison struct {
	ID, Outcome, Unread                      string
	BeganAt, EndedAt                         time.Time
	FirstBlock, LastBlock, DurationMs        int
	Opened, Closed, Open, Blocking, Resolved int
	Checked                                  *struct{ Orders, Payments, Transfers, Postings, Cards int }
	Sums                                     []reconcile.Sum
	Balances                                 []struct{ Account, Units string }
}

func (w *world) comparisons(query string) (page []comparison, next string) {
	w.t.Helper()
	var list struct {
		Reconciliations []comparison
		NextPageToken   string
	}
	w.send(get(reconciliationsPath+query).asOperator("")).into(w.t, 200, &list)
	return list.Reconciliations, list.NextPageToken
}

// TestOperatorSeesEveryComparison follows a difference through the list of comparisons: before it, when it is found,
// when it is resolved, and when the chain cannot be read.
func TestOperatorSeesEveryComparison(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: withOperator})
	b := w.buyer()
	b.buyCard("card")
	w.awaitSettled()
	w.wantFindings("good books")
	b.sendUnmatched(5_000_000)
	r := w.wantFindings("money for nothing", reconcile.TransferUnmatched)
	w.wantFindings("it stays", reconcile.TransferUnmatched)
	found := w.findings("")[0]
	w.send(found.explanation("a gift", "k")).into(t, 200, nil)
	w.wantFindings("it is resolved")

	all, next := w.comparisons("")
	if len(all) != 4 || next != "" {
		t.Fatalf("%d comparisons, next %q: %+v", len(all), next, all)
	}
	type counts struct {
		outcome                                  string
		opened, closed, open, blocking, resolved int
	}
	for i, want := range []counts{
		{"agreed", 0, 0, 0, 0, 1}, {"differed", 0, 0, 1, 0, 0}, {"differed", 1, 0, 1, 0, 0}, {"agreed", 0, 0, 0, 0, 0},
	} {
		c := all[i]
		if got := (counts{c.Outcome, c.Opened, c.Closed, c.Open, c.Blocking, c.Resolved}); got != want {
			t.Errorf("comparison %d back: %+v, want %+v", i, got, want)
		}
		if c.Checked == nil || c.Checked.Orders != 1 || c.EndedAt.Before(c.BeganAt) || c.LastBlock == 0 ||
			len(c.Balances) == 0 || c.DurationMs != int(c.EndedAt.Sub(c.BeganAt).Milliseconds()) {
			t.Errorf("comparison %d back: %+v", i, c)
		}
	}
	if c, at := all[2], r.At.Truncate(time.Microsecond); !c.EndedAt.Equal(at) || c.LastBlock != int(r.LastBlock) ||
		len(c.Sums) != 1 || c.Sums[0] != r.Sums[0] || c.Checked.Transfers != r.Checked.Transfers {
		t.Errorf("listed %+v\nof the report %+v", c, r)
	}
	w.wantComparisonsInPages(all)
	w.wantComparisonsRefused(b)
}

// wantComparisonsInPages turns the list over, whole and by how the comparisons ended.
func (w *world) wantComparisonsInPages(all []comparison) {
	w.t.Helper()
	first, next := w.comparisons("?pageSize=3")
	last, end := w.comparisons("?pageSize=3&pageToken=" + next)
	if len(first) != 3 || len(last) != 1 || end != "" || last[0].ID != all[3].ID {
		w.t.Errorf("pages of %d and %d, then %q", len(first), len(last), end)
	}
	if some, _ := w.comparisons("?outcome=differed"); len(some) != 2 || some[0].ID != all[1].ID {
		w.t.Errorf("those that differed %+v", some)
	}
	if none, _ := w.comparisons("?outcome=failed"); len(none) != 0 {
		w.t.Errorf("those that failed %+v", none)
	}
}

func (w *world) wantComparisonsRefused(b *buyer) {
	w.t.Helper()
	for name, tt := range map[string]struct {
		request request
		status  int
		code    fault.Code
	}{
		"no outcome":       {get(reconciliationsPath + "?outcome=lost").asOperator(""), 400, fault.SchemaInvalid},
		"no token":         {get(reconciliationsPath + "?pageToken=x").asOperator(""), 400, fault.SchemaInvalid},
		"no page":          {get(reconciliationsPath + "?pageToken=0").asOperator(""), 400, fault.SchemaInvalid},
		"too large a page": {get(reconciliationsPath + "?pageSize=101").asOperator(""), 400, fault.SchemaInvalid},
		"by a buyer":       {get(reconciliationsPath).as(b), 401, fault.OperatorTokenInvalid},
		"by nobody":        {get(reconciliationsPath), 401, fault.OperatorTokenInvalid},
	} {
		wantProblem(w.t, name, w.send(tt.request), tt.status, tt.code)
	}
}
