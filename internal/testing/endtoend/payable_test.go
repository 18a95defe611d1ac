package endtoend_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	cardOrdersPath = "/api/card-issue/orders"
	ordersPath     = "/api/orders"
	aliasPath      = "/api/x402/pay/"
)

// unpaidOrder is the part of an open order that the tests look at.
type unpaidOrder struct {
	OrderID        string     `json:"orderId"`
	Kind           string     `json:"kind"`
	Status         string     `json:"status"`
	PayableURL     string     `json:"payable_url"`
	AmountUsdCents int64      `json:"amountUsdCents"`
	ExpiresAt      *time.Time `json:"expiresAt"`
}

// path is where the order is paid.
func (o unpaidOrder) path() string { return strings.TrimPrefix(o.PayableURL, origin) }

// createOrder opens an order; an empty key sends none.
func (b *buyer) createOrder(path, key, body string) unpaidOrder {
	b.w.t.Helper()
	r := post(path, body).with(b.bearer())
	if key != "" {
		r.header["Idempotency-Key"] = key
	}
	var o unpaidOrder
	b.w.send(r).into(b.w.t, 200, &o)
	return o
}

// payRequest is the request that pays at a path.
func payRequest(method, path, payment string) request {
	return request{method: method, path: path, header: map[string]string{x402.HeaderSignature: payment}}
}

// withAmount changes a payment's amount.
func withAmount(amount money.USDC) func(*x402.Payment) {
	return func(p *x402.Payment) { p.Accepted.Amount, p.Authorization.Value = amount.String(), amount }
}

func TestOrdersArePaidByAnyRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	if o.Kind != "card_issue" || o.Status != "payment_required" || o.AmountUsdCents != 2500 || o.PayableURL != origin+
		"/pay/"+o.OrderID ||
		o.ExpiresAt == nil || time.Until(*o.ExpiresAt) < 29*time.Minute || time.Until(*o.ExpiresAt) > 30*time.Minute {
		t.Fatalf("opened %+v", o)
	}
	if again := b.createOrder(cardOrdersPath, "", "{}"); again.OrderID != o.OrderID {
		t.Errorf("a second order %+v", again)
	}
	b.wantActive(o.OrderID)
	for _, r := range []request{{method: "GET", path: o.path()}, {path: o.path()}, {path: o.path(), body: "{}"},
		{method: "GET", path: aliasPath + o.OrderID}, {path: aliasPath + o.OrderID}} {
		terms := w.send(r).terms(t)
		if a := terms.Accepts[0]; a.Amount != "25000000" || a.PayTo != w.payTo.String() ||
			terms.Resource.URL != origin+r.path {
			t.Errorf("%s %s asks %+v", r.method, r.path, terms)
		}
	}
	b.payAndRepeat("GET", o.path(), o.OrderID, price())
	w.awaitSettled(30 * time.Second)
	b.wantActive()

	for _, step := range []struct {
		body  string
		cents money.Cents
		pay   func(o unpaidOrder, amount money.USDC)
	}{
		{"", 2500, func(o unpaidOrder, amount money.USDC) { b.payAndRepeat("POST", o.path(), o.OrderID, amount) }},
		{`{"amount":25.01}`, 2501,
			func(o unpaidOrder, amount money.USDC) { b.payAndRepeat("GET", aliasPath+o.OrderID, o.OrderID, amount) }},
		{`{"amount":"100.5","amountUsdCents":10050}`, 10050,
			func(o unpaidOrder, amount money.USDC) { b.payAndRepeat("POST", aliasPath+o.OrderID, o.OrderID, amount) }},
		{`{"amountUsdCents":25000}`, 25000, func(o unpaidOrder, amount money.USDC) {
			// a string always marshals
			body, _ := json.Marshal(map[string]string{"paymentSignature": header(t, b.payment(withAmount(amount)))})
			b.wantReceipt(b.post(ordersPath+"/"+o.OrderID+"/pay", string(body)), o.OrderID, amount)
		}},
	} {
		o := b.createOrder(ordersPath, "", step.body)
		if o.Kind != "card_topup" || o.AmountUsdCents != int64(step.cents) {
			t.Fatalf("%s opened %+v", step.body, o)
		}
		before := w.balance(w.payTo)
		step.pay(o, step.cents.USDC())
		if got := w.balance(w.payTo) - before; got != step.cents.USDC() {
			t.Errorf("%s moved %s", step.body, got)
		}
	}
	named := b.createOrder(ordersPath, "named", `{"resource":"`+origin+`/cards/mine?a=b"}`)
	if terms := w.send(get(named.path())).terms(t); terms.Resource.URL != origin+
		"/cards/mine?a=b" {
		t.Errorf("named %+v", terms.Resource)
	}
	tail := 2048 - len(origin+"/")
	longest := b.createOrder(ordersPath, "longest", `{"resource":"`+origin+`/`+strings.Repeat(`\u0061`, tail)+`"}`)
	if terms := w.send(get(longest.path())).terms(t); terms.Resource.URL != origin+"/"+
		strings.Repeat("a", tail) {
		t.Errorf("named at most length %+v", terms.Resource)
	}
	w.checkBooks()
}

