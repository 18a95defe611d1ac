package endtoend_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestOwnerRoutesRefuseOtherCallers walks every route that shows or does something of an owner's: no
// session, a wrong one, another wallet's, and ids of all kinds.
func TestOwnerRoutesRefuseOtherCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	owner, stranger := w.buyer(), w.buyer()
	mine := owner.buyCard("mine")
	stranger.signIn()
	ended := w.buyer()
	ended.signIn()
	ended.post("/api/auth/logout", "").into(t, 200, nil)

	id, unknown := mine.Issuance.CardID, uuid.NewString()
	type route struct{ method, path, body string }
	session := []route{
		{"GET", "/api/cards", ""}, {"POST", "/api/cards", ""}, {"GET", "/api/cards/" + id + "/balance", ""},
		{"POST", "/api/cards/" + id + "/reveal-challenge", "{}"},
		{"POST", "/api/cards/" + id + "/reveal", revealBody(unknown, "0x"+strings.Repeat("11", 65))},
		{"GET", "/api/orders", ""}, {"GET", "/api/orders/" + mine.OrderID, ""}, {"GET", "/api/auth/session", ""},
		{"POST", "/api/auth/logout", ""},
	}
	tokens := map[string]string{
		"none": "", "ended": "Bearer " + ended.token, "garbage": "Bearer garbage", "made up": "Bearer rcs_" +
			strings.Repeat("A", 43),
		"basic": "Basic dXNlcjpwYXNz", "no scheme": owner.token, "lower case": "bearer " + owner.token,
		"two blanks": "Bearer  " + owner.token,
		"cut":        "Bearer " + owner.token[:len(owner.token)-1], "longer": "Bearer " + owner.token + "A",
		"quoted": `Bearer "` + owner.token + `"`,
		"two":    "Bearer " + owner.token + ", Bearer " + owner.token, "huge": "Bearer " + strings.Repeat("x", 8<<10),
	}
	var cases []refusal
	for _, r := range session {
		for name, token := range tokens {
			cases = append(cases, refusal{name + ": " + r.method + " " + r.path,
				request{method: r.method, path: r.path, body: r.body, header: map[string]string{"Authorization": token}}, 401,
				fault.SessionInvalid})
		}
	}
	as := func(name string, b *buyer, method, path, body string, status int, code fault.Code) {
		cases = append(cases, refusal{name, request{method: method, path: path, body: body, header: b.bearer()}, status, code})
	}
	for name, cardID := range map[string]string{"another's": id, "unknown": unknown, "nil": uuid.Nil.String()} {
		as(name+" balance", stranger, "GET", "/api/cards/"+cardID+"/balance", "", 404, fault.CardNotFound)
		as(name+" reveal-challenge", stranger, "POST", "/api/cards/"+cardID+"/reveal-challenge", "{}", 404,
			fault.CardNotFound)
		as(name+" reveal", stranger, "POST", "/api/cards/"+cardID+"/reveal",
			revealBody(unknown, "0x"+strings.Repeat("11", 65)), 401, fault.ChallengeInvalid)
	}
	for name, orderID := range map[string]string{"another's": mine.OrderID, "unknown": "ord_" + unknown, "word": "x",
		"upper case":   strings.ToUpper(mine.OrderID),
		"with a blank": mine.OrderID + "%20", "with NUL": "a%00b", "like": "%25", "quote": "'%20OR%201=1--"} {
		status, code := 404, fault.OrderNotFound
		if strings.Contains(orderID, "%00") {
			status, code = 400, fault.SchemaInvalid
		}
		as("order "+name, stranger, "GET", "/api/orders/"+orderID, "", status, code)
	}
	as("order id too long", stranger, "GET", "/api/orders/"+strings.Repeat("o", 65), "", 400, fault.SchemaInvalid)
	as("no card", stranger, "POST", "/api/cards", "", 409, fault.PaidIssueRequired)
	as("a body where none is taken", stranger, "POST", "/api/cards", `{"id":"x"}`, 400, fault.SchemaInvalid)
	for name, bad := range map[string]string{"word": "x", "short": id[:35], "braces": "%7B" + id + "%7D",
		"urn": "urn:uuid:" + id, "upper hex, wrong": strings.Repeat("G", 36), "no dashes": strings.ReplaceAll(id, "-", "")} {
		as("card id "+name, owner, "GET", "/api/cards/"+bad+"/balance", "", 400, fault.SchemaInvalid)
	}
	for name, query := range map[string]string{"status": "status=paid", "status twice": "status=active&status=active",
		"page 0": "pageSize=0", "page 101": "pageSize=101",
		"page -1": "pageSize=-1", "page text": "pageSize=ten", "page exponent": "pageSize=1e1",
		"page 2^40": "pageSize=1099511627776", "unknown": "owner=" + owner.address.String(), "snake": "page_size=5",
		"empty token": "pageToken=", "long token": "pageToken=" + strings.Repeat("x", 201),
		"semicolon": "status=active;pageSize=1"} {
		as("list "+name, owner, "GET", "/api/orders?"+query, "", 400, fault.SchemaInvalid)
	}
	w.wantRefusals(cases)
	w.checkBooks()
}

