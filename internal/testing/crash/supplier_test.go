package crash_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// Whenever the program dies, a supplier that takes no reference twice is sent an order at most once: what it has is
// delivered, and what left no trace is an operator's.
func TestKilledWhileASupplierIsSentAnOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	const delivered, undecided = "fulfilled", "operator_review"
	type end struct{ point, status string }
	for name, cases := range map[string][]end{
		esimaccess.Name: {{"supplier.after_order", delivered}, {"submit.marked", undecided}},
		// The last one leaves an entry that could be the order of any that follows.
		esimgo.Name: {
			{"supplier.after_order", delivered}, {"journal.unnamed", delivered}, {"submit.marked", undecided},
			{"journal.begun", undecided},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.supplier, w.books.SupplierURL = name, dev.SupplierBooks(name, w.books.SandboxURL)
			for _, c := range cases {
				t.Run(c.point, func(t *testing.T) { w.killedAt(t, c.point, c.status) })
			}
		})
	}
}

// killedAt kills the program at a point of the purchase of an eSIM, whose order then ends in a status.
func (w *world) killedAt(t *testing.T, point, status string) {
	b := w.buyer(t)
	b.travelling = true
	p := w.start(t, relayer, fault(point, "kill"))
	apptest.Until(t, recovery, "the terms are told", func() error { return b.challenge(t.Context()) })
	header := b.press(t, p, "", false)
	p.awaitKill(t, recovery)
	p = w.start(t, relayer, "")
	apptest.Until(t, 2*recovery, "the order is "+status, func() error {
		answered, _, got, err := b.ask(t.Context(), header)
		if err == nil && (answered != http.StatusOK || got.Order.Status != status) {
			err = fmt.Errorf("%d, %q", answered, got.Order.Status)
		}
		return err
	})
	p.stop(t)
	w.checkBooks(t)
}
