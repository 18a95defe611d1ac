package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
)

// history is what an operator sees of an order.
type history struct {
	Order    orderView       `json:"order"`
	Owner    string          `json:"owner"`
	Payments []paymentRecord `json:"payments"`
	Refund   *paymentRecord  `json:"refund"`
	Jobs     []struct {
		Kind   string `json:"kind"`
		Status string `json:"status"`
	} `json:"jobs"`
	References []struct {
		Step      string `json:"step"`
		Version   int    `json:"version"`
		Reference string `json:"reference"`
	} `json:"references"`
	Timeline []transition `json:"timeline"`
}

type transition struct {
	To     string `json:"to"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

type paymentRecord struct {
	Status      string `json:"status"`
	Transaction string `json:"transaction"`
}

func (w *world) history(id string) (history, string) {
	w.t.Helper()
	a := w.operatorCall("GET", "/api/admin/orders/"+id, "", "")
	var l history
	a.into(w.t, 200, &l)
	return l, string(a.body)
}

// path is the statuses that an order came by.
func (l history) path() string {
	var all []string
	for _, m := range l.Timeline {
		all = append(all, m.To)
	}
	return strings.Join(all, " ")
}

// TestOperatorSeesOrderHistoryWithoutSecrets, and nothing that would let anybody move money or read a card.
func TestOperatorSeesOrderHistoryWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	b := w.buyer()
	b.signIn()
	pay := b.payment()
	var o orderView
	w.send(purchase("seen~002", header(t, pay))).into(t, 200, &o)
	b.awaitStatus(o.OrderID, "refunded")
	l, text := w.history(o.OrderID)
	if l.Owner != b.address.String() || l.Order.OrderID != o.OrderID || l.Order.Refund == nil || len(l.Payments) != 1 ||
		l.Payments[0].Status != "paid" {
		t.Errorf("history %s", text)
	}
	if l.Refund == nil || l.Refund.Status != "paid" || l.Refund.Transaction != l.Order.Refund.Transaction {
		t.Errorf("refund %+v", l.Refund)
	}
	if want := "settling settled provisioning refund_pending refunded"; l.path() != want {
		t.Errorf("timeline %s, want %s", l.path(), want)
	}
	kinds := map[string]bool{}
	for _, j := range l.Jobs {
		kinds[j.Kind] = true
	}
	if !kinds["order_fulfill"] || !kinds["payment_confirm"] || !kinds["refund_confirm"] {
		t.Errorf("jobs %+v", l.Jobs)
	}
	if len(l.References) == 0 || l.References[0].Step != "open" || !strings.Contains(text, `"value":"holder_rejected"`) {
		t.Errorf("references %+v in %s", l.References, text)
	}
	var signature []byte
	if err := w.db.QueryRow(t.Context(), "SELECT signature FROM refunds").Scan(&signature); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{
		"the payment's signature": pay.Signature.Hex()[2:66],
		"the refund's signature":  fmt.Sprintf("%x", signature[:32]),
		"the key":                 "seen~002",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is shown", name)
		}
	}
	w.checkBooks()
}

// TestOperatorRetriesRefusedOrder walks a refused order through a retry that is refused again, one that is
// not, and looks at the audit trail.
func TestOperatorRetriesRefusedOrder(t *testing.T) {
	onlyTorture(t, "admin TestRetryAfterARefusalHasANewReference")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.signIn()
	w.issuer.fault("open", "refused", 2, 0)
	var o orderView
	b.buy("k").into(t, 200, &o)
	b.awaitStatus(o.OrderID, "operator_review")
	var queue struct {
		Orders []struct{ OrderID, Owner, Reason, Status string }
	}
	w.operatorCall("GET", "/api/admin/orders", "", "").into(t, 200, &queue)
	if len(queue.Orders) != 1 || queue.Orders[0].OrderID != o.OrderID || queue.Orders[0].Reason == "" {
		t.Errorf("queue %+v", queue)
	}
	path := "/api/admin/orders/" + o.OrderID + "/decide"
	no := w.operatorCall("POST", path, `{"action":"refund","reason":"give it back"}`, "0")
	if no.status != http.StatusConflict || !no.is(fault.RefundUnavailable) {
		t.Errorf("a refund without a treasury: %d %s", no.status, no.body)
	}
	w.operatorCall("POST", path, `{"action":"retry","reason":"the issuer says it is fixed"}`, "1").into(t, 200, nil)
	eventually(t, func() (bool, string) {
		l, text := w.history(o.OrderID)
		return strings.HasSuffix(l.path(), "operator_review provisioning operator_review"), text
	})
	w.operatorCall("POST", path, `{"action":"retry","reason":"now it is"}`, "2").into(t, 200, nil)
	b.awaitStatus(o.OrderID, "fulfilled")
	l, text := w.history(o.OrderID)
	if n := len(l.References); n != 3 || l.References[0].Reference == l.References[2].Reference {
		t.Errorf("references %+v", l.References)
	}
	i := slices.IndexFunc(l.Timeline, func(m transition) bool { return m.Actor == "operator:ann" })
	if i < 0 || l.Timeline[i].Reason != "the issuer says it is fixed" {
		t.Errorf("timeline %s", text)
	}
	late := w.operatorCall("POST", path, `{"action":"fulfilled","reason":"too late"}`, "3")
	if late.status != http.StatusConflict || !late.is(fault.OrderNotInReview) {
		t.Errorf("a decision about a fulfilled order: %d %s", late.status, late.body)
	}
	var acts, looks int
	err := w.db.QueryRow(context.WithoutCancel(t.Context()),
		`SELECT count(*) FILTER (WHERE action = 'order.decide' AND actor = 'ann' AND reason <> ''),
		count(*) FILTER (WHERE action = 'order.inspect') FROM audit WHERE subject = $1`, o.OrderID).Scan(&acts, &looks)
	if err != nil || acts != 2 || looks == 0 {
		t.Errorf("%d acts and %d looks are audited, %v", acts, looks, err)
	}
	w.checkBooks()
	w.wantFindings("a card after two refusals")
}

// TestOperatorDecidesRefusedTopUp: a retry loads under a reference of its own, and one that was delivered by hand
// leaves no finding, though the issuer has no load of ours for it.
func TestOperatorDecidesRefusedTopUp(t *testing.T) {
	onlyTorture(t, "admin TestRetryOfARefusedTopUpLoadsOnce")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.buyCard("card")
	for _, action := range []string{"retry", "fulfilled"} {
		w.issuer.fault("move", "refused", 1, 0)
		var o orderView
		b.topUp(action, 3333).into(t, 200, &o)
		b.awaitStatus(o.OrderID, "operator_review")
		w.decide(o.OrderID, action, "decided", action).into(t, 200, nil)
		b.awaitStatus(o.OrderID, "fulfilled")
		w.wantFindings(action)
	}
}

// operatorCases are wrong requests to the operators' routes, about an order in review.
type operatorCases struct {
	order, decide, toggle string
	all                   refusals
}

const (
	retryBody = `{"action":"retry","reason":"r"}`
	pauseBody = `{"paused":true,"reason":"r"}`
)

// add adds a request with a token and, unless empty, an idempotency key.
func (c *operatorCases) add(name string, r request, token, key string, status int, code fault.Code) {
	r = r.withHeader("Authorization", token)
	if key != "" {
		r = r.withHeader("Idempotency-Key", key)
	}
	c.all.add(name, r, status, code)
}

// TestOperatorRoutesRefuseBadRequests changes nothing by any of them.
func TestOperatorRoutesRefuseBadRequests(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.signIn()
	var o orderView
	b.buy("k~002").into(t, 200, &o)
	b.awaitStatus(o.OrderID, "operator_review")
	order := "/api/admin/orders/" + o.OrderID
	c := operatorCases{order: order, decide: order + "/decide", toggle: "/api/admin/switches/card_issue"}
	c.addTokens(b.token)
	c.addBodies()
	c.addKeysAndPaths()
	w.wantRefusals(c.all)
	if status := queryOne[string](w, "SELECT status FROM orders"); status != "operator_review" {
		t.Errorf("the order is %s", status)
	}
	if n := w.count(`SELECT (SELECT count(*) FROM kill_switches) +
		(SELECT count(*) FROM audit WHERE idempotency_key <> '')`); n != 0 {
		t.Errorf("%d things changed", n)
	}
	w.checkBooks()
}

// addTokens adds every route with each token that is not an operator's.
func (c *operatorCases) addTokens(session string) {
	tokens := map[string]string{
		"nobody":        "",
		"a buyer":       "Bearer " + session,
		"another token": "Bearer rco_x",
		"basic":         "Basic " + operatorToken,
	}
	for _, r := range []request{
		get("/api/admin/orders"), get(c.order), get("/api/admin/switches"), post(c.decide, retryBody),
		post(c.toggle, pauseBody),
	} {
		for name, token := range tokens {
			c.add(name+": "+r.method+" "+r.path, r, token, "k", 401, fault.OperatorTokenInvalid)
		}
	}
}

// addBodies adds malformed decisions and switches.
func (c *operatorCases) addBodies() {
	longReason := strings.Repeat("r", 501)
	for name, body := range map[string]string{
		"no action":             `{"reason":"r"}`,
		"no reason":             `{"action":"retry"}`,
		"empty reason":          `{"action":"retry","reason":""}`,
		"long reason":           `{"action":"retry","reason":"` + longReason + `"}`,
		"another action":        `{"action":"delete","reason":"r"}`,
		"unknown member":        `{"action":"retry","reason":"r","amount":1}`,
		"twice":                 `{"action":"retry","action":"refund","reason":"r"}`,
		"empty":                 ``,
		"a list":                `[]`,
		"the order in the body": `{"orderId":"ord_x","action":"retry","reason":"r"}`,
	} {
		c.add("decide, "+name, post(c.decide, body), "Bearer "+operatorToken, "k", 400, fault.SchemaInvalid)
	}
	for name, body := range map[string]string{
		"no paused":   `{"reason":"r"}`,
		"no reason":   `{"paused":true}`,
		"text":        `{"paused":"true","reason":"r"}`,
		"number":      `{"paused":1,"reason":"r"}`,
		"null":        `{"paused":null,"reason":"r"}`,
		"long reason": `{"paused":true,"reason":"` + longReason + `"}`,
	} {
		c.add("switch, "+name, post(c.toggle, body), "Bearer "+operatorToken, "k", 400, fault.SchemaInvalid)
	}
}

// addKeysAndPaths adds wrong keys, ids and queries.
func (c *operatorCases) addKeysAndPaths() {
	add := func(name string, r request, key string, status int, code fault.Code) {
		c.add(name, r, "Bearer "+operatorToken, key, status, code)
	}
	add("switch of nothing", post("/api/admin/switches/cards", pauseBody), "k", 400, fault.SchemaInvalid)
	add("decide without key", post(c.decide, retryBody), "", 400, fault.IdempotencyKeyMissing)
	add("switch without key", post(c.toggle, pauseBody), "", 400, fault.IdempotencyKeyMissing)
	add("key too long", post(c.decide, retryBody), strings.Repeat("k", 201), 400, fault.SchemaInvalid)
	add("no such order", post("/api/admin/orders/ord_x/decide", retryBody), "k", 404, fault.OrderNotFound)
	add("no such order to see", get("/api/admin/orders/ord_x"), "", 404, fault.OrderNotFound)
	add("another status", get("/api/admin/orders?status=lost"), "", 400, fault.SchemaInvalid)
	add("page of 101", get("/api/admin/orders?pageSize=101"), "", 400, fault.SchemaInvalid)
}

// TestKillSwitchStopsSalesInEveryProcess: terms and claims are refused, and what was claimed before is delivered.
func TestKillSwitchStopsSalesInEveryProcess(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{instances: 2})
	b := w.buyer()
	b.signIn()
	w.issuer.fault("open", "slow", 1, 2500)
	var claimed orderView
	b.buy("claimed").into(t, 200, &claimed)
	w.wantSwitch("card_issue", true, "1")
	other := w.buyer()
	for _, at := range w.instances {
		other.wantCardsPaused(at)
	}
	if w.balance(other.address) != 1_000_000_000 {
		t.Error("a paused purchase was paid")
	}
	b.awaitStatus(claimed.OrderID, "fulfilled")

	// Top-ups have a switch of their own.
	topUp := post("/api/card/topup", `{"idempotencyKey":"t"}`)
	wantStatus(t, "a top-up", w.send(topUp), http.StatusPaymentRequired)
	// A repeated action changes nothing; another one under its key is refused.
	w.wantSwitch("card_issue", true, "1")
	reused := w.operatorCall("POST", "/api/admin/switches/card_issue", `{"paused":false,"reason":"drill"}`, "1")
	if !reused.is(fault.IdempotencyKeyReused) {
		t.Errorf("another action with the key: %d %s", reused.status, reused.body)
	}
	w.wantSwitch("card_topup", true, "1")
	eventually(t, func() (bool, string) {
		a := w.send(topUp)
		return a.status == 503 && a.is(fault.TopupPaused), string(a.body)
	})
	w.wantSwitch("card_issue", false, "2")
	for _, at := range w.instances {
		eventually(t, func() (bool, string) {
			a := w.send(purchase("closed", "").on(at))
			return a.status == http.StatusPaymentRequired, string(a.body)
		})
	}
	w.wantSwitches(`[{"Product":"card_issue","Paused":false},{"Product":"card_topup","Paused":true},` +
		`{"Product":"esim","Paused":false},{"Product":"esim_topup","Paused":false},` +
		`{"Product":"provider.sandbox","Paused":false}]`)
	w.checkBooks()
}

// wantSwitch sets a switch and checks what the operator is told.
func (w *world) wantSwitch(product string, paused bool, key string) {
	w.t.Helper()
	var s struct {
		Product, Operator, Reason string
		Paused                    bool
	}
	body := fmt.Sprintf(`{"paused":%t,"reason":"drill"}`, paused)
	w.operatorCall("POST", "/api/admin/switches/"+product, body, key).into(w.t, 200, &s)
	if s.Product != product || s.Paused != paused || s.Operator != "ann" || s.Reason != "drill" {
		w.t.Errorf("switch %+v", s)
	}
}

// wantSwitches checks the list of all switches.
func (w *world) wantSwitches(want string) {
	w.t.Helper()
	var all struct {
		Switches []struct {
			Product string
			Paused  bool
		}
	}
	w.operatorCall("GET", "/api/admin/switches", "", "").into(w.t, 200, &all)
	if text, _ := json.Marshal(all.Switches); string(text) != want {
		w.t.Errorf("switches %s, want %s", text, want)
	}
}

// wantCardsPaused waits until an instance refuses the terms of a card, and checks that it then takes no payment.
func (b *buyer) wantCardsPaused(at *instance) {
	b.w.t.Helper()
	eventually(b.w.t, func() (bool, string) {
		a := b.w.send(purchase("closed", "").on(at))
		return a.status == 503 && a.is(fault.IssuePaused), fmt.Sprintf("%s: %d %s", at.url, a.status, a.body)
	})
	paid := b.w.send(purchase("closed", header(b.w.t, b.payment())).on(at))
	wantProblem(b.w.t, "a paid purchase at "+at.url, paid, 503, fault.IssuePaused)
	if !b.w.cardsPaused(at) {
		b.w.t.Errorf("the configuration at %s says that cards are sold", at.url)
	}
}

// cardsPaused is what the public configuration says of the sale of cards.
func (w *world) cardsPaused(at *instance) bool {
	w.t.Helper()
	var config struct{ Card struct{ IssuePaused bool } }
	w.send(get("/api/config").on(at)).into(w.t, 200, &config)
	return config.Card.IssuePaused
}

func TestOperatorCannotOverrideConfiguredPause(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) { c.IssuePaused = true }})
	w.setSwitch("card_issue", false, "1")
	wantProblem(t, "the terms", w.send(purchase("k", "")), 503, fault.IssuePaused)
	if !w.cardsPaused(nil) {
		t.Error("the configured pause is not shown")
	}
}
