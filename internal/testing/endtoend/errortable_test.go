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

// ownerCases are requests that other callers than the owner send to the routes of an owner's cards and orders.
type ownerCases struct {
	owner, stranger *buyer
	// card and order are the owner's; unknown is an id of nothing.
	card, order, unknown string
	all                  refusals
}

// TestOwnerRoutesRefuseOtherCallers covers every route of an owner: no session, a wrong one, another wallet's, and ids
// of all kinds.
func TestOwnerRoutesRefuseOtherCallers(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	owner, stranger, signedOut := w.buyer(), w.buyer(), w.buyer()
	mine := owner.buyCard("mine")
	stranger.signIn()
	signedOut.signIn()
	signedOut.post("/api/auth/logout", "").into(t, 200, nil)

	c := ownerCases{
		owner: owner, stranger: stranger, card: mine.Issuance.CardID, order: mine.OrderID, unknown: uuid.NewString(),
	}
	c.addSessions(signedOut.token)
	c.addCards()
	c.addOrders()
	c.addQueries()
	w.wantRefusals(c.all)
	w.checkBooks()
}

// addSessions adds every route of an owner with each token that is not a session.
func (c *ownerCases) addSessions(signedOut string) {
	token := c.owner.token
	tokens := map[string]string{
		"none":      "",
		"ended":     "Bearer " + signedOut,
		"garbage":   "Bearer garbage",
		"made up":   "Bearer rcs_" + strings.Repeat("A", 43),
		"basic":     "Basic dXNlcjpwYXNz",
		"no scheme": token,
		"tab":       "Bearer\t" + token,
		"cut":       "Bearer " + token[:len(token)-1],
		"longer":    "Bearer " + token + "A",
		"quoted":    `Bearer "` + token + `"`,
		"two":       "Bearer " + token + ", Bearer " + token,
		"huge":      "Bearer " + strings.Repeat("x", 8<<10),
	}
	for _, r := range []request{
		get("/api/cards"),
		post("/api/cards", ""),
		get("/api/cards/" + c.card + "/balance"),
		post("/api/cards/"+c.card+"/reveal-challenge", "{}"),
		post("/api/cards/"+c.card+"/reveal", c.unknownReveal()),
		get("/api/orders"),
		get("/api/orders/" + c.order),
		get("/api/auth/session"),
		post("/api/auth/logout", ""),
	} {
		for name, token := range tokens {
			c.all.add(name+": "+r.method+" "+r.path, r.withHeader("Authorization", token), 401, fault.SessionInvalid)
		}
	}
}

// unknownReveal is the body of a reveal for which there was no challenge.
func (c *ownerCases) unknownReveal() string {
	return revealBody(c.unknown, "0x"+strings.Repeat("11", 65))
}

// addCards adds cards that are not the caller's, and ids that name none.
func (c *ownerCases) addCards() {
	byStranger := func(name string, r request, status int, code fault.Code) {
		c.all.add(name, r.as(c.stranger), status, code)
	}
	for name, id := range map[string]string{"another's": c.card, "unknown": c.unknown, "nil": uuid.Nil.String()} {
		path := "/api/cards/" + id
		byStranger(name+" balance", get(path+"/balance"), 404, fault.CardNotFound)
		byStranger(name+" reveal-challenge", post(path+"/reveal-challenge", "{}"), 404, fault.CardNotFound)
		byStranger(name+" reveal", post(path+"/reveal", c.unknownReveal()), 401, fault.ChallengeInvalid)
	}
	byStranger("no card", post("/api/cards", ""), 409, fault.PaidIssueRequired)
	byStranger("a body where none is taken", post("/api/cards", `{"id":"x"}`), 400, fault.SchemaInvalid)
	for name, malformed := range map[string]string{
		"word":             "x",
		"short":            c.card[:35],
		"braces":           "%7B" + c.card + "%7D",
		"urn":              "urn:uuid:" + c.card,
		"upper hex, wrong": strings.Repeat("G", 36),
		"no dashes":        strings.ReplaceAll(c.card, "-", ""),
	} {
		c.all.add("card id "+name, get("/api/cards/"+malformed+"/balance").as(c.owner), 400, fault.SchemaInvalid)
	}
}