func revealBody(intent, signature string) string {
	return fmt.Sprintf(`{"intentId":%q,"signature":%q}`, intent, signature)
}

// TestSignInRefusesUnprovenWallet is the auth routes' table.
func TestSignInRefusesUnprovenWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b, other := w.buyer(), w.buyer()
	var ch struct{ IntentID, Message string }
	challenge := func() {
		w.send(post("/api/auth/challenge", `{"address":`+quoted(b.address.String())+`}`)).into(t, 200, &ch)
	}
	verify := func(change map[string]any) string {
		m := map[string]any{"address": b.address.String(), "intentId": ch.IntentID, "message": ch.Message,
			"signature": b.sign(ch.Message)}
		for name, v := range change {
			setOrDelete(m, name, v)
		}
		encoded, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded)
	}
	var cases []refusal
	bad := func(name, path, body string, status int, code fault.Code) {
		cases = append(cases, refusal{name, post(path, body), status, code})
	}
	for name, address := range map[string]string{"empty": "", "word": "me", "short": b.address.String()[:41],
		"long": b.address.String() + "0", "no 0x": b.address.String()[2:],
		"checksum": swapCase(b.address.String()), "ENS": "vitalik.eth", "huge": "0x" + strings.Repeat("a", 5000)} {
		bad("challenge, address "+name, "/api/auth/challenge", `{"address":`+quoted(address)+`}`, 400, fault.SchemaInvalid)
	}
	bad("challenge, no body", "/api/auth/challenge", "", 400, fault.SchemaInvalid)
	bad("challenge, snake case", "/api/auth/challenge", `{"address":`+quoted(b.address.String())+
		`,"preferred_message_schemes":["eip191"]}`, 400, fault.SchemaInvalid)
	bad("challenge, unknown scheme", "/api/auth/challenge", `{"address":`+quoted(b.address.String())+
		`,"preferredMessageSchemes":["siwe"]}`, 400, fault.SchemaInvalid)
	bad("challenge, three schemes", "/api/auth/challenge", `{"address":`+quoted(b.address.String())+
		`,"preferredMessageSchemes":["eip191","eip712","eip191"]}`, 400, fault.SchemaInvalid)
	for name, change := range map[string]map[string]any{
		"no address": {"address": nil}, "no signature": {"signature": nil}, "signature number": {"signature": 1},
		"intent no uuid": {"intentId": "x"},
		"scheme":         {"messageScheme": "eip1271"}, "unknown member": {"nonce": "x"},
		"message list": {"message": []any{}}, "message too long": {"message": strings.Repeat("m", 8193)},
		"signature too long": {"signature": "0x" + strings.Repeat("11", 300)},
	} {
		challenge()
		bad("verify, "+name, "/api/auth/verify", verify(change), 400, fault.SchemaInvalid)
	}
	for name, change := range map[string]func() map[string]any{
		"another wallet's signature": func() map[string]any { return map[string]any{"signature": other.sign(ch.Message)} },
		"another wallet's name":      func() map[string]any { return map[string]any{"address": other.address.String()} },
		"another message": func() map[string]any {
			return map[string]any{"message": ch.Message + " ", "signature": b.sign(ch.Message + " ")}
		},
		"another scheme": func() map[string]any { return map[string]any{"messageScheme": "eip712"} },
		"unknown intent": func() map[string]any { return map[string]any{"intentId": uuid.NewString()} },
		"all zero":       func() map[string]any { return map[string]any{"signature": "0x" + strings.Repeat("00", 65)} },
		"not hex":        func() map[string]any { return map[string]any{"signature": strings.Repeat("zz", 65)} },
		"cut":            func() map[string]any { return map[string]any{"signature": b.sign(ch.Message)[:130]} },
		"with a blob":    func() map[string]any { return map[string]any{"signature": b.sign(ch.Message) + "00"} },
	} {
		challenge()
		bad("verify, "+name, "/api/auth/verify", verify(change()), 401, fault.SignatureInvalid)
	}
	challenge()
	good := verify(nil)
	w.send(post("/api/auth/verify", good)).into(t, 200, nil)
	bad("verify, twice", "/api/auth/verify", good, 401, fault.SignatureInvalid)
	w.wantRefusals(cases)
}

