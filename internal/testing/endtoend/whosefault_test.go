package endtoend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/facilitator/facilitatortest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// setTokenPaused sets the token's switch, as its issuer does; it is kept in slot 7.
func (w *world) setTokenPaused(on bool) {
	w.t.Helper()
	w.setSlot(common.BigToHash(moneyOf(7).Big()), on)
}

// setBlacklisted sets whether the token's issuer blocks an account; the list is kept in slot 6.
func (w *world) setBlacklisted(account x402.Address, on bool) {
	w.t.Helper()
	var at [64]byte
	copy(at[12:], account[:])
	at[63] = 6
	w.setSlot(crypto.Keccak256Hash(at[:]), on)
}

func (w *world) setSlot(slot common.Hash, on bool) {
	w.t.Helper()
	value := common.Hash{}
	if on {
		value[31] = 1
	}
	w.rpc(nil, "anvil_setStorageAt", usdc().String(), slot, value)
	w.mine(1)
}

// disruption is something that keeps payments from settling, and is not the payer's fault.
type disruption struct {
	name       string
	begin, end func()
	// check is the check of /ready that fails, and code is whose fault it is.
	check string
	code  fault.Code
}

// wantTurnedAway checks what everybody is told meanwhile: nobody is invited to pay, nothing is claimed, and the same
// signature does once it is over.
func (w *world) wantTurnedAway(tr disruption) {
	w.t.Helper()
	t, b := w.t, w.buyer()
	payment := header(t, b.payment())
	tr.begin()
	w.awaitNotReady(fmt.Sprintf("%s (%s)", tr.check, tr.code))
	before := w.footprint()
	for _, r := range []request{{path: purchasePath}, purchase("x", ""),
		{path: "/api/esim/purchase", body: purchaseBody("x")}} {
		a := w.send(r)
		if a.status != 503 || !a.is(tr.code) || a.header.Get(x402.HeaderRequired) != "" ||
			a.header.Get("Retry-After") == "" {
			t.Errorf("%s: unpaid %s: %d %s, want 503 %s", tr.name, r.path, a.status, clipped(a.body), tr.code)
		}
	}
	a := w.send(purchase(tr.name, payment))
	if a.status != 503 || !a.is(tr.code) || a.problem.NextAction != string(fault.RetrySameRequest) ||
		*a.problem.SafeToPayAgain || a.problem.OrderID != "" {
		t.Errorf("%s: paid: %d %s, want 503 %s, %s", tr.name, a.status, clipped(a.body), tr.code, fault.RetrySameRequest)
	}
	w.wantFootprint(fmt.Sprintf("%s: a trace is left", tr.name), before)
	tr.end()
	b.wantRetrySold(tr.name, payment)
	b.wantPaidOnce(tr.name)
	eventually(t, func() (bool, string) {
		a := w.send(get("/ready"))
		return a.status == 200, string(a.body)
	})
}

