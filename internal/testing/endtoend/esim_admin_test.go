package endtoend_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
)

// TestEsimSwitchStopsOnlyEsimSales, in every process and before anything is paid; what was sold stays its
// buyer's, and cards go on.
func TestEsimSwitchStopsOnlyEsimSales(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{instances: 2})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	had := b.buyEsim("bought-before-the-switch")
	good := b.esimPayment(w.esimTerms("switched-off"))
	session := b.bearer()
	session["Idempotency-Key"] = "switched-off"
	legs := func(at *instance) map[string]request {
		return map[string]request{
			"unpaid": {at: at, path: esimPath, body: purchaseBody("switched-off")},
			"paid":   esimPurchase("switched-off", good).on(at),
			"order":  {at: at, path: "/api/esim/orders", body: "{}", header: session},
		}
	}
	w.setSwitch("esim", true, "1")
	orders := w.count("SELECT count(*) FROM orders")
	for n, at := range w.instances {
		eventually(t, func() (bool, string) {
			a := w.send(legs(at)["unpaid"])
			return a.status == 503, fmt.Sprintf("instance %d: %d %s", n, a.status, clipped(a.body))
		})
		for leg, r := range legs(at) {
			wantProblem(t, fmt.Sprintf("instance %d, %s", n, leg), w.send(r), 503, fault.EsimPaused)
		}
	}
	if n := w.count("SELECT count(*) FROM orders"); n != orders || len(w.transfers()) != 1 {
		t.Errorf("%d orders became %d, %d transfers", orders, n, len(w.transfers()))
	}
	b.get("/api/esim/orders/"+had.OrderID+"/credentials").into(t, 200, nil)
	wantStatus(t, "a card meanwhile", w.send(purchase("a-card", "")), http.StatusPaymentRequired)
	w.setSwitch("esim", false, "2")
	eventually(t, func() (bool, string) {
		a := w.send(legs(nil)["unpaid"])
		return a.status == http.StatusPaymentRequired, string(clipped(a.body))
	})
	var o esimOrder
	w.send(legs(nil)["paid"]).into(t, 200, &o)
	if o.Status != "fulfilled" || o.Credentials == nil {
		t.Errorf("then bought %+v", o)
	}
	w.checkBooks()
}

// TestOperatorRetryOrdersEsimUnderNewReference: the supplier refuses a reference for good, so the retry uses another.
func TestOperatorRetryOrdersEsimUnderNewReference(t *testing.T) {
	onlyTorture(t, "admin TestRetryAfterARefusalHasANewReference")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	w.issuer.esimFault("order", "refused", 1)
	o := b.buyEsim("refused-and-retried")
	b.awaitStatus(o.OrderID, "operator_review")
	at := "/api/esim/orders/" + o.OrderID
	token := map[string]string{"X-Esim-Delivery-Token": o.Delivery.Token}
	wantProblem(t, "credentials in review", w.send(get(at+"/credentials").with(token)), 409, fault.OrderNotFulfilled)
	w.decide(o.OrderID, "retry", "back in stock", "1").into(t, 200, nil)
	b.awaitStatus(o.OrderID, "fulfilled")
	var c esimCredentials
	w.send(get(at+"/credentials").with(token)).into(t, 200, &c)
	if c.LPA == "" {
		t.Error("delivered without an eSIM")
	}
	l, text := w.history(o.OrderID)
	if r := l.References; len(r) != 2 || r[0].Step != "esim" || r[0].Reference == r[1].Reference || r[1].Version != 2 {
		t.Errorf("references in %s", text)
	}
	if !strings.HasSuffix(l.path(), "operator_review provisioning fulfilled") || strings.Contains(text, c.ICCID) {
		t.Errorf("history %s", text)
	}
	books := string(w.issuer.call("GET", "esim/books", nil))
	for _, r := range l.References {
		if r.Version == 2 && !strings.Contains(books, r.Reference) {
			t.Errorf("the supplier has no eSIM under %s", r.Reference)
		}
	}
	if n := w.count("SELECT count(*) FROM esim_profiles WHERE order_id = $1 AND status = 'ready'", o.OrderID); n != 1 ||
		len(w.transfers()) != 1 {
		t.Errorf("%d eSIMs for %d payments", n, len(w.transfers()))
	}
	w.checkBooks()
}
