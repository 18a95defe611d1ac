package endtoend_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/google/uuid"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// behindProxy is a world at the default limits, except that those of an address are refilled by the hour: a slow
// machine must not earn new ones while it counts. The test is its proxy, and says where its callers are.
func behindProxy(c *app.Config) {
	c.Limits, c.MaxUnpaid = limit.Defaults(), 20
	for _, class := range []limit.Class{limit.Unpaid, limit.PaidAddress} {
		c.Limits[class] = limit.Rate{Count: c.Limits[class].Count, Per: time.Hour}
	}
	c.MaxConns, c.MaxConnsPerAddress, c.MaxRequests = 8192, 256, 10000
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// fromIP is the request as it comes from an address.
func (r request) fromIP(address string) request {
	header := map[string]string{"X-Forwarded-For": address}
	for name, value := range r.header {
		if value != "" {
			header[name] = value
		}
	}
	header["X-Forwarded-For"] = address
	r.header = header
	return r
}

// countAllowed is how many of some requests are let by; each refusal must be told as one.
func (w *world) countAllowed(requests []request) (n int) {
	w.t.Helper()
	for _, r := range requests {
		a := w.send(r)
		if a.err != nil || a.status >= 500 {
			w.t.Fatalf("%s %s: %d %v %s", r.method, r.path, a.status, a.err, clipped(a.body))
		}
		if a.status != 429 {
			n++
			continue
		}
		if a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), string(fault.RateLimited)) {
			w.t.Errorf("%s %s is refused with %v %s", r.method, r.path, a.header, clipped(a.body))
		}
	}
	return n
}

func copies(n int, r request) []request {
	all := make([]request, n)
	for i := range all {
		all[i] = r
	}
	return all
}

const tooMany = 75

// wantUnpaidLimit fails when more requests were allowed than a rate of 60 a minute explains, or so few that another
// limit must have applied.
func wantUnpaidLimit(t *testing.T, what string, let int) {
	t.Helper()
	if let < 58 || let > 65 {
		t.Errorf("%s: %d of %d were let by", what, let, tooMany)
	}
}

// TestInvalidPaymentsCountAsUnpaidRequests sends what is no payment to every route that asks for one.
func TestInvalidPaymentsCountAsUnpaidRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: behindProxy})
	owner := w.buyer()
	owner.clientIP = "10.0.0.1"
	owner.signIn()
	o := owner.createOrder(cardOrdersPath, "", "")
	n := 0
	next := func() string { n++; return fmt.Sprintf("10.1.0.%d", n) }

	for name, r := range invalidPayments(owner, o) {
		let := w.countAllowed(copies(tooMany, r.fromIP(next())))
		if name == "a tool" {
			// JSON-RPC answers 200 whatever the tool says.
			if a := w.send(r.fromIP(fmt.Sprintf("10.1.0.%d", n))); !strings.Contains(string(a.body), string(fault.RateLimited)) {
				t.Errorf("%s: %d %s", name, a.status, clipped(a.body))
			}
			continue
		}
		wantUnpaidLimit(t, name, let)
	}
	forged := owner.payment()
	forged.Signature = w.unfundedBuyer().payment().Signature
	for name, payment := range map[string]string{
		"base64 of nothing": base64.StdEncoding.EncodeToString([]byte("{}")),
		"another scheme": alteredHeader(t, owner.payment(),
			func(m, _ map[string]any) { object(m, "accepted")["scheme"] = "upto" }),
		"another payee": header(t, owner.payment(func(p *x402.Payment) { p.Authorization.To = owner.address })),
		"a forged one":  header(t, forged),
		"17 KiB":        strings.Repeat("x", 17<<10),
	} {
		wantUnpaidLimit(t, name, w.countAllowed(copies(tooMany, purchase("k", payment).fromIP(next()))))
	}
	// None of this touches who pays from there.
	other := w.buyer()
	w.send(purchase("paid", header(t, other.payment())).fromIP("10.1.0.1")).into(t, 200, nil)
	w.awaitSettled()
	w.checkBooks()
}