// TestOnlyDocumentedPathsAndMethodsAreRouted is A34: no spelling of a path and no header reaches a route that
// the documented one would not.
func TestOnlyDocumentedPathsAndMethodsAreRouted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	paid := map[string]string{x402.HeaderSignature: header(t, b.payment())}
	var cases []refusal
	for _, path := range []string{
		"/", "/api", "/api/card", "/api/card/purchase/", "/api//card/purchase", "//api/card/purchase", "/api/card/./purchase",
		"/api/card/x/../purchase",
		"/api/card/%2e/purchase", "/api/card%2fpurchase", "/api/card/purchase;x=1", "/API/card/purchase",
		"/api/Card/Purchase", "/api/card/purchase%00", "/api/card/purchase%20",
		"/api/card/purchase.json", "/v1/api/card/purchase", "/.env", "/debug/pprof/", "/control/books", "/metrics", "/admin",
		"/api/cards/", "/api/orders/",
		"/pay", "/pay/x/", "/api/x402/pay", "/%2e%2e/%2e%2e/etc/passwd", "/" + strings.Repeat("a", 4000),
	} {
		cases = append(cases,
			refusal{"path " + path[:min(len(path), 60)], post(path, purchaseBody("p")).with(paid), 404,
				fault.RouteNotFound})
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PURGE", "post"} {
		cases = append(cases,
			refusal{"method " + method, request{method: method, path: purchasePath, header: paid}, 405, fault.MethodNotAllowed})
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		cases = append(cases,
			refusal{name, get(purchasePath).with(map[string]string{name: "POST", x402.HeaderSignature: paid[x402.HeaderSignature]}), 405,
				fault.MethodNotAllowed})
	}
	for _, name := range []string{"X-Original-URL", "X-Rewrite-URL"} {
		cases = append(cases,
			refusal{name, post("/nowhere", "").with(map[string]string{name: purchasePath}), 404, fault.RouteNotFound})
	}
	for _, path := range []string{"/api/cards", "/api/orders", "/api/auth/session", "/health", "/ready", "/api/config",
		"/api/card/discovery"} {
		cases = append(cases, refusal{"DELETE " + path, request{method: "DELETE", path: path}, 405, fault.MethodNotAllowed})
	}
	// A HEAD answer has no body to be a document.
	heads := cases[:0:0]
	for _, c := range cases {
		if c.request.method != "HEAD" {
			heads = append(heads, c)
		} else if a := w.send(c.request); a.status != c.status {
			t.Errorf("%s: %d, want %d", c.name, a.status, c.status)
		}
	}
	w.wantRefusals(heads)
	old := map[string]string{x402.HeaderSignatureV1: paid[x402.HeaderSignature]}
	for _, path := range []string{purchasePath, roamcardv1connect.CardServicePurchaseCardProcedure} {
		a := w.send(post(path, purchaseBody("v1")).with(old))
		again, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
		if a.status != 402 || !bytes.Contains(a.body, []byte("x402 version 2 only")) || err != nil ||
			again.Error != x402.ReasonVersion || len(again.Accepts) != 1 {
			t.Errorf("X-PAYMENT at %s: %d %s, %v %v", path, a.status, clipped(a.body), again, err)
		}
	}
}