// addOrders adds ids of orders that are not the caller's, do not exist or are malformed.
func (c *ownerCases) addOrders() {
	for name, id := range map[string]string{
		"another's":    c.order,
		"unknown":      "ord_" + c.unknown,
		"word":         "x",
		"upper case":   strings.ToUpper(c.order),
		"with a blank": c.order + "%20",
		"like":         "%25",
		"quote":        "'%20OR%201=1--",
	} {
		c.all.add("order "+name, get("/api/orders/"+id).as(c.stranger), 404, fault.OrderNotFound)
	}
	c.all.add("order with NUL", get("/api/orders/a%00b").as(c.stranger), 400, fault.SchemaInvalid)
	tooLong := get("/api/orders/" + strings.Repeat("o", 65)).as(c.stranger)
	c.all.add("order id too long", tooLong, 400, fault.SchemaInvalid)
}

// addQueries adds malformed queries of the owner's own list.
func (c *ownerCases) addQueries() {
	for name, query := range map[string]string{
		"status":        "status=paid",
		"status twice":  "status=active&status=active",
		"page 0":        "pageSize=0",
		"page 101":      "pageSize=101",
		"page -1":       "pageSize=-1",
		"page text":     "pageSize=ten",
		"page fraction": "pageSize=1e-1",
		"page 2^40":     "pageSize=1099511627776",
		"unknown":       "owner=" + c.owner.address.String(),
		"snake":         "page_size=5",
		"empty token":   "pageToken=",
		"long token":    "pageToken=" + strings.Repeat("x", 201),
		"semicolon":     "status=active;pageSize=1",
	} {
		c.all.add("list "+name, get("/api/orders?"+query).as(c.owner), 400, fault.SchemaInvalid)
	}
}

func revealBody(intent, signature string) string {
	return fmt.Sprintf(`{"intentId":%q,"signature":%q}`, intent, signature)
}

// TestSignInRefusesUnprovenWallet covers the routes of the sign-in: malformed requests, and proofs by anything but the
// wallet's own signature of its own challenge.
func TestSignInRefusesUnprovenWallet(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b, other := w.buyer(), w.buyer()
	cases := challengeRefusals(b)
	for name, change := range map[string]map[string]any{
		"no address":         {"address": nil},
		"no signature":       {"signature": nil},
		"signature number":   {"signature": 1},
		"intent no uuid":     {"intentId": "x"},
		"scheme":             {"messageScheme": "eip1271"},
		"unknown member":     {"nonce": "x"},
		"message list":       {"message": []any{}},
		"message too long":   {"message": strings.Repeat("m", 8193)},
		"signature too long": {"signature": "0x" + strings.Repeat("11", 2049)},
	} {
		cases.add("verify, "+name, b.verifying(b.signInChallenge(), change), 400, fault.SchemaInvalid)
	}
	for name, change := range map[string]func(message string) map[string]any{
		"another wallet's signature": func(m string) map[string]any { return map[string]any{"signature": other.sign(m)} },
		"another wallet's name": func(string) map[string]any {
			return map[string]any{"address": other.address.String()}
		},
		"another message": func(m string) map[string]any {
			return map[string]any{"message": m + " ", "signature": b.sign(m + " ")}
		},
		"another scheme": func(string) map[string]any { return map[string]any{"messageScheme": "eip712"} },
		"unknown intent": func(string) map[string]any { return map[string]any{"intentId": uuid.NewString()} },
		"all zero":       func(string) map[string]any { return map[string]any{"signature": "0x" + strings.Repeat("00", 65)} },
		"a contract's": func(string) map[string]any {
			return map[string]any{"signature": "0x" + strings.Repeat("11", 300)}
		},
		"not hex":     func(string) map[string]any { return map[string]any{"signature": strings.Repeat("zz", 65)} },
		"cut":         func(m string) map[string]any { return map[string]any{"signature": b.sign(m)[:130]} },
		"with a blob": func(m string) map[string]any { return map[string]any{"signature": b.sign(m) + "00"} },
	} {
		ch := b.signInChallenge()
		cases.add("verify, "+name, b.verifying(ch, change(ch.Message)), 401, fault.SignatureInvalid)
	}
	good := b.verifying(b.signInChallenge(), nil)
	w.send(good).into(t, 200, nil)
	cases.add("verify, twice", good, 401, fault.SignatureInvalid)
	w.wantRefusals(cases)
}