// invalidPayments are requests without a payment for every route that asks for one.
func invalidPayments(owner *buyer, o unpaidOrder) map[string]request {
	garbage := map[string]string{x402.HeaderSignature: "x"}
	rpc := "/roamcard.v1."
	return map[string]request{
		"card":             {path: purchasePath, body: purchaseBody("k"), header: garbage},
		"card, a bad body": {path: purchasePath, body: "{}", header: garbage},
		"card, no JSON": {path: purchasePath, body: "{}",
			header: map[string]string{x402.HeaderSignature: "x", "Content-Type": "text/plain"}},
		"card, Connect":   {path: rpc + "CardService/PurchaseCard", body: purchaseBody("k"), header: garbage},
		"top-up":          {path: "/api/card/topup", body: purchaseBody("k"), header: garbage},
		"top-up, Connect": {path: rpc + "CardService/TopUpCard", body: purchaseBody("k"), header: garbage},
		"eSIM":            {path: esimPath, body: purchaseBody("k"), header: garbage},
		"eSIM, Connect":   {path: rpc + "EsimService/PurchaseEsim", body: purchaseBody("k"), header: garbage},
		"order":           {path: o.path(), header: garbage},
		"order, GET":      {method: "GET", path: o.path(), header: garbage},
		"alias":           {path: aliasPath + o.OrderID, header: garbage},
		"alias, GET":      {method: "GET", path: aliasPath + o.OrderID, header: garbage},
		"order, Connect": {path: rpc + "OrderService/PayOrder", body: `{"orderId":` + jsonText(o.OrderID) + `}`,
			header: garbage},
		"own order": {path: ordersPath + "/" + o.OrderID + "/pay", body: `{"paymentSignature":"x"}`, header: owner.bearer()},
		"own order, Connect": {path: rpc + "OrderService/SubmitPayment", header: owner.bearer(),
			body: `{"orderId":` + jsonText(o.OrderID) + `,"paymentSignature":"x"}`},
		"a tool": {path: "/mcp",
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_payable_url","arguments":{"orderId":` +
				jsonText(o.OrderID) + `}}}`,
			header: map[string]string{"Host": "cards.example"}},
	}
}

// unfundedPurchase is a purchase by a new wallet without money.
func (w *world) unfundedPurchase(i int) request {
	w.t.Helper()
	return purchase(fmt.Sprint("k", i), header(w.t, w.unfundedBuyer().payment()))
}

// TestUnfundedWalletsAreLimitedByAddress signs with a new wallet each time, and with one over and over.
func TestUnfundedWalletsAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: behindProxy})
	flood := make([]request, tooMany)
	for i := range flood {
		flood[i] = w.unfundedPurchase(i).fromIP("10.2.0.1")
	}
	wantUnpaidLimit(t, "a wallet each", w.countAllowed(flood))
	for i := range flood {
		// Each address of a network is another one, to a careless eye.
		flood[i] = w.unfundedPurchase(i).fromIP(fmt.Sprintf("2001:db8:1:2::%x", i+1))
	}
	wantUnpaidLimit(t, "a network of addresses", w.countAllowed(flood))
	for i := range flood {
		// What a client says of itself is not believed: the proxy adds what it sees.
		flood[i] = w.unfundedPurchase(i).fromIP(fmt.Sprintf("10.9.9.%d, 10.2.0.3", i+1))
	}
	wantUnpaidLimit(t, "a made-up address", w.countAllowed(flood))
	once := purchase("k", header(t, w.unfundedBuyer().payment())).fromIP("10.2.0.2")
	wantUnpaidLimit(t, "one signature", w.countAllowed(copies(tooMany, once)))
	// The same for an order that its owner has opened.
	b := w.unfundedBuyer()
	b.clientIP = "10.2.0.4"
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	wantUnpaidLimit(t, "one signature for an order",
		w.countAllowed(copies(tooMany, payRequest("POST", o.path(), header(t, b.payment())).fromIP("10.2.0.4"))))
}