// TestRefusalNamesTheCause: the token's issuer pauses it or blocks an account of ours, or the chain is being
// reorganised.
func TestRefusalNamesTheCause(t *testing.T) {
	onlyTorture(t, "checkout TestUnavailablePaymentsNameTheirCause, availability TestSettleNamesWhoseFaultItIs")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{chain: ownChain(t), change: func(c *app.Config) {
		c.ChainWatch, c.ReorgCalm = 100*time.Millisecond, 20*time.Second
	}})
	w.awaitEsimReady(nil)
	blocks := func(name string, a x402.Address) disruption {
		return disruption{name, func() { w.setBlacklisted(a, true) }, func() { w.setBlacklisted(a, false) }, "token",
			fault.AccountBlocked}
	}
	for _, tr := range []disruption{
		{"the token is paused", func() { w.setTokenPaused(true) }, func() { w.setTokenPaused(false) }, "token",
			fault.TokenPaused},
		blocks("the payee is blocked", w.payTo), blocks("the treasury is blocked", w.treasury),
		blocks("the relayer is blocked", w.relayer),
		{"a reorganisation", func() {
			// The looks have to see the blocks that are replaced; the buyer's money is older.
			for range 8 {
				w.awaitBlock(w.blockNumber() + 1)
			}
			w.rpc(nil, "anvil_reorg", 5, []any{})
		}, func() {}, "chain", fault.ChainUnsettled},
	} {
		w.wantTurnedAway(tr)
		w.awaitSettled()
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestBlacklistedPayerAloneIsRefused: others can buy; the wallet's payment is neither claimed nor asked for again, and
// is accepted once the wallet is unblocked.
func TestBlacklistedPayerAloneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{chain: ownChain(t), change: func(c *app.Config) { c.ChainWatch = 100 * time.Millisecond }})
	blocked, other := w.buyer(), w.buyer()
	w.setBlacklisted(blocked.address, true)
	wantStatus(t, "unpaid", w.send(purchase("blocked", "")), 402)
	payment, before := header(t, blocked.payment()), w.footprint()
	a := w.send(purchase("blocked", payment))
	if a.status != 409 || !a.is(fault.PayerBlacklisted) || *a.problem.SafeToPayAgain ||
		*a.problem.Retryable || a.header.Get(x402.HeaderRequired) != "" {
		t.Errorf("%d %s", a.status, clipped(a.body))
	}
	w.wantFootprint("a trace is left", before)
	other.wantSold("other")
	w.setBlacklisted(blocked.address, false)
	blocked.wantRetrySold("blocked", payment)
	w.checkBooks()
	w.wantAllDelivered()
}

// TestFacilitatorThatSettlesNothingIsNotReady: it lists our kind and settles nothing that it is asked for, whatever it
// says. The sale closes, and opens by itself once what waits is settled.
func TestFacilitatorThatSettlesNothingIsNotReady(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]facilitatortest.Fault{
		"fails":                     facilitatortest.Fail,
		"refuses":                   facilitatortest.Refuse,
		"lies":                      facilitatortest.Lie,
		"boasts":                    facilitatortest.Boast,
		"settles for somebody else": facilitatortest.Mistake,
		"is pending for ever":       facilitatortest.Stall,
		"hangs":                     facilitatortest.Hang,
		"does not know us":          facilitatortest.Unauthorized,
		"sends us elsewhere":        facilitatortest.Redirect,
		"asks for a long pause":     facilitatortest.LimitLong,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "fails" {
				onlyTorture(t, "one that fails, facilitator TestReadyFailsWhenFacilitatorSettlesNothing")
			}
			t.Parallel()
			w, f := newFacilitatorWorld(t, "facilitator",
				func(c *app.Config) { c.ChainWatch, c.Wait = 100*time.Millisecond, time.Second })
			w.awaitEsimReady(nil)
			buyers := w.buyers(3)
			var payments []string
			w.wantTurnedAway(disruption{"it " + name, func() {
				f.Always(mode)
				for i, b := range buyers {
					payments = append(payments, header(t, b.payment()))
					wantStatus(t, "the answer", w.send(purchase(fmt.Sprint("early ", i), payments[i])), 503)
				}
			}, func() { f.Always(facilitatortest.Honest) }, "facilitator", fault.FacilitatorDown})
			for i, b := range buyers {
				b.wantRetrySold(fmt.Sprint("early ", i), payments[i])
			}
			w.checkBooks()
		})
	}
}

// TestUnpaidRequestsDoNotQueryNode: what is asked for all of them at once is not asked again for each.
func TestUnpaidRequestsDoNotQueryNode(t *testing.T) {
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	w.awaitSettled()
	before, began := node.callCounts(), time.Now()
	for range 300 {
		w.send(get("/ready"))
		w.send(purchase("stranger", ""))
	}
	asked := 0
	for method, n := range node.callCounts() {
		asked += n - before[method]
	}
	// A look at the head, one at the relayer's head and gas, each at most once a second, and maintenance in addition.
	if most := 8 * (2 + int(time.Since(began)/time.Second)); asked > most { // clock: the bound grows with it
		t.Errorf("600 requests asked the node %d times, want at most %d", asked, most)
	}
}
