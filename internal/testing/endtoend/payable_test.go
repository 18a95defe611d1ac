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

// createOrder creates an order; an empty key sends none.
func (b *buyer) createOrder(path, key, body string) unpaidOrder {
	b.w.t.Helper()
	r := post(path, body).as(b)
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

// lasting lets a payment outlast the test on a slow machine: whether one that has just expired was used is unknown.
func lasting(p *x402.Payment) {
	p.Authorization.ValidBefore = uint64(time.Now().Add(10 * time.Minute).Unix())
}

func TestOrdersArePaidByAnyRoute(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
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
	w.awaitSettled()
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
	if a.err != nil || a.status != http.StatusPaymentRequired || !a.is(fault.PaymentRequired) {
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
	first := b.wantReceipt(b.w.send(payRequest(method, path, payment)).settled(), id, amount)
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
		post(ordersPath+"/"+id+"/pay", string(body)).as(b)
	if len(c.request.body) > 16<<10 {
		c.code = fault.SchemaInvalid
	}
	return c
}

// TestPayRoutesRefuseWhatPurchasesRefuse sends every payment that a purchase refuses to the pay routes.
func TestPayRoutesRefuseWhatPurchasesRefuse(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "k", "")
	routes := []func(refusal) refusal{
		func(c refusal) refusal { return c.asPayRoute("GET", o.path()) },
		func(c refusal) refusal { return c.asPayRoute("POST", o.path()) },
		func(c refusal) refusal { return c.asPayRoute("GET", aliasPath+o.OrderID) },
		func(c refusal) refusal { return c.asSubmission(b, o.OrderID) },
	}
	var cases refusals
	for i, c := range append(rejectedCases(t, b), headerCases(t, b)...) {
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

// orderCases are requests about two open orders: a top-up of 40 dollars of an owner with a card, and a card of a wallet
// without money.
type orderCases struct {
	t                     *testing.T
	owner, stranger, poor *buyer
	topUp, poorOrder      unpaidOrder
	// payment is a good one for the top-up.
	payment string
	all     refusals
}

const topUpAmount money.USDC = 40_000_000

// TestOrderRoutesRefuseBadRequests covers the routes that create and pay orders: wrong callers, prices, ids and bodies.
func TestOrderRoutesRefuseBadRequests(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	c := &orderCases{t: t, owner: w.buyer(), stranger: w.buyer(), poor: w.unfundedBuyer()}
	c.owner.buyCard("mine")
	c.stranger.signIn()
	c.poor.signIn()
	c.topUp = c.owner.createOrder(ordersPath, "fund", `{"amount":40}`)
	c.poorOrder = c.poor.createOrder(cardOrdersPath, "poor", "")
	c.payment = header(t, c.owner.payment(withAmount(topUpAmount)))

	c.addPayRoutes()
	c.addOwners()
	c.addIDs()
	c.addSubmissions()
	c.addAmounts()
	c.addResources()
	c.addKeys()
	w.wantRefusals(c.all)
	w.checkBooks()
}

// addPayRoutes adds wrong payments, methods, queries and bodies at the order's own addresses.
func (c *orderCases) addPayRoutes() {
	payments := map[string]string{
		"a stranger's":     header(c.t, c.stranger.payment(withAmount(topUpAmount), lasting)),
		"another price":    header(c.t, c.owner.payment(lasting)),
		"the cents for it": header(c.t, c.owner.payment(withAmount(4000), lasting)),
	}
	bodies := map[string]string{
		"a member":    `{"amount":1}`,
		"a key":       `{"idempotencyKey":"x"}`,
		"null":        "null",
		"a list":      "[]",
		"a word":      "x",
		"two objects": "{}{}",
		"blanks":      "{ } ,",
	}
	for _, path := range []string{c.topUp.path(), aliasPath + c.topUp.OrderID} {
		for _, method := range []string{"GET", "POST"} {
			for name, payment := range payments {
				r := payRequest(method, path, payment)
				code := fault.PaymentRejected
				if name == "a stranger's" {
					code = fault.WrongPayer
				}
				c.all.add(name+" payment by "+method+" "+path[:8], r, 402, code)
			}
			r := request{method: method, path: path + "?amount=1"}
			c.all.add("a query by "+method, r, 400, fault.SchemaInvalid)
		}
		for _, method := range []string{"PUT", "DELETE", "PATCH"} {
			c.all.add(method, request{method: method, path: path}, 405, fault.MethodNotAllowed)
		}
		for name, body := range bodies {
			c.all.add("body "+name, post(path, body).paying(c.payment), 400, fault.SchemaInvalid)
		}
		oversized := post(path, "{"+strings.Repeat(" ", 5000)+"}")
		c.all.add("an oversized body", oversized, 413, fault.BodyTooLarge)
		text := post(path, "{}").withHeader("Content-Type", "text/plain")
		c.all.add("a body of text", text, 415, fault.MediaTypeUnsupported)
	}
}

// addOwners adds callers who may not create or pay the order that they ask for.
func (c *orderCases) addOwners() {
	unfunded := payRequest("GET", c.poorOrder.path(), header(c.t, c.poor.payment()))
	c.all.add("a wallet without money", unfunded, 402, fault.PaymentRejected)
	c.all.add("an owner without a card", post(ordersPath, "").as(c.stranger), 409, fault.ActiveCardMissing)
	c.all.add("an owner with a card", post(cardOrdersPath, "").as(c.owner), 409, fault.CardAlreadyExists)
	submission := post(c.submitPath(), paymentBody(c.payment)).as(c.stranger)
	c.all.add("a foreign order submitted", submission, 404, fault.OrderNotFound)
	for _, path := range []string{ordersPath, cardOrdersPath, c.submitPath()} {
		c.all.add("no session "+path, post(path, ""), 401, fault.SessionInvalid)
		wrong := post(path, "").withHeader("Authorization", "Bearer x")
		c.all.add("a wrong session "+path, wrong, 401, fault.SessionInvalid)
	}
}

// addIDs adds ids that name no order, or none at all.
func (c *orderCases) addIDs() {
	id := c.topUp.OrderID
	for name, id := range map[string]string{
		"unknown":               "ord_" + strings.Repeat("0", 44),
		"word":                  "x",
		"upper case":            strings.ToUpper(id),
		"with a blank":          id + "%20",
		"quote":                 "'%20OR%20'1'='1",
		"comment":               "x';--",
		"like":                  "%25",
		"union":                 "x'%20UNION%20SELECT%201--",
		"escaped":               id + "%5C",
		"combining":             id + "%CC%81",
		"right to left":         "%E2%80%AE" + id,
		"full width":            strings.Replace(id, "ord", "%EF%BD%8Frd", 1),
		"zero width":            id + "%E2%80%8B",
		"another's with a line": id + "%0A",
	} {
		c.all.add("id "+name, get("/pay/"+id), 404, fault.OrderNotFound)
		c.all.add("id "+name+", paid", payRequest("POST", aliasPath+id, c.payment), 404, fault.OrderNotFound)
		submission := post(ordersPath+"/"+id+"/pay", paymentBody(c.payment)).as(c.owner)
		c.all.add("id "+name+", submitted", submission, 404, fault.OrderNotFound)
	}
	for name, id := range map[string]string{
		"with NUL":  "a%00b",
		"not UTF-8": "%ff",
		"too long":  strings.Repeat("o", 65),
	} {
		c.all.add("id "+name, get("/pay/"+id), 400, fault.SchemaInvalid)
	}
	c.all.add("no id", get("/pay/"), 404, fault.RouteNotFound)
	c.all.add("a path in the id", get("/pay/a%2Fb"), 404, fault.OrderNotFound)
}

// addSubmissions adds bodies of the route that takes a payment in a session.
func (c *orderCases) addSubmissions() {
	submit := func(name, body string, status int, code fault.Code) {
		c.all.add(name, post(c.submitPath(), body).as(c.owner), status, code)
	}
	for name, body := range map[string]string{
		"none":           "",
		"empty":          "{}",
		"empty payment":  `{"paymentSignature":""}`,
		"number":         `{"paymentSignature":1}`,
		"null":           `{"paymentSignature":null}`,
		"unknown member": `{"paymentSignature":"x","amount":1}`,
		"its id":         `{"paymentSignature":"x","orderId":"y"}`,
		"twice":          `{"paymentSignature":"x","paymentSignature":"x"}`,
		"list":           "[]",
		"snake case":     `{"payment_signature":"x"}`,
	} {
		submit("submitted body "+name, body, 400, fault.SchemaInvalid)
	}
	submit("submitted, unreadable", paymentBody("x"), 400, fault.PaymentMalformed)
	submit("submitted, too large", paymentBody(strings.Repeat("A", 21<<10)), 413, fault.BodyTooLarge)
	foreign := header(c.t, c.stranger.payment(withAmount(topUpAmount)))
	submit("submitted, a stranger's", paymentBody(foreign), 402, fault.WrongPayer)
}

func (c *orderCases) submitPath() string { return ordersPath + "/" + c.topUp.OrderID + "/pay" }

// paymentBody is the body that submits a payment.
func paymentBody(payment string) string { return `{"paymentSignature":` + jsonText(payment) + `}` }

// create adds a body with which no order is created.
func (c *orderCases) create(name, body string) {
	c.all.add("open: "+name, post(ordersPath, body).as(c.owner), 400, fault.SchemaInvalid)
}

// addAmounts adds amounts outside the limits, more precise than a cent, or not numbers.
func (c *orderCases) addAmounts() {
	nines := strings.Repeat("9", 400)
	for _, amount := range []string{
		"0", "-25", "24.99", "250.01", "25.001", "25.0000000000000001", "250.00000000000000001", "2500", "1e3", "1e400",
		"null", "true", "[]", "{}", "[25]", `""`, `"25.001"`, `"25,00"`, `"$25"`, `"25 "`, `"+25"`,
		`"025"`, `"25."`, `".5"`, `"2.5e1"`, `"0x19"`, `"٢٥"`, `"24.99"`, `"250.01"`, `"NaN"`, `"` + nines + `"`, nines,
	} {
		c.create("amount "+amount[:min(len(amount), 24)], `{"amount":`+amount+`}`)
	}
	for _, cents := range []string{
		"0", "2499", "25001", "-2500", "2500.5", "25e-2", `"2500"`, "null", "4294967296", "[]",
	} {
		c.create("cents "+cents, `{"amountUsdCents":`+cents+`}`)
	}
	c.create("amounts that differ", `{"amount":25,"amountUsdCents":2501}`)
	c.create("amounts that differ, as text", `{"amount":"26.00","amountUsdCents":2500}`)
}

// addResources adds resources that are no URL of the service (attack A40), and bodies of another shape.
func (c *orderCases) addResources() {
	host := strings.TrimPrefix(origin, "https://")
	for _, resource := range []string{
		"", "/pay", "pay", "//" + host + "/x", "http://" + host + "/x", "HTTPS:" + host, "https://" + host + ".evil.example/",
		"https://" + host + "@evil.example/", "https://user@" + host + "/", "https://" + host + ":8443/",
		"https://evil.example/?" + origin, "https://evil.example#" + origin, "javascript:alert(1)", "data:text/plain,x",
		"file:///etc/passwd", "ftp://" + host, origin + "/#x", origin + "/a b", origin + `\\@evil.example`, "https://",
		origin + "/" + strings.Repeat("a", 2048),
	} {
		c.create("resource "+resource[:min(len(resource), 40)], `{"resource":`+jsonText(resource)+`}`)
	}
	c.create("resource number", `{"resource":1}`)
	tooLong := strings.Repeat(`\ud99a\udf15`, 2049)
	c.create("resource too long, each character as two escapes", `{"resource":"`+tooLong+`"}`)
	c.create("unknown member", `{"amount":25,"cardId":"x"}`)
	c.create("snake case", `{"amount_usd_cents":2500}`)
	c.create("twice", `{"amount":25,"amount":26}`)
	c.create("list", `[]`)
	withBody := post(cardOrdersPath, `{"amount":25}`).as(c.owner)
	c.all.add("open: a card order with a body", withBody, 400, fault.SchemaInvalid)
}

// addKeys adds idempotency keys that are malformed or belong to another order.
func (c *orderCases) addKeys() {
	for _, path := range []string{ordersPath, cardOrdersPath} {
		for name, key := range map[string]string{"too long": strings.Repeat("k", 201), "not UTF-8": "\xff"} {
			r := post(path, "").as(c.owner).withHeader("Idempotency-Key", key)
			c.all.add(path+", key "+name, r, 400, fault.SchemaInvalid)
		}
	}
	reuse := func(name, body string) {
		r := post(ordersPath, body).as(c.owner).withHeader("Idempotency-Key", "fund")
		c.all.add("open: key of another "+name, r, 409, fault.IdempotencyKeyReused)
	}
	reuse("amount", `{"amount":41}`)
	reuse("resource", `{"amount":40,"resource":"`+origin+`/x"}`)
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
			"asked":             {method: "GET", path: o.path()},
			"paid":              payRequest("POST", o.path(), payment),
			"bought by its key": purchase("k", payment),
			"submitted": {path: ordersPath + "/" + o.OrderID + "/pay", body: `{"paymentSignature":"` + payment + `"}`,
				header: b.bearer()},
		} {
			wantProblem(t, name, w.send(r), 409, fault.OrderNotPayable)
		}
	}
	refused()
	eventually(t, func() (bool, string) {
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
	w.issuer.setFloat(2449)
	refused := func(who *buyer, path string, code fault.Code) {
		t.Helper()
		eventually(t, func() (bool, string) {
			a := who.post(path, "")
			return a.status == 503 && a.is(code), string(a.body)
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