// TestSmuggledRequestsAreRefused is A30 and A32: what a lenient parser would read in two ways is
// refused, and whatever follows it on the connection is not served.
func TestSmuggledRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	payment := header(t, b.payment())
	body := purchaseBody("raw")
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	post := "POST " + purchasePath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	before := w.footprint()
	for name, raw := range map[string]string{
		"length and chunks": post + length + "Transfer-Encoding: chunked\r\n" + signatureLine(payment) + "\r\n" + "0\r\n\r\n" +
			post + length + signatureLine(payment) + "\r\n" + body,
		"two lengths":            post + length + "Content-Length: 5\r\n" + signatureLine(payment) + "\r\n" + body,
		"length with a sign":     post + "Content-Length: +23\r\n" + signatureLine(payment) + "\r\n" + body,
		"length in hex":          post + "Content-Length: 0x17\r\n" + signatureLine(payment) + "\r\n" + body,
		"negative length":        post + "Content-Length: -1\r\n" + signatureLine(payment) + "\r\n" + body,
		"huge length":            post + "Content-Length: 99999999999999999999\r\n" + signatureLine(payment) + "\r\n" + body,
		"chunked twice":          post + "Transfer-Encoding: chunked, chunked\r\n" + signatureLine(payment) + "\r\n" + chunked,
		"chunked with identity":  post + "Transfer-Encoding: identity, chunked\r\n" + signatureLine(payment) + "\r\n" + chunked,
		"chunked misspelt":       post + "Transfer-Encoding: xchunked\r\n" + signatureLine(payment) + "\r\n" + chunked,
		"blank before the colon": post + "Content-Length : 23\r\n" + signatureLine(payment) + "\r\n" + body,
		"folded header":          post + length + signatureLine(payment[:100]+"\r\n "+payment[100:]) + "\r\n" + body,
		"two hosts": "POST " + purchasePath + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + length + signatureLine(payment) +
			"\r\n" + body,
		"no host": "POST " + purchasePath + " HTTP/1.1\r\n" + length + signatureLine(payment) + "\r\n" + body,
		"host with a path": "POST " + purchasePath + " HTTP/1.1\r\nHost: a/b\r\n" + length + signatureLine(payment) + "\r\n" +
			body,
		"chunk size with a sign": post + "Transfer-Encoding: chunked\r\n" + signatureLine(payment) + "\r\n+17\r\n" + body +
			"\r\n0\r\n\r\n",
		"chunk ended by a bare LF": post + "Transfer-Encoding: chunked\r\n" + signatureLine(payment) + "\r\n17;a\nb\r\n" + body +
			"\r\n0\r\n\r\n",
		"huge chunk extension": post + "Transfer-Encoding: chunked\r\n" + signatureLine(payment) + "\r\n17;" +
			strings.Repeat("x", 64<<10) + "\r\n" + body + "\r\n0\r\n\r\n",
		"NUL in a header":        post + length + "X: a\x00b\r\n" + signatureLine(payment) + "\r\n" + body,
		"two payments":           post + length + signatureLine(payment) + signatureLine(payment) + "\r\n" + body,
		"two different payments": post + length + signatureLine(payment) + signatureLine(header(t, b.payment())) + "\r\n" + body,
		"payment of 64 kB":       post + length + signatureLine(strings.Repeat("A", 64<<10)) + "\r\n" + body,
		"payment of 1 MB":        post + length + signatureLine(strings.Repeat("A", 1<<20)) + "\r\n" + body,
		"a thousand headers": post + length + strings.Repeat("X-A: "+strings.Repeat("b", 100)+"\r\n",
			1000) + signatureLine(payment) + "\r\n" + body,
		"HTTP/0.9": "GET " + purchasePath + "\r\n\r\n",
		"HTTP/3.0": "POST " + purchasePath + " HTTP/3.0\r\nHost: x\r\n" + length + signatureLine(payment) + "\r\n" + body,
		"garbage":  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"cut body": post + "Content-Length: 500\r\n" + signatureLine(payment) + "\r\n" + body,
	} {
		status := rawStatus(t, w, raw, strings.HasPrefix(name, "cut"))
		switch {
		case status == 0, status == 400, status == 431, status == 501, status == 505, status == 413, status == 404,
			status == 415:
		default:
			t.Errorf("%s: status %d", name, status)
		}
	}
	w.wantFootprint("a smuggled request left a trace", before)
	// What comes as a trailer is no header: this asks for the terms.
	trailers := post + "Transfer-Encoding: chunked\r\nTrailer: PAYMENT-SIGNATURE\r\n\r\n0\r\n" + signatureLine(payment) + "\r\n"
	if status := rawStatus(t, w, trailers, false); status != 402 {
		t.Errorf("a payment in the trailers: status %d, want the challenge", status)
	}
	// An absolute request target names the same route, and not another resource.
	raw := "POST http://evil.example" + purchasePath +
		" HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n" + length + "\r\n" + body
	if status := rawStatus(t, w, raw, false); status != 402 {
		t.Errorf("absolute target: status %d, want the challenge", status)
	}
}

func signatureLine(payment string) string { return "PAYMENT-SIGNATURE: " + payment + "\r\n" }

