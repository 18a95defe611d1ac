package endtoend_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestNoProcessSellsAfterSwitchIsSet: two processes of the program itself sell as fast as they can while an
// operator sets the switch at one of them. What is sent after the answer is never claimed, at neither.
func TestNoProcessSellsAfterSwitchIsSet(t *testing.T) {
	onlyTorture(t, "store TestSwitchIsAnsweredOnceNoClaimCanSucceed, and "+
		"TestKillSwitchStopsSalesInEveryProcess here")
	t.Parallel()
	program := apptest.Binary(t)
	w := newAdminWorld(t, -1, plan{})
	hash := fmt.Sprintf("OPERATORS=ann:%x", w.config.Operators[0].Hash)
	w.replaceInstances(w.launch(program, hash), w.launch(program, hash))
	w.awaitEsimReady(w.instances[0])
	w.awaitEsimReady(w.instances[1])
	for _, product := range []struct {
		name  string
		code  fault.Code
		order func(b *buyer, key string) request
	}{
		{"card_issue", fault.IssuePaused,
			func(b *buyer, key string) request { return purchase(key, header(t, b.payment())) }},
		{"esim", fault.EsimPaused,
			func(b *buyer, key string) request { return esimPurchase(key, b.esimPayment(w.esimTerms(key))) }},
	} {
		t.Run(product.name, func(t *testing.T) {
			buyers := w.buyers(24)
			requests := make([]request, len(buyers))
			for i, b := range buyers {
				requests[i] = product.order(b, fmt.Sprintf("%s-%d", product.name, i))
				requests[i].at = w.instances[i%2]
			}
			// Both processes have just sold, and so have just read the switch.
			var early sync.WaitGroup
			for _, r := range requests[:8] {
				early.Go(func() { w.send(r) })
			}
			early.Wait()
			w.setSwitch(product.name, true, "1")
			var late sync.WaitGroup
			for _, r := range requests[8:] {
				late.Go(func() {
					a := w.send(r)
					if a.err != nil { // the connection broke, and the client repeats
						a = w.send(r)
					}
					wantProblem(t, "a purchase after the answer", a, http.StatusServiceUnavailable, product.code)
				})
			}
			late.Wait()
			for i, b := range buyers[8:] {
				if n := len(w.transfersFrom(b.address)); n != 0 {
					t.Errorf("buyer %d paid %d times after the answer", i, n)
				}
			}
			// What was claimed before goes on.
			w.checkBooks()
		})
	}
}

// TestOrderOfPausedProductIsNotPayable: an order that was created before the switch is as closed as any purchase.
func TestOrderOfPausedProductIsNotPayable(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{instances: 2})
	b := w.buyer()
	b.buyCard("a-card")
	o := b.createOrder("/api/orders", "", `{}`)
	r := payRequest("POST", o.path(), header(t, b.payment())).on(w.instances[1])
	w.send(get(o.path()).on(r.at)).into(t, http.StatusPaymentRequired, nil)
	w.setSwitch("card_topup", true, "1")
	wantProblem(t, "the payment", w.send(r), http.StatusServiceUnavailable, fault.TopupPaused)
	if n := len(w.transfersFrom(b.address)); n != 1 {
		t.Errorf("%d transfers", n)
	}
	w.setSwitch("card_topup", false, "2")
	eventually(t, func() (bool, string) {
		a := w.send(r)
		return a.status == http.StatusOK, string(clipped(a.body))
	})
	w.checkBooks()
}