// challengeRefusals are malformed requests for a challenge.
func challengeRefusals(b *buyer) (cases refusals) {
	address := b.address.String()
	for name, wrong := range map[string]string{
		"empty":    "",
		"word":     "me",
		"short":    address[:41],
		"long":     address + "0",
		"no 0x":    address[2:],
		"checksum": swapCase(address),
		"ENS":      "vitalik.eth",
		"huge":     "0x" + strings.Repeat("a", 5000),
	} {
		cases.add("challenge, address "+name, challengeRequest(wrong), 400, fault.SchemaInvalid)
	}
	for name, more := range map[string]string{
		"snake case":     `"preferred_message_schemes":["eip191"]`,
		"unknown scheme": `"preferredMessageSchemes":["siwe"]`,
		"three schemes":  `"preferredMessageSchemes":["eip191","eip712","eip191"]`,
	} {
		body := `{"address":` + jsonText(address) + `,` + more + `}`
		cases.add("challenge, "+name, post("/api/auth/challenge", body), 400, fault.SchemaInvalid)
	}
	cases.add("challenge, no body", post("/api/auth/challenge", ""), 400, fault.SchemaInvalid)
	return cases
}

// verifying is the request that answers a challenge, after changes to its body; nil removes a member.
func (b *buyer) verifying(ch challenge, changes map[string]any) request {
	b.w.t.Helper()
	body := map[string]any{
		"address":   b.address.String(),
		"intentId":  ch.IntentID,
		"message":   ch.Message,
		"signature": b.sign(ch.Message),
	}
	for name, v := range changes {
		setOrDelete(body, name, v)
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return post("/api/auth/verify", string(encoded))
}

// unroutedPaths lead nowhere, however much they look like the path of a purchase or of something internal.
var unroutedPaths = []string{
	"/", "/api", "/api/card", "/api/card/purchase/", "/api//card/purchase", "//api/card/purchase", "/api/card/./purchase",
	"/api/card/x/../purchase", "/api/card/%2e/purchase", "/api/card%2fpurchase", "/api/card/purchase;x=1",
	"/API/card/purchase", "/api/Card/Purchase", "/api/card/purchase%00", "/api/card/purchase%20",
	"/api/card/purchase.json", "/v1/api/card/purchase", "/.env", "/debug/pprof/", "/control/books", "/metrics", "/admin",
	"/api/cards/", "/api/orders/", "/pay", "/pay/x/", "/api/x402/pay", "/%2e%2e/%2e%2e/etc/passwd",
	"/" + strings.Repeat("a", 4000),
}

// TestOnlyDocumentedPathsAndMethodsAreRouted is attack A34: no spelling of a path and no header reaches a route that
// the documented one would not.
func TestOnlyDocumentedPathsAndMethodsAreRouted(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	payment := header(t, w.buyer().payment())
	var cases refusals
	for _, path := range unroutedPaths {
		r := post(path, purchaseBody("p")).paying(payment)
		cases.add("path "+path[:min(len(path), 60)], r, 404, fault.RouteNotFound)
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "TRACE", "PURGE", "post"} {
		r := request{method: method, path: purchasePath}.paying(payment)
		cases.add("method "+method, r, 405, fault.MethodNotAllowed)
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		r := get(purchasePath).paying(payment).withHeader(name, "POST")
		cases.add(name, r, 405, fault.MethodNotAllowed)
	}
	for _, name := range []string{"X-Original-URL", "X-Rewrite-URL"} {
		cases.add(name, post("/nowhere", "").withHeader(name, purchasePath), 404, fault.RouteNotFound)
	}
	for _, path := range []string{"/api/cards", "/api/orders", "/api/auth/session", "/health", "/ready", "/api/config",
		"/api/card/discovery"} {
		cases.add("DELETE "+path, request{method: "DELETE", path: path}, 405, fault.MethodNotAllowed)
	}
	w.wantRefusals(cases)
	// The answer to HEAD has no body, and so no problem document.
	wantStatus(t, "method HEAD", w.send(request{method: "HEAD", path: purchasePath}.paying(payment)), 405)
	w.wantVersion1Refused(payment)
}

// wantVersion1Refused checks that a payment in the header of x402 version 1 is answered with the terms of version 2.
func (w *world) wantVersion1Refused(payment string) {
	w.t.Helper()
	for _, path := range []string{purchasePath, roamcardv1connect.CardServicePurchaseCardProcedure} {
		a := w.send(post(path, purchaseBody("v1")).withHeader(x402.HeaderSignatureV1, payment))
		terms, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
		if a.status != 402 || !bytes.Contains(a.body, []byte("x402 version 2 only")) || err != nil ||
			terms.Error != x402.ReasonVersion || len(terms.Accepts) != 1 {
			w.t.Errorf("X-PAYMENT at %s: %d %s, %v %v", path, a.status, clipped(a.body), terms, err)
		}
	}
}

// smuggledRequests are what a lenient parser would read in two ways, or should not read at all. Each has a payment, and
// the first has a second request behind it.
func smuggledRequests(payment, another string) map[string]string {
	body := purchaseBody("raw")
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	post := "POST " + purchasePath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	signature := signatureLine(payment)
	paidBody := signature + "\r\n" + body
	paidChunks := signature + "\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	inChunks := "Transfer-Encoding: chunked\r\n" + signature + "\r\n"
	return map[string]string{
		"length and chunks":        post + length + inChunks + "0\r\n\r\n" + post + length + paidBody,
		"two lengths":              post + length + "Content-Length: 5\r\n" + paidBody,
		"length with a sign":       post + "Content-Length: +23\r\n" + paidBody,
		"length in hex":            post + "Content-Length: 0x17\r\n" + paidBody,
		"negative length":          post + "Content-Length: -1\r\n" + paidBody,
		"huge length":              post + "Content-Length: 99999999999999999999\r\n" + paidBody,
		"chunked twice":            post + "Transfer-Encoding: chunked, chunked\r\n" + paidChunks,
		"chunked with identity":    post + "Transfer-Encoding: identity, chunked\r\n" + paidChunks,
		"chunked misspelt":         post + "Transfer-Encoding: xchunked\r\n" + paidChunks,
		"blank before the colon":   post + "Content-Length : 23\r\n" + paidBody,
		"folded header":            post + length + signatureLine(payment[:100]+"\r\n "+payment[100:]) + "\r\n" + body,
		"two hosts":                "POST " + purchasePath + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + length + paidBody,
		"no host":                  "POST " + purchasePath + " HTTP/1.1\r\n" + length + paidBody,
		"host with a path":         "POST " + purchasePath + " HTTP/1.1\r\nHost: a/b\r\n" + length + paidBody,
		"chunk size with a sign":   post + inChunks + "+17\r\n" + body + "\r\n0\r\n\r\n",
		"chunk ended by a bare LF": post + inChunks + "17;a\nb\r\n" + body + "\r\n0\r\n\r\n",
		"huge chunk extension":     post + inChunks + "17;" + strings.Repeat("x", 64<<10) + "\r\n" + body + "\r\n0\r\n\r\n",
		"NUL in a header":          post + length + "X: a\x00b\r\n" + paidBody,
		"two payments":             post + length + signature + paidBody,
		"two different payments":   post + length + signature + signatureLine(another) + "\r\n" + body,
		"payment of 64 kB":         post + length + signatureLine(strings.Repeat("A", 64<<10)) + "\r\n" + body,
		"payment of 1 MB":          post + length + signatureLine(strings.Repeat("A", 1<<20)) + "\r\n" + body,
		"a thousand headers":       post + length + strings.Repeat("X-A: "+strings.Repeat("b", 100)+"\r\n", 1000) + paidBody,
		"HTTP/0.9":                 "GET " + purchasePath + "\r\n\r\n",
		"HTTP/3.0":                 "POST " + purchasePath + " HTTP/3.0\r\nHost: x\r\n" + length + paidBody,
		"garbage":                  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"cut body":                 post + "Content-Length: 500\r\n" + paidBody,
	}
}

// TestSmuggledRequestsAreRefused is attacks A30 and A32: nothing is served of such a request, nor of what follows it on
// the connection.
func TestSmuggledRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	payment := header(t, b.payment())
	before := w.footprint()
	for name, raw := range smuggledRequests(payment, header(t, b.payment())) {
		switch status := rawStatus(t, w, raw, strings.HasPrefix(name, "cut")); status {
		case 0, 400, 404, 413, 415, 431, 501, 505:
		default:
			t.Errorf("%s: status %d", name, status)
		}
	}
	w.wantFootprint("a smuggled request changed something", before)
	// A trailer is no header, so this asks for the terms.
	trailers := "POST " + purchasePath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Transfer-Encoding: chunked\r\nTrailer: PAYMENT-SIGNATURE\r\n\r\n0\r\n" + signatureLine(payment) + "\r\n"
	if status := rawStatus(t, w, trailers, false); status != 402 {
		t.Errorf("a payment in the trailers: status %d, want the challenge", status)
	}
	// An absolute request target names the same route, and not another resource.
	body := purchaseBody("raw")
	raw := "POST http://evil.example" + purchasePath + " HTTP/1.1\r\nHost: evil.example\r\n" +
		fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if status := rawStatus(t, w, raw, false); status != 402 {
		t.Errorf("absolute target: status %d, want the challenge", status)
	}
}