// wantActive checks which of the buyer's orders are active.
func (b *buyer) wantActive(ids ...string) {
	b.w.t.Helper()
	var list struct{ Orders []unpaidOrder }
	b.get(ordersPath+"?status=active").into(b.w.t, 200, &list)
	var got []string
	for _, o := range list.Orders {
		got = append(got, o.OrderID)
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		b.w.t.Errorf("active orders are %v, want %v", got, ids)
	}
}

// terms is the challenge of a 402.
func (a answer) terms(t *testing.T) x402.PaymentRequired {
	t.Helper()
	if a.err != nil || a.status != http.StatusPaymentRequired || a.problem.Code != string(fault.PaymentRequired) {
		t.Fatalf("%d %v: %s", a.status, a.err, clipped(a.body))
	}
	terms, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	return terms
}

// payAndRepeat pays an order, and pays again with the same header and a new one, which changes nothing.
func (b *buyer) payAndRepeat(method, path, id string, amount money.USDC) {
	b.w.t.Helper()
	payment := header(b.w.t, b.payment(withAmount(amount)))
	first := b.wantReceipt(b.w.send(payRequest(method, path, payment)), id, amount)
	for _, again := range []string{payment, header(b.w.t, b.payment(withAmount(amount)))} {
		got := b.wantReceipt(b.w.send(payRequest(method, path, again)), id, amount)
		if !got.Replayed || got.Payment != first.Payment {
			b.w.t.Errorf("paid again: %+v, at first %+v", got, first)
		}
	}
}

// wantReceipt is the order of a 200 with its receipt.
func (b *buyer) wantReceipt(a answer, id string, amount money.USDC) paidOrder {
	b.w.t.Helper()
	var o paidOrder
	a.into(b.w.t, 200, &o)
	receipt, err := x402.DecodeSettlement(a.header.Get(x402.HeaderResponse))
	if err != nil || !receipt.Success || receipt.Transaction != o.Payment.Transaction || o.OrderID != id ||
		o.Payment.Amount != amount.String() ||
		o.Payment.Payer != b.address.String() || strings.Contains(string(a.body), "payable_url") {
		b.w.t.Errorf("receipt %+v (%v) of %s", receipt, err, clipped(a.body))
	}
	return o
}

// asPayRoute turns a refused purchase into the same payment for an order, at a path by a method.
func (c refusal) asPayRoute(method, path string) refusal {
	c.name = method + " " + path[:min(len(path), 8)] + ": " + c.name
	c.request = request{method: method, path: path, header: c.request.header}
	return c
}

// asSubmission turns a refused purchase into the same payment for an order, in a session.
func (c refusal) asSubmission(b *buyer, id string) refusal {
	// a string always marshals
	body, _ := json.Marshal(map[string]string{"paymentSignature": c.request.header[x402.HeaderSignature]})
	c.name, c.request = "submitted: "+c.name,
		post(ordersPath+"/"+id+"/pay", string(body)).with(b.bearer())
	if len(c.request.body) > 16<<10 {
		c.code = fault.SchemaInvalid
	}
	return c
}