// TestRetryIsAnsweredWhenLimitsAreExhausted repeats a purchase from an address that has used up all rates.
func TestRetryIsAnsweredWhenLimitsAreExhausted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: behindProxy})
	b := w.buyer()
	payment := header(t, b.payment())
	var first paidOrder
	w.send(purchase("mine", payment).fromIP("10.3.0.1")).into(t, 200, &first)
	for _, i := range w.instances {
		exhaust := []request{}
		for n := range 70 {
			flood := purchase(fmt.Sprint("k", n), header(t, w.unfundedBuyer().payment())).fromIP("10.3.0.1").on(i)
			garbage := purchase("k", "x").fromIP("10.3.0.1").on(i)
			exhaust = append(exhaust, flood, garbage)
		}
		w.countAllowed(exhaust)
		forged := b.payment()
		forged.Signature = w.unfundedBuyer().payment().Signature
		for key, p := range map[string]x402.Payment{"mine": forged, "another": b.payment()} {
			r := purchase(key, header(t, p)).fromIP("10.3.0.1").on(i)
			wantStatus(t, key, w.send(r), 429)
		}
		for n := range 30 {
			r := purchase("mine", payment).fromIP("10.3.0.1")
			if n%2 == 1 {
				r = purchase("mine", header(t, b.payment())).fromIP("10.3.0.1")
			}
			r.at = i
			var again paidOrder
			if w.send(r).into(t, 200, &again); again.OrderID != first.OrderID || !again.Replayed {
				t.Errorf("repeat %d: %+v", n, again)
			}
		}
	}
	w.awaitSettled()
	w.checkBooks()
}

// TestUnpaidOrdersAreLimitedAndPruned creates orders of every kind, by one owner and by one address, in two
// processes, and lets them expire.
func TestUnpaidOrdersAreLimitedAndPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: func(c *app.Config) { behindProxy(c); c.ExpiredRetention = time.Hour }})
	for _, i := range w.instances {
		w.awaitEsimReady(i)
	}
	b := w.unfundedBuyer()
	b.clientIP = "10.4.0.1"
	b.signIn()
	open := func(b *buyer, n int) request {
		r := post("/api/esim/orders", "{}").on(w.instances[n%2]).as(b)
		r.header["Idempotency-Key"] = fmt.Sprint("k", n)
		return r
	}
	var flood []request
	for n := range 40 {
		flood = append(flood, open(b, n))
	}
	if let := w.countAllowed(flood); let != 20 {
		t.Errorf("an owner has %d orders open", let)
	}
	// The same order again is no other, and what the cap refuses is not counted.
	if let := w.countAllowed(flood[:20]); let != 20 {
		t.Errorf("%d of 20 orders were told again", let)
	}
	w.exec("UPDATE orders SET expires_at = now() - interval '1 s' WHERE status = 'payment_required'")
	for n := range 2 {
		flood = nil
		for i := range 40 {
			flood = append(flood, open(b, 100+40*n+i))
		}
		if let := w.countAllowed(flood); let != 20 {
			t.Errorf("round %d: %d orders", n, let)
		}
		w.exec("UPDATE orders SET expires_at = now() - interval '1 s' WHERE status = 'payment_required'")
	}
	// 60 within the hour are all, whichever process is asked.
	if let := w.countAllowed([]request{open(b, 200), open(b, 201), open(b, 202), open(b, 203)}); let > 1 {
		t.Errorf("%d orders more", let)
	}
	// Owners cost nothing either.
	opened := 0
	for n := range 16 {
		c := w.unfundedBuyer()
		c.clientIP = fmt.Sprintf("10.4.1.%d", n)
		c.signIn()
		c.clientIP = "10.4.2.1"
		for i := range 10 {
			r := open(c, 2*i)
			if a := w.send(r); a.status == 200 {
				opened++
			}
		}
	}
	if opened < 118 || opened > 125 {
		t.Errorf("an address has opened %d orders", opened)
	}
	w.expiredArePruned()
}