// signatureLine is the header line of a payment.
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
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // a TCP connection takes one
	_, _ = conn.Write([]byte(raw))                    // the server may have hung up in the middle
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
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second)) // clock: an answer must not come
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
	owner, b := w.buyer(), w.buyer()
	card := owner.buyCard("mine").Issuance.CardID
	b.signIn()

	b.wantUnavailable("issue paused", closed, fault.IssuePaused)
	ensureCard := post("/api/cards", "").on(closed)
	wantProblem(t, "POST /api/cards while paused", w.send(ensureCard.as(b)), 503, fault.IssuePaused)
	wantStatus(t, "POST /api/cards of an owner while paused", w.send(ensureCard.as(owner)), 200)

	w.issuer.openBIN(false)
	w.awaitTerms(fault.BINUnavailable)
	b.wantUnavailable("BIN closed", nil, fault.BINUnavailable)
	w.issuer.openBIN(true)
	w.awaitTerms(fault.PaymentRequired)

	w.issuer.setFloat(2499)
	w.awaitTerms(fault.FloatUnavailable)
	b.wantUnavailable("float a cent short", nil, fault.FloatUnavailable)
	w.issuer.setFloat(10_000_000)
	w.awaitTerms(fault.PaymentRequired)

	w.issuer.fault("stock", "error_before", 0, 0)
	w.awaitTerms(fault.DependencyDown)
	b.wantUnavailable("issuer down", nil, fault.DependencyDown)
	before := w.footprint()
	// The service stays ready: eSIMs are sold.
	ready := w.send(get("/ready"))
	ready.into(t, 200, nil)
	if !strings.Contains(string(ready.body), `{"name":"issuer","status":"failing"}`) {
		t.Errorf("ready without the issuer: %s", ready.body)
	}
	w.issuer.esimFault("*", "error_before", 0)
	var notReady answer
	eventually(t, func() (bool, string) {
		notReady = w.send(get("/ready"))
		return notReady.status == 503, "ready without a provider"
	})
	wantProblem(t, "not ready", notReady, 503, fault.NotReady)
	w.issuer.clearEsimFaults()
	if notReady.header.Get(x402.HeaderRequired) != "" {
		t.Error("/ready offers terms")
	}
	w.wantFootprint("/ready changed something", before)
	w.issuer.clearFaults()
	w.awaitTerms(fault.PaymentRequired)

	w.issuer.fault("balance", "error_before", 1, 0)
	balance := owner.get("/api/cards/" + card + "/balance")
	wantProblem(t, "balance while the issuer is down", balance, 503, fault.DependencyDown)
	wantProblem(t, "a second card", owner.buy("another"), 409, fault.CardAlreadyExists)
	w.checkBooks()
}

