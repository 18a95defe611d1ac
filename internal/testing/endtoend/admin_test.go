package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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
		t.Errorf("life %s", text)
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
		"the payment's signature": fmt.Sprintf("%x", pay.Signature[:32]),
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
	w.operatorCall("POST", path, `{"action":"retry","reason":"the issuer says it is mended"}`, "1").into(t, 200, nil)
	eventually(t, 20*time.Second, func() (bool, string) {
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
	if i < 0 || l.Timeline[i].Reason != "the issuer says it is mended" {
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
// leaves the books at peace, though the issuer has no load of ours for it.
func TestOperatorDecidesRefusedTopUp(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.buyCard("card")
	for _, action := range []string{"retry", "fulfilled"} {
		w.issuer.fault("move", "refused", 1, 0)
		var o orderView
		b.topUp(action, 3333).into(t, 200, &o)
		b.awaitStatus(o.OrderID, "operator_review")
		w.operatorCall("POST", "/api/admin/orders/"+o.OrderID+"/decide", `{"action":"`+action+`","reason":"decided"}`, action).into(t,
			200, nil)
		b.awaitStatus(o.OrderID, "fulfilled")
		w.wantFindings(action)
	}
}

// TestOperatorRoutesRefuseBadRequests changes nothing by any of it.
func TestOperatorRoutesRefuseBadRequests(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.signIn()
	var o orderView
	b.buy("k~002").into(t, 200, &o)
	b.awaitStatus(o.OrderID, "operator_review")
	operator := "Bearer " + operatorToken
	decide, toggle := "/api/admin/orders/"+o.OrderID+"/decide", "/api/admin/switches/card_issue"
	var cases refusals
	add := func(name, method, path, body, token, key string, status int, code fault.Code) {
		h := map[string]string{"Authorization": token}
		if key != "" {
			h["Idempotency-Key"] = key
		}
		cases = append(cases, refusal{name, request{method: method, path: path, body: body, header: h}, status, code})
	}
	for name, token := range map[string]string{
		"nobody":        "",
		"a buyer":       "Bearer " + b.token,
		"another token": "Bearer rco_x",
		"basic":         "Basic " + operatorToken,
	} {
		for _, r := range [][3]string{{"GET", "/api/admin/orders", ""}, {"GET", "/api/admin/orders/" + o.OrderID, ""},
			{"GET", "/api/admin/switches", ""},
			{"POST", decide, `{"action":"retry","reason":"r"}`}, {"POST", toggle, `{"paused":true,"reason":"r"}`}} {
			add(name+": "+r[0]+" "+r[1], r[0], r[1], r[2], token, "k", 401, fault.OperatorTokenInvalid)
		}
	}
	for name, body := range map[string]string{
		"no action":             `{"reason":"r"}`,
		"no reason":             `{"action":"retry"}`,
		"empty reason":          `{"action":"retry","reason":""}`,
		"long reason":           `{"action":"retry","reason":"` + strings.Repeat("r", 501) + `"}`,
		"another action":        `{"action":"delete","reason":"r"}`,
		"unknown member":        `{"action":"retry","reason":"r","amount":1}`,
		"twice":                 `{"action":"retry","action":"refund","reason":"r"}`,
		"empty":                 ``,
		"a list":                `[]`,
		"the order in the body": `{"orderId":"ord_x","action":"retry","reason":"r"}`,
	} {
		add("decide, "+name, "POST", decide, body, operator, "k", 400, fault.SchemaInvalid)
	}
	for name, body := range map[string]string{
		"no paused":   `{"reason":"r"}`,
		"no reason":   `{"paused":true}`,
		"text":        `{"paused":"true","reason":"r"}`,
		"number":      `{"paused":1,"reason":"r"}`,
		"null":        `{"paused":null,"reason":"r"}`,
		"long reason": `{"paused":true,"reason":"` + strings.Repeat("r", 501) + `"}`,
	} {
		add("switch, "+name, "POST", toggle, body, operator, "k", 400, fault.SchemaInvalid)
	}
	add("switch of nothing", "POST", "/api/admin/switches/cards", `{"paused":true,"reason":"r"}`, operator, "k", 400,
		fault.SchemaInvalid)
	add("decide without key", "POST", decide, `{"action":"retry","reason":"r"}`, operator, "", 400,
		fault.IdempotencyKeyMissing)
	add("switch without key", "POST", toggle, `{"paused":true,"reason":"r"}`, operator, "", 400,
		fault.IdempotencyKeyMissing)
	add("key too long", "POST", decide, `{"action":"retry","reason":"r"}`, operator, strings.Repeat("k", 201), 400,
		fault.SchemaInvalid)
	add("no such order", "POST", "/api/admin/orders/ord_x/decide", `{"action":"retry","reason":"r"}`, operator, "k", 404,
		fault.OrderNotFound)
	add("no such order to see", "GET", "/api/admin/orders/ord_x", "", operator, "", 404, fault.OrderNotFound)
	add("another status", "GET", "/api/admin/orders?status=lost", "", operator, "", 400, fault.SchemaInvalid)
	add("page of 101", "GET", "/api/admin/orders?pageSize=101", "", operator, "", 400, fault.SchemaInvalid)
	w.wantRefusals(cases)
	var status string
	var changed int
	err := w.db.QueryRow(context.WithoutCancel(t.Context()), `SELECT (SELECT status FROM orders),
		(SELECT count(*) FROM kill_switches) + (SELECT count(*) FROM audit WHERE idempotency_key <> '')`).Scan(&status,
		&changed)
	if err != nil || status != "operator_review" || changed != 0 {
		t.Errorf("the order is %s, %d things changed, %v", status, changed, err)
	}
	w.checkBooks()
}

// TestKillSwitchStopsSalesInEveryProcess: challenge and claim are refused, what is claimed goes on, and
// the configuration's pause is not overruled.
func TestKillSwitchStopsSalesInEveryProcess(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{instances: 2})
	b := w.buyer()
	b.signIn()
	w.issuer.fault("open", "slow", 1, 2500)
	var claimed orderView
	b.buy("claimed").into(t, 200, &claimed)

	set := func(product string, paused bool, key string) {
		t.Helper()
		var s struct {
			Product, Operator, Reason string
			Paused                    bool
		}
		w.operatorCall("POST", "/api/admin/switches/"+product, fmt.Sprintf(`{"paused":%t,"reason":"drill"}`, paused), key).into(t, 200,
			&s)
		if s.Product != product || s.Paused != paused || s.Operator != "ann" || s.Reason != "drill" {
			t.Errorf("switch %+v", s)
		}
	}
	set("card_issue", true, "1")
	other := w.buyer()
	var config struct{ Card struct{ IssuePaused bool } }
	for n, at := range w.instances {
		eventually(t, 5*time.Second, func() (bool, string) {
			r := purchase("closed", "").on(at)
			a := w.send(r)
			return a.status == 503 && a.is(fault.IssuePaused),
				fmt.Sprintf("instance %d: %d %s", n, a.status, a.body)
		})
		r := purchase("closed", header(t, other.payment())).on(at)
		wantProblem(t, fmt.Sprintf("a paid purchase on instance %d", n), w.send(r), 503, fault.IssuePaused)
		w.send(get("/api/config").on(at)).into(t, 200, &config)
		if !config.Card.IssuePaused {
			t.Errorf("instance %d says that cards are sold", n)
		}
	}
	if w.balance(other.address) != 1_000_000_000 {
		t.Error("a paused purchase was paid")
	}
	b.awaitStatus(claimed.OrderID, "fulfilled")
	// Top-ups have a switch of their own; a repeated act changes nothing, another with its key is refused.
	wantStatus(t, "a top-up", w.send(post("/api/card/topup", `{"idempotencyKey":"t"}`)), http.StatusPaymentRequired)
	set("card_issue", true, "1")
	if a := w.operatorCall("POST", "/api/admin/switches/card_issue", `{"paused":false,"reason":"drill"}`,
		"1"); !a.is(fault.IdempotencyKeyReused) {
		t.Errorf("another act with the key: %d %s", a.status, a.body)
	}
	set("card_topup", true, "1")
	eventually(t, 5*time.Second, func() (bool, string) {
		a := w.send(post("/api/card/topup", `{"idempotencyKey":"t"}`))
		return a.status == 503 && a.is(fault.TopupPaused), string(a.body)
	})
	set("card_issue", false, "2")
	for _, at := range w.instances {
		eventually(t, 5*time.Second, func() (bool, string) {
			r := purchase("closed", "").on(at)
			a := w.send(r)
			return a.status == http.StatusPaymentRequired, string(a.body)
		})
	}
	var all struct {
		Switches []struct {
			Product string
			Paused  bool
		}
	}
	w.operatorCall("GET", "/api/admin/switches", "", "").into(t, 200, &all)
	if text, _ := json.Marshal(all.Switches); string(text) != `[{"Product":"card_issue","Paused":false},`+
		`{"Product":"card_topup","Paused":true},{"Product":"esim","Paused":false}]` {
		t.Errorf("switches %s", text)
	}
	w.checkBooks()
}

func TestOperatorCannotOverrideConfiguredPause(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) { c.IssuePaused = true }})
	w.setSwitch("card_issue", false, "1")
	wantProblem(t, "the answer", w.send(purchase("k", "")), 503, fault.IssuePaused)
	var config struct{ Card struct{ IssuePaused bool } }
	w.send(get("/api/config")).into(t, 200, &config)
	if !config.Card.IssuePaused {
		t.Error("the configuration's pause is not shown")
	}
}