// expiredArePruned ages every order, and looks that the job takes them away in the end.
func (w *world) expiredArePruned() {
	w.t.Helper()
	b := w.unfundedBuyer()
	b.clientIP = "10.4.3.1"
	b.signIn()
	kept := b.createOrder(cardOrdersPath, "", "")
	all := w.count("SELECT count(*) FROM orders")
	w.exec("UPDATE orders SET expires_at = now() - interval '1 s' WHERE status = 'payment_required'")
	eventually(w.t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM orders WHERE status <> 'expired'")
		return n == 0, fmt.Sprint(n, " are not expired")
	})
	wantProblem(w.t, "an expired order", w.send(get(kept.path()).fromIP("10.4.3.2")), 409, fault.OrderNotPayable)
	w.exec("UPDATE orders SET updated_at = now() - interval '2 hours' WHERE id <> $1", kept.OrderID)
	w.exec("INSERT INTO locks (id) SELECT 'open/card_issue/' || n FROM generate_series(1, 1500) n")
	w.exec("UPDATE rate_limits SET resets_at = now() - interval '1 s'")
	s := storetest.Open(w.t, w.databaseURL)
	if _, err := s.Jobs().Enqueue(w.t.Context(), job.New{Args: pruneJob{}, UniqueKey: uuid.NewString()}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM orders")
		return n == 1, fmt.Sprintf("%d of %d orders are left", n, all)
	})
	eventually(w.t, func() (bool, string) {
		n := w.count("SELECT (SELECT count(*) FROM rate_limits) + (SELECT count(*) FROM locks WHERE id LIKE 'open/%')")
		return n == 0, fmt.Sprint(n, " counts and locks are left")
	})
	if n := w.count("SELECT count(*) FROM timeline"); n != 1 {
		w.t.Errorf("%d lines are left in the timeline", n)
	}
	b.get("/api/orders/"+kept.OrderID).into(w.t, 200, nil)
}

// pruneJob is the job that prunes.
type pruneJob struct{}

func (pruneJob) Kind() job.Kind { return "retention" }

// TestMoneyLimitsAreSharedByAllProcesses asks two processes in turn, each of which has counted half.
func TestMoneyLimitsAreSharedByAllProcesses(t *testing.T) {
	onlyTorture(t, "store TestHitsAreCountedOverAllProcesses")
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: func(c *app.Config) {
		behindProxy(c)
		c.Limits[limit.Paid] = limit.Rate{Count: 3, Per: time.Hour}
		c.Limits[limit.Reveal] = limit.Rate{Count: 3, Per: time.Hour}
		c.Limits[limit.Challenge] = limit.Rate{Count: 4, Per: time.Hour}
	}})
	for _, i := range w.instances {
		w.awaitEsimReady(i)
	}
	b := w.buyer()
	b.clientIP = "10.5.0.1"
	b.signIn() // one of four
	for n, want := range []int{200, 200, 200, 429} {
		a := w.send(post("/api/auth/challenge", `{"address":`+
			jsonText(b.address.String())+`}`).on(w.instances[n%2]).fromIP(b.clientIP))
		if a.status != want || (want == 429 && a.header.Get("Retry-After") == "") {
			t.Errorf("challenge %d: %d %s", n, a.status, clipped(a.body))
		}
	}
	if dump := w.rows("rate_limits", "id"); strings.Contains(dump, b.clientIP) {
		t.Error("an address is written down")
	}
	terms := w.esimTerms("e")
	for n, want := range []int{200, 200, 200, 429} {
		r := post(esimPath, purchaseBody(fmt.Sprint("e", n))).on(w.instances[n%2]).paying(b.esimPayment(terms))
		a := w.send(r.fromIP("10.5.0.2")).awaited(want)
		if a.status != want || (want == 429 && a.header.Get("Retry-After") == "") {
			t.Errorf("purchase %d: %d %s", n, a.status, clipped(a.body))
		}
	}
	if n := w.count("SELECT count(*) FROM payments"); n != 3 {
		t.Errorf("%d payments were claimed", n)
	}
	w.awaitSettled()
	card := uuid.NewString()
	for n, want := range []int{401, 401, 401, 429} {
		r := post("/api/cards/"+card+"/reveal", revealBody(uuid.NewString(), b.sign("x"))).on(w.instances[n%2]).as(b)
		wantStatus(t, fmt.Sprintf("reveal %d", n), w.send(r), want)
	}
	w.checkBooks()
}