// wantUnavailable checks that a purchase is refused with 503 and without terms, paid or not, and changes nothing.
func (b *buyer) wantUnavailable(state string, at *instance, code fault.Code) {
	b.w.t.Helper()
	before := b.w.footprint()
	for name, payment := range map[string]string{"unpaid": "", "paid": header(b.w.t, b.payment())} {
		a := b.w.send(purchase("state", payment).on(at))
		wantProblem(b.w.t, state+", "+name, a, 503, code)
		if a.header.Get(x402.HeaderRequired) != "" {
			b.w.t.Errorf("%s, %s: terms are offered", state, name)
		}
	}
	b.w.wantFootprint(state+": a refused purchase changed something", before)
}

// awaitTerms waits until a request for the terms of a card is answered with a code: payment_required while it is sold.
func (w *world) awaitTerms(code fault.Code) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(purchase("state", ""))
		return a.is(code), string(a.body)
	})
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
		eventually(t, func() (bool, string) {
			r := purchase("alone", payment).on(i) // a paid one waits until the process has read what was paid
			a := w.send(r)
			return a.status == 503 && a.is(fault.WorkersUnavailable), string(a.body)
		})
		r := purchase("alone", payment).on(i)
		wantProblem(t, "the answer", w.send(r), 503, fault.WorkersUnavailable)
	}
	if len(w.orders()) != 0 || len(w.transfers()) != 0 {
		t.Error("something was sold without a worker")
	}
}