// TestPauseIsShownInEveryDocument: in readiness, discovery, the configuration, the agent's contract and the MCP tools.
func TestPauseIsShownInEveryDocument(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	w.awaitEsimReady(nil)
	type told struct {
		Paused bool
		Card   struct{ IssuePaused, TopupPaused bool }
		Esim   struct{ PurchasePaused bool }
	}
	at := func(path string) (all told) {
		t.Helper()
		w.send(get(path)).into(t, 200, &all)
		return all
	}
	contract := func() map[string]bool {
		t.Helper()
		var c struct {
			Products []struct {
				Path   string
				Paused bool
			}
		}
		w.send(get("/api/agent")).into(t, 200, &c)
		paused := map[string]bool{}
		for _, p := range c.Products {
			paused[p.Path] = p.Paused
		}
		return paused
	}
	for product, where := range map[string]struct{ discovery, path string }{
		"card_issue": {"/api/card/discovery", "/api/card/purchase"},
		"card_topup": {"/api/card/topup/discovery", "/api/card/topup"},
		"esim":       {"/api/esim/discovery", "/api/esim/purchase"},
	} {
		for n, paused := range []bool{true, false} {
			w.operatorCall("POST", "/api/admin/switches/"+product, fmt.Sprintf(`{"paused":%t,"reason":"drill"}`, paused),
				fmt.Sprint(n)).into(t, 200, nil)
			eventually(t, func() (bool, string) { return at(where.discovery).Paused == paused, product })
			c := at("/api/config")
			all := map[string]bool{
				"card_issue": c.Card.IssuePaused,
				"card_topup": c.Card.TopupPaused,
				"esim":       c.Esim.PurchasePaused,
			}
			for other, closed := range all {
				if closed != (paused && other == product) {
					t.Errorf("while %s is paused (%t), the configuration says of %s: %t", product, paused, other, closed)
				}
			}
			for path, closed := range contract() {
				if closed != (paused && path == where.path) {
					t.Errorf("while %s is paused (%t), the contract says of %s: %t", product, paused, path, closed)
				}
			}
			ready := w.send(get("/api/esim/ready"))
			if want := paused && product == "esim"; (ready.status == 503) != want ||
				(want && !strings.Contains(ready.problem.Detail, "sale")) {
				t.Errorf("while %s is paused (%t), eSIMs are ready: %d %s", product, paused, ready.status, ready.body)
			}
			var config told
			if err := json.Unmarshal(w.callTool(t, "get_config", "{}").StructuredContent, &config); err != nil {
				t.Fatal(err)
			}
			readiness := w.callTool(t, "get_esim_readiness", "{}")
			if want := paused && product == "esim"; readiness.IsError != want || config.Esim.PurchasePaused != want {
				t.Errorf("while %s is paused (%t), the tools say %+v, %+v", product, paused, config, readiness)
			}
		}
	}
}

// TestNoTermsForEsimSupplierCannotDeliver: neither while it is down nor while our money there is spent. An order
// that was created before is no exception.
func TestNoTermsForEsimSupplierCannotDeliver(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	opened := b.createOrder("/api/esim/orders", "opened-before", `{}`)
	look := func(what string, status int, code fault.Code, failing string) {
		t.Helper()
		eventually(t, func() (bool, string) {
			a := w.send(post(esimPath, purchaseBody("terms")))
			return a.status == status && a.is(code),
				fmt.Sprintf("%s: %d %s", what, a.status, clipped(a.body))
		})
		for leg, r := range map[string]request{
			"preview":    {path: esimPath},
			"open order": {method: "GET", path: opened.path()},
		} {
			if a := w.send(r); a.status != status || !a.is(code) ||
				a.header.Get(x402.HeaderRequired) != "" != (status == 402) {
				t.Errorf("%s, %s: %d %s", what, leg, a.status, clipped(a.body))
			}
		}
		ready := w.send(get("/api/esim/ready"))
		if (failing == "") != (ready.status == 200) || !strings.Contains(ready.problem.Detail, failing) {
			t.Errorf("%s: readiness %d %s", what, ready.status, ready.body)
		}
	}
	w.issuer.esimFault("check", "error_before", 0)
	look("down", 503, fault.DependencyDown, "supplier")
	w.issuer.clearEsimFaults()
	look("up again", 402, fault.PaymentRequired, "")
	w.issuer.call("POST", "esim/float", map[string]any{"micros": 1})
	look("no float", 503, fault.FloatUnavailable, "float")
	w.issuer.call("POST", "esim/float", map[string]any{"micros": 100_000_000})
	look("float again", 402, fault.PaymentRequired, "")
	w.checkBooks()
}

func TestCountryWithoutPlansHasEmptyList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: func(c *app.Config) { c.Esim.SyncEvery = time.Second }})
	w.awaitEsimReady(nil)
	plans := func(country string) int {
		t.Helper()
		var list struct{ Plans []struct{ PlanID string } }
		w.send(get("/api/esim/plans?countryCode="+country)).into(t, 200, &list)
		return len(list.Plans)
	}
	for country, want := range map[string]bool{
		"FR": true,
		"fr": true,
		"Fr": true,
		"AQ": false,
		"XK": false,
		"xk": false,
		"ZZ": false,
		"qq": false,
	} {
		if n := plans(country); (n > 0) != want {
			t.Errorf("%s: %d plans", country, n)
		}
	}
	for _, wrong := range []string{"", "F", "FRA", "F1", "%C3%9C", "--"} {
		wantProblem(t, "countryCode="+wrong, w.send(get("/api/esim/plans?countryCode="+wrong)),
			400, fault.SchemaInvalid)
	}
}