// TestPaymentsInFlightAreCountedOverAllProcesses: while one process waits for a payment's block, another claims no
// second one, and writes nothing for it.
func TestPaymentsInFlightAreCountedOverAllProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, chain: ownChain(t), change: func(c *app.Config) {
		c.Limits, c.Wait = limit.Rates{limit.InFlight: {Count: 1}}, 50*time.Second
	}})
	for _, i := range w.instances {
		w.awaitEsimReady(i)
	}
	b := w.buyer()
	terms := w.esimTerms("terms")
	first, second := esimPurchase("first", b.esimPayment(terms)), esimPurchase("second", b.esimPayment(terms))
	w.pauseMining()
	answered := make(chan answer, 1)
	go func() { answered <- w.send(first) }()
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM payments WHERE status = 'claimed'")
		return n == 1, fmt.Sprint(n, " payments are claimed")
	})
	a := w.send(second.on(w.instances[1]))
	if a.status != 429 || !a.is(fault.RateLimited) || a.header.Get("Retry-After") == "" {
		t.Errorf("a second payment in flight: %d %s", a.status, clipped(a.body))
	}
	if n := w.count("SELECT count(*) FROM orders"); n != 1 {
		t.Errorf("%d orders are claimed", n)
	}
	w.resumeMining()
	wantStatus(t, "the first", <-answered, 200)
	wantStatus(t, "the second, afterwards", w.send(second.on(w.instances[1])), 200)
	w.awaitSettled()
	w.checkBooks()
}

// TestStreamsPerWalletAreLimited holds some open, and opens one more.
func TestStreamsPerWalletAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: func(c *app.Config) { behindProxy(c); c.Limits[limit.Streams] = limit.Rate{Count: 2} }})
	b := w.unfundedBuyer()
	b.clientIP = "10.6.0.1"
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	client := roamcardv1connect.NewOrderServiceClient(calling(w.instances[0].url))
	watch := func() (first bool, end func() error) {
		ctx, cancel := context.WithCancel(t.Context())
		ctx, call := connect.NewClientContext(ctx)
		call.RequestHeader().Set("Authorization", b.bearer()["Authorization"])
		in, err := client.WatchOrder(ctx, &roamcardv1.WatchOrderRequest{OrderId: o.OrderID})
		if err != nil {
			t.Fatal(err)
		}
		_, err = in.Receive()
		return err == nil, func() error { cancel(); _ = in.Close(); return err }
	}
	var ends []func() error
	for i := range 2 {
		first, end := watch()
		if !first {
			t.Fatalf("stream %d: %v", i, end())
		}
		ends = append(ends, end)
	}
	if first, end := watch(); first || connect.CodeOf(end()) != connect.CodeResourceExhausted {
		t.Error("a third stream is open")
	}
	for _, end := range ends {
		_ = end()
	}
	eventually(t, func() (bool, string) {
		first, end := watch()
		_ = end()
		return first, "no stream once the others have ended"
	})
}
