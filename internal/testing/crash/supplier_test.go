package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
)

// Whenever the program dies, a supplier that takes no reference twice is sent an order at most once: what it has is
// delivered, and what left no trace is an operator's.
func TestKilledWhileASupplierIsSentAnOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	for _, name := range chosen([]string{esimgo.Name}, esimaccess.Name) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).over("", name)
			for _, c := range whileASupplierIsSentAnOrder(name) {
				t.Run(c.name(), func(t *testing.T) { w.ordersAtMostOnce(t, c) })
			}
		})
	}
}

// ordering is a case of a supplier that takes no reference twice: where the program dies, and how the order ends.
type ordering struct {
	crash
	status string
}

// whileASupplierIsSentAnOrder takes the points of an order, all of them only in a torture run.
func whileASupplierIsSentAnOrder(supplier string) []ordering {
	const delivered, undecided = "fulfilled", "operator_review"
	var cases []ordering
	if supplier == esimgo.Name {
		cases = append(cases, ordering{crash{first: "journal.unnamed"}, delivered})
	}
	if torture() {
		for _, c := range []crash{
			{first: "supplier.after_order"}, {first: "esim.reserved"}, {first: "esim.before_commit"}, {first: "esim.installed"},
			{first: "esim.reserved", second: "supplier.after_order"},
			{first: "supplier.after_order", second: "esim.before_commit"},
			{first: "supplier.after_order", second: "esim.installed"},
			{first: "esim.before_commit", second: "esim.before_commit"},
			{first: "esim.installed", second: "fulfill.leased"},
		} {
			cases = append(cases, ordering{c, delivered})
		}
		if supplier == esimgo.Name {
			cases = append(cases, ordering{crash{first: "journal.unnamed", second: "esim.before_commit"}, delivered})
		}
		cases = append(cases, ordering{crash{first: "supplier.before_order"}, undecided},
			ordering{crash{first: "esim.reserved", second: "submit.marked"}, undecided},
			ordering{crash{first: "submit.marked"}, undecided})
	}
	if supplier == esimgo.Name {
		// The last one leaves an entry that could be the order of any that follows.
		cases = append(cases, ordering{crash{first: "journal.begun"}, undecided})
	}
	return cases
}

// ordersAtMostOnce runs one case. Of an order that ends delivered the supplier has made one eSIM, and of any other
// none.
func (w *world) ordersAtMostOnce(t *testing.T, c ordering) {
	note := record{
		Flow: esim + " of " + w.supplier, Settler: relayer, Mode: "kill", First: c.first, Second: c.second, Failed: true,
	}
	defer func() { note.write(t) }()
	b := w.buyer(t)
	b.travelling = true
	had, want := w.supplierOrders(t), 0
	p := w.start(t, relayer, fault(c.first, "kill"))
	w.await(t, "the terms are told", func() error { return b.challenge(t.Context()) })
	header := b.press(t, p, "", false)
	p.awaitKill(t)
	if c.second != "" {
		p = w.start(t, relayer, fault(c.second, "kill"))
		b.press(t, p, header, false)
		p.awaitKill(t)
	}
	p = w.start(t, relayer, "")
	began := time.Now()
	w.await(t, "the order is "+c.status, func() error {
		answered, _, got, err := b.ask(t.Context(), header)
		if err == nil && (answered != http.StatusOK || got.Order.Status != c.status) {
			err = fmt.Errorf("%d, %q", answered, got.Order.Status)
		}
		return err
	})
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	if c.status == "fulfilled" {
		want = 1
	}
	if made := w.supplierOrders(t) - had; made != want {
		t.Errorf("the supplier has made %d eSIMs, want %d", made, want)
	}
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// A database that is restored has lost an eSIM that was sold, data that was added to another one, and what the journal
// knew of both. The repeats of their buyers get them where the supplier finds them by our references, and wait for an
// operator where it cannot be told whose they are. Either way nothing is ordered again.
func TestRestoredOverASupplierThatTakesNoReferenceTwice(t *testing.T) {
	t.Parallel()
	tortures(t)
	for name, found := range map[string]bool{esimaccess.Name: true, esimgo.Name: false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).over("", name)
			p := w.start(t, relayer, "")
			more := w.bill(t, w.buyer(t), esim)
			w.await(t, "eSIMs are sold", func() error { return more.buyer.ready(more.Path) })
			w.buys(t, []*bill{more}, http.StatusOK)
			w.waitIdle(t)
			p.stop(t)
			older, lostFrom := w.dump(t), w.sent(t)

			p = w.start(t, relayer, "")
			n := w.bill(t, w.buyer(t), esim)
			more.moreData(t)
			lost := []*bill{n, more}
			for _, of := range lost {
				w.await(t, "it is sold", func() error { return of.buyer.ready(of.Path) })
			}
			w.buys(t, lost, http.StatusOK)
			w.waitIdle(t)
			for _, of := range lost {
				of.tally = w.tell(t, of.buyer)
			}
			p.Kill(t)
			w.restore(t, older)
			w.loses(lostFrom, w.sent(t))
			w.answers.all = nil // what was told of the lost order is not in the books any more

			p = w.start(t, relayer, "")
			if found {
				w.repeats(t, lost)
				w.waitIdle(t)
				for _, of := range lost {
					w.stillHas(t, of)
				}
				w.checkBooks(t)
			} else {
				w.await(t, "the repeats are an operator's", func() error {
					for i, a := range w.buys(t, lost, 0) {
						if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "what it bought") {
							return fmt.Errorf("%s: %d %s", lost[i].Path, a.Status, a.Body)
						}
					}
					return nil
				})
			}
			if made := w.supplierOrders(t); made != 3 {
				t.Errorf("the supplier has %d orders, want the three before the loss", made)
			}
			p.stop(t)
		})
	}
}

// ready says whether a purchase would be told its terms.
func (b *buyer) ready(path string) error {
	res, err := b.http.Post("http://"+b.world.addr+path, "application/json", strings.NewReader(
		`{"idempotencyKey":"is-anything-sold"}`))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusPaymentRequired {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// supplierOrders counts the orders in the books of the supplier.
func (w *world) supplierOrders(t *testing.T) int {
	t.Helper()
	res, err := http.Get(w.books.Suppliers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var books struct{ Esims []json.RawMessage }
	if err := json.NewDecoder(res.Body).Decode(&books); err != nil {
		t.Fatal(err)
	}
	return len(books.Esims)
}