// TestPayRoutesRefuseWhatPurchasesRefuse sends every payment that a purchase refuses to the pay routes.
func TestPayRoutesRefuseWhatPurchasesRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "k", "")
	routes := []func(refusal) refusal{
		func(c refusal) refusal { return c.asPayRoute("GET", o.path()) }, func(c refusal) refusal { return c.asPayRoute("POST", o.path()) },
		func(c refusal) refusal { return c.asPayRoute("GET", aliasPath+o.OrderID) },
		func(c refusal) refusal { return c.asSubmission(b, o.OrderID) },
	}
	var cases []refusal
	for i, c := range append(headerCases(t, b), rejectedCases(t, b)...) {
		if !torture() {
			cases = append(cases, routes[i%len(routes)](c))
			continue
		}
		for _, route := range routes {
			cases = append(cases, route(c))
		}
	}
	w.wantRefusals(cases)
	b.payAndRepeat("POST", o.path(), o.OrderID, price())
	w.checkBooks()
}

// TestOrderRoutesRefuseBadRequests is the table of the routes that open and pay orders: whose they are, what
// they cost, ids and bodies of all kinds.
func TestOrderRoutesRefuseBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b, stranger, poor := w.buyer(), w.buyer(), w.unfundedBuyer()
	b.buyCard("mine")
	for _, who := range []*buyer{stranger, poor} {
		who.signIn()
	}
	o, other := b.createOrder(ordersPath, "fund", `{"amount":40}`), poor.createOrder(cardOrdersPath, "poor", "")
	good := header(t, b.payment(withAmount(40_000_000)))
	var cases []refusal
	add := func(name string, r request, status int, code fault.Code) {
		cases = append(cases, refusal{name, r, status, code})
	}
	pay := ordersPath + "/" + o.OrderID + "/pay"
	signed := `{"paymentSignature":"` + good + `"}`

	for _, path := range []string{o.path(), aliasPath + o.OrderID} {
		for _, method := range []string{"GET", "POST"} {
			for name, payment := range map[string]string{
				"a stranger's":     header(t, stranger.payment(withAmount(40_000_000))),
				"another price":    header(t, b.payment()),
				"the cents for it": header(t, b.payment(withAmount(4000))),
			} {
				add(name+" payment by "+method+" "+path[:8], payRequest(method, path, payment), 402, fault.PaymentRejected)
			}
			add("a query by "+method, request{method: method, path: path + "?amount=1"}, 400, fault.SchemaInvalid)
		}
		for _, method := range []string{"PUT", "DELETE", "PATCH"} {
			add(method, request{method: method, path: path}, 405, fault.MethodNotAllowed)
		}
		for name, body := range map[string]string{"a member": `{"amount":1}`, "a key": `{"idempotencyKey":"x"}`,
			"null": "null", "a list": "[]", "a word": "x", "two objects": "{}{}", "blanks": "{ } ,"} {
			add("body "+name, post(path, body).with(payRequest("", "", good).header), 400, fault.SchemaInvalid)
		}
		add("an oversized body", post(path, "{"+strings.Repeat(" ", 5000)+"}"), 413, fault.BodyTooLarge)
		add("a body of text", post(path, "{}").with(map[string]string{"Content-Type": "text/plain"}), 415,
			fault.MediaTypeUnsupported)
	}
	add("a wallet without money", payRequest("GET", other.path(), header(t, poor.payment())), 402, fault.PaymentRejected)
	add("an owner without a card", post(ordersPath, "").with(stranger.bearer()), 409, fault.ActiveCardMissing)
	add("an owner with a card", post(cardOrdersPath, "").with(b.bearer()), 409, fault.CardAlreadyExists)
	for name, id := range map[string]string{
		"unknown": "ord_" + strings.Repeat("0", 44), "word": "x", "upper case": strings.ToUpper(o.OrderID),
		"with a blank": o.OrderID + "%20", "quote": "'%20OR%20'1'='1",
		"comment": "x';--", "like": "%25", "union": "x'%20UNION%20SELECT%201--", "escaped": o.OrderID + "%5C",
		"combining": o.OrderID + "%CC%81", "right to left": "%E2%80%AE" + o.OrderID,
		"full width": strings.Replace(o.OrderID, "ord", "%EF%BD%8Frd", 1),
		"zero width": o.OrderID + "%E2%80%8B", "another's with a line": o.OrderID + "%0A",
	} {
		add("id "+name, get("/pay/"+id), 404, fault.OrderNotFound)
		add("id "+name+", paid", payRequest("POST", aliasPath+id, good), 404, fault.OrderNotFound)
		add("id "+name+", submitted", post(ordersPath+"/"+id+"/pay", signed).with(b.bearer()), 404,
			fault.OrderNotFound)
	}
	for name, id := range map[string]string{"with NUL": "a%00b", "not UTF-8": "%ff", "too long": strings.Repeat("o", 65)} {
		add("id "+name, get("/pay/"+id), 400, fault.SchemaInvalid)
	}
	add("no id", get("/pay/"), 404, fault.RouteNotFound)
	add("a path in the id", get("/pay/a%2Fb"), 404, fault.OrderNotFound)

	add("a foreign order submitted", post(pay, signed).with(stranger.bearer()), 404, fault.OrderNotFound)
	for _, path := range []string{ordersPath, cardOrdersPath, pay} {
		add("no session "+path, post(path, ""), 401, fault.SessionInvalid)
		add("a wrong session "+path, post(path, "").with(map[string]string{"Authorization": "Bearer x"}), 401,
			fault.SessionInvalid)
	}
	for name, body := range map[string]string{
		"none": "", "empty": "{}", "empty payment": `{"paymentSignature":""}`, "number": `{"paymentSignature":1}`,
		"null": `{"paymentSignature":null}`, "unknown member": `{"paymentSignature":"x","amount":1}`,
		"its id": `{"paymentSignature":"x","orderId":"y"}`, "twice": `{"paymentSignature":"x","paymentSignature":"x"}`,
		"list": "[]", "snake case": `{"payment_signature":"x"}`,
	} {
		add("submitted body "+name, post(pay, body).with(b.bearer()), 400, fault.SchemaInvalid)
	}
	add("submitted, unreadable", post(pay, `{"paymentSignature":"x"}`).with(b.bearer()), 400,
		fault.PaymentMalformed)
	add("submitted, too large",
		post(pay, `{"paymentSignature":"`+strings.Repeat("A", 21<<10)+`"}`).with(b.bearer()), 413,
		fault.BodyTooLarge)
	add("submitted, a stranger's",
		post(pay, `{"paymentSignature":"`+header(t, stranger.payment(withAmount(40_000_000)))+`"}`).with(b.bearer()), 402, fault.PaymentRejected)
	w.wantRefusals(append(cases, createOrderCases(b)...))
	w.checkBooks()
}

