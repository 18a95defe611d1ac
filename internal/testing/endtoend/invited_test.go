package endtoend_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
)

// TestNoTermsWhileSettlementIsDown: once readiness has seen that the chain or the gas is away, an
// unpaid purchase gets 503 instead of the terms, and asks nobody; once it has seen that all is well, the terms.
func TestNoTermsWhileSettlementIsDown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the chain", "the gas"} {
		t.Run(name, func(t *testing.T) {
			if name != "the chain" {
				onlyTorture(t, "the chain, availability TestSettleAsksAndInviteDoesNot")
			}
			t.Parallel()
			w, node := newProxyWorld(t, nil)
			b := w.buyer()
			b.buyCard("card")
			w.awaitSettled()
			w.awaitEsimReady(nil)
			opened := b.createOrder("/api/orders", "", "")
			unpaid := []request{
				purchase("invited", ""), {path: purchasePath}, {path: "/api/card/topup", body: purchaseBody("invited")},
				{path: "/api/esim/purchase", body: purchaseBody("invited")}, payRequest("GET", opened.path(), ""),
				payRequest("POST", opened.path(), ""),
			}
			all := func(status int, code fault.Code) {
				t.Helper()
				for _, r := range unpaid {
					a := w.send(r)
					invites, waits := a.header.Get("Payment-Required") != "", a.header.Get("Retry-After") != ""
					if a.status != status || !a.is(code) || invites != (status == 402) || waits != (status == 503) {
						t.Errorf("%s %s: %d %s %v, want %d %s", r.method, r.path, a.status, clipped(a.body), a.header, status, code)
					}
				}
			}
			ready := func(status int) {
				t.Helper()
				eventually(t, func() (bool, string) {
					a := w.send(get("/ready"))
					return a.status == status, fmt.Sprintf("%d %s", a.status, clipped(a.body))
				})
			}
			all(402, fault.PaymentRequired)

			o := w.outages(node, nil, "")[name]
			o.begin()
			ready(http.StatusServiceUnavailable)
			before := w.footprint()
			// What the program asks by itself may fall in between, but not each time.
			eventually(t, func() (bool, string) {
				asked := node.callCounts()
				all(503, fault.DependencyDown)
				diff := cmp.Diff(asked, node.callCounts())
				return diff == "", "unpaid requests asked the chain:\n" + diff
			})
			o.heal()
			w.wantFootprint("unpaid requests left a trace", before)
			ready(http.StatusOK)
			all(402, fault.PaymentRequired)
			w.checkBooks()
		})
	}
}
