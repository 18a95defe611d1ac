package reconcile_test

import (
	"fmt"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
)

func usdc(units int64) money.USDC    { return money.USDC(units) }
func cents(amount int64) money.Cents { return money.Cents(amount) }

// line is a change of the issuer's.
func (w *world) line(l card.Line) { w.lines = append(w.lines, l) }

// unlocked runs statements on tables that nobody may change.
func (w *world) unlocked(sql string) {
	w.t.Helper()
	for _, table := range []string{"transfers", "ledger_entries", "ledger_postings"} {
		w.execute("ALTER TABLE " + table + " DISABLE TRIGGER USER")
		defer w.execute("ALTER TABLE " + table + " ENABLE TRIGGER USER")
	}
	w.execute(sql)
}

// clear takes away what was posted, delivered and made for a purchase.
func (w *world) clear(n int) {
	w.t.Helper()
	w.unlocked("DELETE FROM ledger_entries WHERE posting_id LIKE '%/" + kit.OrderID(n) + "'")
	w.unlocked("DELETE FROM ledger_postings WHERE order_id = '" + kit.OrderID(n) + "'")
	w.unlocked("DELETE FROM transfers WHERE id = " + fmt.Sprint(n))
	w.execute("DELETE FROM cards WHERE order_id = $1", kit.OrderID(n))
	w.execute("DELETE FROM jobs WHERE unique_key = $1", fmt.Sprintf("00000000-0000-7000-8000-%012d", n))
	w.execute("DELETE FROM issuer_lines WHERE order_id = $1", kit.OrderID(n))
}