// createOrderCases are orders that are not opened: A40, amounts, resources and keys.
func createOrderCases(b *buyer) []refusal {
	var cases []refusal
	bad := func(name, body string) {
		cases = append(cases,
			refusal{"open: " + name, post(ordersPath, body).with(b.bearer()), 400, fault.SchemaInvalid})
	}
	for _, amount := range []string{
		"0", "-25", "24.99", "250.01", "25.001", "25.0000000000000001", "250.00000000000000001", "2500", "1e3", "1e400",
		"null", "true", "[]", "{}", "[25]", `""`, `"25.001"`, `"25,00"`, `"$25"`, `"25 "`, `"+25"`,
		`"025"`, `"25."`, `".5"`, `"2.5e1"`, `"0x19"`, `"٢٥"`, `"24.99"`, `"250.01"`, `"NaN"`, `"` +
			strings.Repeat("9", 400) + `"`, strings.Repeat("9", 400),
	} {
		bad("amount "+amount[:min(len(amount), 24)], `{"amount":`+amount+`}`)
	}
	for _, cents := range []string{"0", "2499", "25001", "-2500", "2500.5", "25e2", `"2500"`, "null", "4294967296", "[]"} {
		bad("cents "+cents, `{"amountUsdCents":`+cents+`}`)
	}
	bad("amounts that differ", `{"amount":25,"amountUsdCents":2501}`)
	bad("amounts that differ, as text", `{"amount":"26.00","amountUsdCents":2500}`)
	host := strings.TrimPrefix(origin, "https://")
	for _, resource := range []string{
		"", "/pay", "pay", "//" + host + "/x", "http://" + host + "/x", "HTTPS:" + host, "https://" + host + ".evil.example/",
		"https://" + host + "@evil.example/", "https://user@" + host + "/", "https://" + host + ":8443/",
		"https://evil.example/?" + origin, "https://evil.example#" + origin, "javascript:alert(1)", "data:text/plain,x",
		"file:///etc/passwd", "ftp://" + host, origin + "/#x", origin + "/a b", origin + `\\@evil.example`, "https://",
		origin + "/" + strings.Repeat("a", 2048),
	} {
		encoded, _ := json.Marshal(map[string]string{"resource": resource}) // a string always marshals
		bad("resource "+resource[:min(len(resource), 40)], string(encoded))
	}
	bad("resource number", `{"resource":1}`)
	bad("resource too long, each character as two escapes", `{"resource":"`+strings.Repeat(`\ud99a\udf15`, 2049)+`"}`)
	bad("unknown member", `{"amount":25,"cardId":"x"}`)
	bad("snake case", `{"amount_usd_cents":2500}`)
	bad("twice", `{"amount":25,"amount":26}`)
	bad("list", `[]`)
	for _, path := range []string{ordersPath, cardOrdersPath} {
		for name, key := range map[string]string{"too long": strings.Repeat("k", 201), "not UTF-8": "\xff"} {
			h := b.bearer()
			h["Idempotency-Key"] = key
			cases = append(cases, refusal{path + ", key " + name, post(path, "").with(h), 400, fault.SchemaInvalid})
		}
	}
	h := b.bearer()
	h["Idempotency-Key"] = "fund"
	cases = append(cases,
		refusal{"open: key of another amount", post(ordersPath, `{"amount":41}`).with(h), 409,
			fault.IdempotencyKeyReused},
		refusal{"open: key of another resource",
			post(ordersPath, `{"amount":40,"resource":"`+origin+`/x"}`).with(h), 409,
			fault.IdempotencyKeyReused})
	cases = append(cases,
		refusal{"open: a card order with a body", post(cardOrdersPath, `{"amount":25}`).with(b.bearer()), 400,
			fault.SchemaInvalid})
	return cases
}

func TestUnpaidOrdersExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "k", "")
	payment := header(t, b.payment())
	if _, err := w.db.Exec(context.WithoutCancel(t.Context()),
		"UPDATE orders SET expires_at = now() - interval '1 second' WHERE id = $1", o.OrderID); err != nil {
		t.Fatal(err)
	}
	b.wantActive()
	refused := func() {
		t.Helper()
		for name, r := range map[string]request{
			"asked": {method: "GET", path: o.path()}, "paid": payRequest("POST", o.path(), payment),
			"bought by its key": purchase("k", payment),
			"submitted": {path: ordersPath + "/" + o.OrderID + "/pay", body: `{"paymentSignature":"` + payment + `"}`,
				header: b.bearer()},
		} {
			wantProblem(t, name, w.send(r), 409, fault.OrderNotPayable)
		}
	}
	refused()
	eventually(t, 40*time.Second, func() (bool, string) {
		e := w.orders()
		return len(e) == 1 && e[0].status == "expired" && e[0].reason == "not paid in time", "orders " + e[0].status
	})
	refused()
	var shown unpaidOrder
	b.get(ordersPath+"/"+o.OrderID).into(t, 200, &shown)
	if shown.Status != "expired" || shown.PayableURL != "" {
		t.Errorf("shown as %+v", shown)
	}
	if n := len(w.transfers()); n != 0 {
		t.Errorf("%d transfers", n)
	}
	if next := b.createOrder(cardOrdersPath, "", ""); next.OrderID == o.OrderID {
		t.Error("no new order after the old one expired")
	}
	w.checkBooks()
}

func TestNoOrderIsCreatedWhileSalesAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b, owner := w.buyer(), w.buyer()
	b.signIn()
	owner.buyCard("mine")
	w.issuer.call("POST", "float", map[string]any{"cents": 2449})
	refused := func(who *buyer, path string, code fault.Code) {
		t.Helper()
		eventually(t, 10*time.Second, func() (bool, string) {
			a := who.post(path, "")
			return a.status == 503 && a.problem.Code == string(code), string(a.body)
		})
	}
	refused(b, cardOrdersPath, fault.FloatUnavailable)
	before := len(w.orders()) // by the stock of a moment ago one may have been opened
	refused(owner, ordersPath, fault.FloatUnavailable)
	closed := w.config
	closed.IssuePaused, closed.TopupPaused = true, true
	w.instances = nil
	w.start(closed)
	refused(b, cardOrdersPath, fault.IssuePaused)
	refused(owner, ordersPath, fault.TopupPaused)
	if n := len(w.orders()); n != before {
		t.Errorf("%d orders, want %d", n, before)
	}
}