// rawStatus sends bytes and returns the status of the first answer; 0 when the connection just ends. A
// second answer on the same connection is a failure.
func rawStatus(t *testing.T, w *world, raw string, halfClose bool) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.instances[0].url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a TCP connection takes one
	_, _ = conn.Write([]byte(raw))                         // the server may have hung up in the middle
	if halfClose {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	answers := bufio.NewReader(conn)
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		return 0
	}
	a := read(res)
	if a.status >= 400 && a.status < 500 && a.err == nil && strings.Contains(raw, "evil") &&
		strings.Contains(string(a.body)+a.header.Get(x402.HeaderRequired), "evil") {
		t.Errorf("the host of the request came back: %s", a.body)
	}
	if strings.Contains(raw, "chunked\r\n") {
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		if second, err := http.ReadResponse(answers, nil); err == nil && second.StatusCode < 300 {
			t.Errorf("a second request was served: %d", second.StatusCode)
		}
	}
	return res.StatusCode
}

// TestUnavailableStatesAnswerAsDocumented brings the service into each state of the error tables.
func TestUnavailableStatesAnswerAsDocumented(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 1})
	paused := w.config
	paused.IssuePaused = true
	closed := w.awaitCaughtUp(w.start(paused))
	owner, buyer := w.buyer(), w.buyer()
	mine := owner.buyCard("mine")
	buyer.signIn()

	unavailable := func(name string, at *instance, path string, code fault.Code) {
		t.Helper()
		before := w.footprint()
		for leg, payment := range map[string]string{"unpaid": "", "paid": header(t, buyer.payment())} {
			r := purchase("state", payment).on(at)
			if path != "" {
				r = get(path).on(at)
			}
			a := w.send(r)
			if a.status != 503 || a.problem.Code != string(code) || a.header.Get(x402.HeaderRequired) != "" {
				t.Errorf("%s, %s: %d %s, want 503 %s", name, leg, a.status, clipped(a.body), code)
			}
		}
		w.wantFootprint(fmt.Sprintf("%s left a trace", name), before)
	}
	forget := func() {
		eventually(t, 5*time.Second,
			func() (bool, string) { return w.send(purchase("probe", "")).status == 402, "no challenge" })
	}

	unavailable("issue paused", closed, "", fault.IssuePaused)
	wantProblem(t, "POST /api/cards while paused", w.send(post("/api/cards", "").on(closed).with(buyer.bearer())), 503, fault.IssuePaused)
	wantStatus(t, "POST /api/cards of an owner while paused", w.send(post("/api/cards", "").on(closed).with(owner.bearer())), 200)

	until503 := func(code fault.Code) {
		t.Helper()
		eventually(t, 5*time.Second, func() (bool, string) {
			a := w.send(purchase("state", ""))
			return a.problem.Code == string(code), string(a.body)
		})
	}
	w.issuer.call("POST", "bins", map[string]any{"prefix": "400000", "open": false})
	until503(fault.BINUnavailable)
	unavailable("BIN closed", nil, "", fault.BINUnavailable)
	w.issuer.call("POST", "bins", map[string]any{"prefix": "400000", "open": true})
	forget()

	w.issuer.call("POST", "float", map[string]any{"cents": 2499})
	until503(fault.FloatUnavailable)
	unavailable("float a cent short", nil, "", fault.FloatUnavailable)
	w.issuer.call("POST", "float", map[string]any{"cents": 10_000_000})
	forget()

	w.issuer.fault("stock", "error_before", 0, 0)
	until503(fault.DependencyDown)
	unavailable("issuer down", nil, "", fault.DependencyDown)
	unavailable("not ready", nil, "/ready", fault.NotReady)
	w.issuer.call("DELETE", "faults", nil)
	forget()

	w.issuer.fault("balance", "error_before", 1, 0)
	wantProblem(t, "balance while the issuer is down", owner.get("/api/cards/"+mine.Issuance.CardID+"/balance"), 503, fault.DependencyDown)
	wantProblem(t, "a second card", owner.buy("another"), 409, fault.CardAlreadyExists)
	w.checkBooks()
}

// TestNothingIsSoldWithoutWorker is the gate that keeps money from being taken for what nobody delivers.
func TestNothingIsSoldWithoutWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	alone := w.config
	alone.NoWorker = true
	i := w.awaitCaughtUp(w.start(alone))
	w.instances[0].stop()
	b := w.buyer()
	for _, payment := range []string{"", header(t, b.payment())} {
		eventually(t, 10*time.Second, func() (bool, string) {
			r := purchase("alone", payment).on(i) // a paid one waits until the process has read what was paid
			a := w.send(r)
			return a.status == 503 && a.problem.Code == string(fault.WorkersUnavailable), string(a.body)
		})
		r := purchase("alone", payment).on(i)
		wantProblem(t, "the answer", w.send(r), 503, fault.WorkersUnavailable)
	}
	if len(w.orders()) != 0 || len(w.transfers()) != 0 {
		t.Error("something was sold without a worker")
	}
}
