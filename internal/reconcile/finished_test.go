package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// finished are the comparisons of a world, newest first.
func (w *world) finished(outcome reconcile.Outcome) []reconcile.Finished {
	w.t.Helper()
	page, next, err := w.reconcile.FinishedFor(w.t.Context(), reconcile.FinishedQuery{Outcome: outcome, Limit: 10},
		order.OperatorContext{Operator: "ada"})
	if err != nil || next != 0 {
		w.t.Fatalf("%v, next %d", err, next)
	}
	return page
}

// TestEachComparisonThatEndsIsListed: one that agrees, one that differs, one of an issuer that does not answer, one
// that cannot read the chain, and one that cannot read our records. One whose caller gave up did not end.
func TestEachComparisonThatEndsIsListed(t *testing.T) {
	w := newWorld(t)
	w.now = time.Now()
	w.sells(2)
	w.wants("good books")
	w.execute("UPDATE orders SET price_usd_cents = 2600 WHERE id = (SELECT min(id) FROM orders)")
	w.execute("UPDATE orders SET updated_at = now()")
	differs := w.run()
	listed := w.finished("")
	if len(listed) != 2 || listed[1].Outcome != reconcile.Agreed || listed[1].Open != 0 || listed[1].Checked.Orders != 2 {
		t.Fatalf("comparisons %+v", listed)
	}
	if got := listed[0]; got.Outcome != reconcile.Differed || got.Open != differs.Open() || got.Open == 0 ||
		got.Checked != differs.Checked || len(got.Balances) != len(differs.Balances) || got.LastBlock != differs.LastBlock {
		t.Errorf("%+v\nof the report %+v", got, differs)
	}

	w.execute("ALTER TABLE issuer_lines RENAME TO hidden")
	if _, err := w.reconcile.Run(t.Context()); err == nil {
		t.Error("a table is missing, and the books agree")
	}
	w.execute("ALTER TABLE hidden RENAME TO issuer_lines")
	w.down = errors.New("no answer")
	if _, err := w.reconcile.Run(t.Context()); err == nil {
		t.Error("the chain does not answer, and the books agree")
	}
	gaveUp, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.reconcile.Run(gaveUp); err == nil {
		t.Error("nobody waits, and the books agree")
	}
	w.down = nil
	failed := w.finished(reconcile.Failed)
	if len(failed) != 2 || failed[0].Unread != "chain" || failed[1].Unread != "records" || failed[0].Open != 0 {
		t.Errorf("failed %+v", failed)
	}

	other := w.reconcile.Config
	other.Issuers = []card.NamedBook{{Provider: "mute", Book: &fickle{silent: errors.New("no answer")}}}
	w.reconcile = reconcile.New(other)
	w.run()
	if got := w.finished(""); len(got) != 5 || got[0].Outcome != reconcile.Incomplete || got[0].Open == 0 {
		t.Errorf("incomplete %+v", got)
	}
}
