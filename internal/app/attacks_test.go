package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestARepeatGetsTheSameOrderAndPaysNothing is A1 and A6: the same header again, another spelling of the
// same body, and a payment signed anew.
func TestARepeatGetsTheSameOrderAndPaysNothing(t *testing.T) {
	w := newWorld(t, plan{instances: 2})
	b := w.buyer()
	payment := header(t, b.payment())
	first := w.send(purchase("a", payment))
	var order sold
	first.into(t, 200, &order)
	w.settled(30 * time.Second)
	after := w.footprint()

	surplus := b.payment()
	repeats := map[string]request{
		"the same":          purchase("a", payment),
		"once more":         purchase("a", payment),
		"spaces":            {path: purchasePath, body: " {\r\n\t\"idempotencyKey\" : \"a\" } \n", header: map[string]string{x402.HeaderSignature: payment}},
		"escapes":           {path: purchasePath, body: `{"idempotencyKey":"\u0061"}`, header: map[string]string{x402.HeaderSignature: payment}},
		"signed anew":       purchase("a", header(t, surplus)),
		"another instance":  {at: w.instances[1], path: purchasePath, body: purchaseBody("a"), header: map[string]string{x402.HeaderSignature: payment}},
		"a trailing pad":    purchase("a", strings.TrimRight(payment, "=")),
		"upper-case nonce":  purchase("a", spoiledBy(t, b.payment(func(p *x402.Payment) { p.Authorization = decoded(t, payment).Authorization }), upperNonce)),
		"an expired one":    purchase("a", header(t, b.payment(func(p *x402.Payment) { p.Authorization.ValidBefore = 1 }))),
		"for another price": purchase("a", header(t, b.payment(func(p *x402.Payment) { p.Authorization.Value++ }))),
	}
	for name, r := range repeats {
		a := w.send(r)
		var again sold
		a.into(t, 200, &again)
		if again.OrderID != order.OrderID || again.Payment != order.Payment || !again.Replayed {
			t.Errorf("%s: %+v, want a replay of %+v", name, again, order)
		}
		if got, want := a.header.Get(x402.HeaderResponse), first.header.Get(x402.HeaderResponse); got != want {
			t.Errorf("%s: PAYMENT-RESPONSE %s, want %s", name, got, want)
		}
	}
	if now := w.footprint(); now != after {
		t.Errorf("the repeats left a trace:\n was %s\n now %s", after, now)
	}
	// The surplus signature is live money: it is nowhere.
	if dump := w.dump(); strings.Contains(dump, hex.EncodeToString(surplus.Signature[:])) || strings.Contains(dump, surplus.Authorization.Nonce.String()[2:]) {
		t.Error("a surplus authorization is stored")
	}
	if w.spent(surplus.Authorization) {
		t.Error("a surplus authorization was sent")
	}
	w.reconcile()
}

func upperNonce(_, a map[string]any) { a["nonce"] = "0x" + strings.ToUpper(a["nonce"].(string)[2:]) }

func spoiledBy(t *testing.T, p x402.Payment, change func(m, authorization map[string]any)) string {
	t.Helper()
	m := tree(t, p)
	change(m, m["payload"].(map[string]any)["authorization"].(map[string]any))
	return encodeTree(t, m)
}

func decoded(t *testing.T, payment string) x402.Payment {
	t.Helper()
	p, err := x402.DecodePayment(payment)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spent is the token's own word on an authorization.
func (w *world) spent(a x402.Authorization) bool {
	w.t.Helper()
	var word hexutil.Bytes
	w.rpc(&word, "eth_call", map[string]any{"to": usdc().String(), "data": hexutil.Encode(x402.StateCall(a.From, a.Nonce))}, "latest")
	return bigInt(word).Sign() != 0
}

// dump is every row of every table as text, but for the claimed signatures and the transactions that
// carry them, which have to be kept to be sent again.
func (w *world) dump() string {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	var all strings.Builder
	for table, row := range map[string]string{
		"orders": "t::text", "payments": "(to_jsonb(t) - 'signature')::text", "attempts": "(to_jsonb(t) - 'variants')::text", "cards": "t::text",
		"holds": "t::text", "timeline": "t::text", "jobs": "t::text", "sessions": "t::text", "challenges": "t::text", "workers": "t::text", "audit": "t::text",
	} {
		rows, err := w.db.Query(ctx, "SELECT "+row+" FROM "+table+" t")
		if err != nil {
			w.t.Fatalf("dump %s: %v", table, err)
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				w.t.Fatalf("dump %s: %v", table, err)
			}
			all.WriteString(text + "\n")
		}
		if err := rows.Err(); err != nil {
			w.t.Fatalf("dump %s: %v", table, err)
		}
	}
	return all.String()
}

// TestOneAuthorizationPaysForOneKey is A5, once the money has moved: the other keys learn nothing of the
// order, and are not told to pay again for what was paid.
func TestOneAuthorizationPaysForOneKey(t *testing.T) {
	w := newWorld(t, plan{})
	b := w.buyer()
	payment := header(t, b.payment())
	var order sold
	w.send(purchase("mine", payment)).into(t, 200, &order)
	w.settled(30 * time.Second)
	for _, key := range []string{"other", "mine ", "Mine", "mine\u200b"} {
		a := w.send(purchase(key, payment))
		if a.status != 409 || a.problem.Code != string(fault.AuthorizationAlreadyUsed) || a.problem.OrderID != "" {
			t.Errorf("key %q: %d %s", key, a.status, clipped(a.body))
		}
		if bytes.Contains(a.body, []byte(order.OrderID)) || bytes.Contains(a.body, []byte(order.Payment.Transaction)) {
			t.Errorf("key %q: the answer tells of the order: %s", key, a.body)
		}
	}
	w.reconcile()
}

// TestAKeyIsNobodysSecret is A9: another wallet's key is as good as an unknown one, and gets the payer an
// order of the payer's own.
func TestAKeyIsNobodysSecret(t *testing.T) {
	w := newWorld(t, plan{})
	victim, thief := w.buyer(), w.buyer()
	order := victim.bought("the victim's key")
	known, unknown := w.send(purchase("the victim's key", "")), w.send(purchase("a key nobody has", ""))
	if diff := cmp.Diff(faceOf(t, unknown), faceOf(t, known)); diff != "" {
		t.Errorf("a used key shows in the challenge (-unknown +used):\n%s", diff)
	}
	// A payment that names the victim and is not signed by the victim.
	forged := victim.payment()
	forged.Signature = thief.payment().Signature
	a, b := w.send(purchase("the victim's key", header(t, forged))), w.send(purchase("a key nobody has", header(t, forged)))
	if diff := cmp.Diff(faceOf(t, b), faceOf(t, a)); diff != "" || a.status != 402 {
		t.Errorf("a used key shows in the refusal (-unknown +used):\n%s", diff)
	}
	var own sold
	thief.buy("the victim's key").into(t, 200, &own)
	if own.OrderID == order.OrderID || own.Payment.Payer != thief.address.String() {
		t.Errorf("the thief got %+v", own)
	}
	// An order of another's and one that does not exist look the same, too.
	thief.signIn()
	a, b = thief.get("/api/orders/"+order.OrderID), thief.get("/api/orders/ord_"+uuid.NewString())
	if diff := cmp.Diff(faceOf(t, b), faceOf(t, a)); diff != "" || a.status != 404 {
		t.Errorf("another's order shows (-unknown +another's):\n%s", diff)
	}
	w.reconcile()
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	quoteID = regexp.MustCompile(`"quoteId":"[^"]*"`)
)

// faceOf is everything an answer shows but its ids, its time and what is signed over the time.
func faceOf(t *testing.T, a answer) string {
	t.Helper()
	h := maps.Clone(a.header)
	delete(h, "Date")
	if required := h.Get(x402.HeaderRequired); required != "" {
		raw, err := base64.StdEncoding.DecodeString(required)
		if err != nil {
			t.Fatal(err)
		}
		h.Set(x402.HeaderRequired, quoteID.ReplaceAllString(string(raw), `"quoteId":""`))
	}
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintln(&b, name, h[name])
	}
	b.Write(a.body)
	return uuids.ReplaceAllString(b.String(), "an id")
}

// TestWhoWatchesTheChainGetsNothing is A10: a settled signature is public, and whoever rebuilds the
// header from the call data learns nothing without the key, and no secret with it.
func TestWhoWatchesTheChainGetsNothing(t *testing.T) {
	w := newWorld(t, plan{})
	b := w.buyer()
	order := b.bought("k")
	var tx struct {
		Input hexutil.Bytes `json:"input"`
	}
	w.rpc(&tx, "eth_getTransactionByHash", order.Payment.Transaction)
	rebuilt := b.payment()
	rebuilt.Authorization = x402.Authorization{
		From: x402.Address(tx.Input[16:36]), To: x402.Address(tx.Input[48:68]), Value: moneyOf(bigInt(tx.Input[68:100]).Int64()),
		ValidAfter: bigInt(tx.Input[100:132]).Uint64(), ValidBefore: bigInt(tx.Input[132:164]).Uint64(), Nonce: x402.Hash(tx.Input[164:196]),
	}
	copy(rebuilt.Signature[:], tx.Input[228:292])
	rebuilt.Signature[64] = tx.Input[227]
	if domain().Verify(rebuilt.Authorization, rebuilt.Signature) != nil {
		t.Fatal("the header was not rebuilt")
	}
	for _, key := range []string{"a", "K", "1", "key"} {
		if a := w.send(purchase(key, header(t, rebuilt))); a.status != 409 || bytes.Contains(a.body, []byte("ord_")) {
			t.Errorf("guessed key %q: %d %s", key, a.status, clipped(a.body))
		}
	}
	a := w.send(purchase("k", header(t, rebuilt)))
	a.into(t, 200, nil)
	for _, secret := range []string{"number", "securityCode", "400000", "lpa", "iccid", "accessToken", "token\""} {
		if bytes.Contains(a.body, []byte(secret)) {
			t.Errorf("the right key shows %s: %s", secret, a.body)
		}
	}
	w.reconcile()
}

// TestTheTermsCannotBeSwapped is A4 and A11: a quote is honoured as it was made, and nothing in it or
// beside it lowers a price.
func TestTheTermsCannotBeSwapped(t *testing.T) {
	w := newWorld(t, plan{})
	b := w.buyer()
	required, err := x402.DecodeRequired(w.send(purchase("t", "")).header.Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	quote, _ := required.Accepts[0].Extra["quoteId"].(string)
	cheap := func(id any) x402.Payment {
		return b.payment(func(p *x402.Payment) {
			p.Accepted.Extra["quoteId"], p.Accepted.Amount, p.Authorization.Value = id, "10000", 10_000
		})
	}
	raw, err := base64.RawURLEncoding.DecodeString(quote)
	if err != nil {
		t.Fatal(err)
	}
	swapped := base64.RawURLEncoding.EncodeToString(append(raw[:16:16], bytes.Replace(raw[16:], []byte(`"p":2500`), []byte(`"p":1`), 1)...))
	unsigned := base64.RawURLEncoding.EncodeToString(append(make([]byte, 16), bytes.Replace(raw[16:], []byte(`"p":2500`), []byte(`"p":1`), 1)...))
	var cases []wrong
	for name, id := range map[string]any{"genuine": quote, "price swapped": swapped, "unsigned": unsigned, "number": 5, "object": map[string]any{}, "long": strings.Repeat("A", 4000), "none": nil} {
		cases = append(cases, wrong{"cheap, quote " + name, purchase("t", header(t, cheap(id))), 402, fault.PaymentRejected})
	}
	w.refuseAll(cases)
	// At the right price a quote of nobody's does no harm.
	for name, id := range map[string]any{"genuine": quote, "swapped": swapped, "foreign": "q_123", "number": 7} {
		b := w.buyer()
		a := w.send(purchase("t", header(t, b.payment(func(p *x402.Payment) { p.Accepted.Extra["quoteId"] = id }))))
		if a.status != 200 {
			t.Errorf("full price, quote %s: %d %s", name, a.status, clipped(a.body))
		}
	}
	w.reconcile()
}

// TestAccountsWithCodeCannotPay is A28: the token asks such an account's code, which may change its mind.
func TestAccountsWithCodeCannotPay(t *testing.T) {
	w := newWorld(t, plan{})
	var cases []wrong
	for name, code := range map[string]string{"7702 delegation": "0xef0100" + strings.Repeat("11", 20), "reverts": "0x60006000fd", "stops": "0x00"} {
		b := w.buyer()
		w.rpc(nil, "anvil_setCode", b.address.String(), code)
		cases = append(cases, wrong{name, purchase("code", header(t, b.payment())), 402, fault.PaymentRejected})
	}
	w.refuseAll(cases)
}

// TestTheHostOfARequestReachesNothing is A33.
func TestTheHostOfARequestReachesNothing(t *testing.T) {
	w := newWorld(t, plan{})
	want := faceOf(t, w.send(purchase("h", "")))
	for name, value := range map[string]string{
		"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/evil",
		"Forwarded": "host=evil.example;proto=http", "X-Forwarded-Server": "evil.example", "X-Original-Host": "evil.example", "Origin": "https://evil.example",
	} {
		r := purchase("h", "")
		r.header = map[string]string{name: value}
		a := w.send(r)
		required, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
		if err != nil || required.Resource.URL != origin+purchasePath {
			t.Errorf("%s: resource %q (%v)", name, required.Resource.URL, err)
		}
		if name != "Origin" {
			if diff := cmp.Diff(want, faceOf(t, a)); diff != "" {
				t.Errorf("%s shows:\n%s", name, diff)
			}
		}
	}
}

// TestNothingThatMattersIsCached is A35 over every route, well answered or not.
func TestNothingThatMattersIsCached(t *testing.T) {
	w := newWorld(t, plan{})
	b := w.buyer()
	order := b.bought("c")
	var ch struct{ IntentID, Message string }
	b.post("/api/cards/"+order.Issuance.CardID+"/reveal-challenge", "{}").into(t, 200, &ch)
	routes := []request{
		purchase("c", ""), purchase("c", header(t, b.payment())), purchase("c", "x"), {method: "GET", path: purchasePath}, {path: purchasePath, body: "{"},
		{method: "GET", path: "/api/cards", header: b.bearer()}, {path: "/api/cards", header: b.bearer()}, {method: "GET", path: "/api/cards"},
		{method: "GET", path: "/api/cards/" + order.Issuance.CardID + "/balance", header: b.bearer()},
		{path: "/api/cards/" + order.Issuance.CardID + "/reveal-challenge", body: "{}", header: b.bearer()},
		{path: "/api/cards/" + order.Issuance.CardID + "/reveal", body: revealBody(ch.IntentID, b.sign(ch.Message)), header: b.bearer()},
		{method: "GET", path: "/api/orders", header: b.bearer()}, {method: "GET", path: "/api/orders/" + order.OrderID, header: b.bearer()},
		{method: "GET", path: "/api/auth/session", header: b.bearer()}, {path: "/api/auth/challenge", body: `{"address":` + quoted(b.address.String()) + `}`},
		{path: "/api/auth/verify", body: `{}`}, {path: "/api/auth/logout", header: b.bearer()},
		{method: "GET", path: "/health"}, {method: "GET", path: "/ready"}, {method: "GET", path: "/nowhere"}, {method: "GET", path: "/api/config"}, {method: "GET", path: "/api/card/discovery"},
	}
	for _, r := range routes {
		a := w.send(r)
		h := a.header
		if !strings.Contains(h.Get("Cache-Control"), "no-store") {
			t.Errorf("%s %s (%d): Cache-Control %q", r.method, r.path, a.status, h.Get("Cache-Control"))
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Etag") != "" || h.Get("Last-Modified") != "" ||
			h.Get("Content-Security-Policy") == "" || h.Get("Strict-Transport-Security") == "" || h.Get("Server") != "" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s %s (%d): headers %v", r.method, r.path, a.status, h)
		}
		if !slices.ContainsFunc(h.Values("Vary"), func(v string) bool { return strings.Contains(v, "Origin") }) && h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s %s (%d): Vary %v with origin %q", r.method, r.path, a.status, h.Values("Vary"), h.Get("Access-Control-Allow-Origin"))
		}
	}
}

// TestUnpaidRequestsCostNothing is A41, A42 and A45: challenges and cheap refusals write nothing, hold
// nothing and ask the chain nothing.
func TestUnpaidRequestsCostNothing(t *testing.T) {
	node := newNodeProxy(t, sharedChain(t).RPCURL)
	w := newWorld(t, plan{change: func(c *app.Config) { c.RPCURLs = []string{node.url} }})
	b := w.buyer()
	requests := []request{purchase("u", ""), {path: purchasePath}, purchase("u", "!"), {path: purchasePath, body: "{}"}}
	for _, c := range append(headerCases(t, b), rejectedCases(t, b)...) {
		requests = append(requests, c.r)
	}
	before, asked := w.footprint(), node.asked()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < len(requests); i += 8 {
				if a := w.send(requests[i]); a.err != nil || a.status >= 500 {
					t.Errorf("request %d: %d %v", i, a.status, a.err)
				}
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(asked, node.asked()); diff != "" {
		t.Errorf("%d refused requests asked the chain:\n%s", len(requests), diff)
	}
	if after := w.footprint(); after != before {
		t.Errorf("the requests left a trace:\n was %s\n now %s", before, after)
	}
}

// TestNoSecretIsWrittenDown is A44: after a whole story, from the terms to the reveal, with faults, no
// secret is in the log, and none but the claimed signatures in the database.
func TestNoSecretIsWrittenDown(t *testing.T) {
	var log lockedBuffer
	w := newWorld(t, plan{log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	b := w.buyer()
	w.issuer.fault("open", "error_after", 1, 0) // its text repeats what must not be seen
	w.issuer.fault("move", "error_after", 1, 0)
	p := b.payment()
	surplus := b.payment()
	var order sold
	w.send(purchase("secret-story", header(t, p))).into(t, 200, &order)
	w.send(purchase("secret-story", header(t, surplus))).into(t, 200, nil)
	w.settled(60 * time.Second)
	b.signIn()
	b.get("/api/orders/"+order.OrderID).into(t, 200, &order)
	reveal := func() answer {
		var ch struct{ IntentID, Message string }
		b.post("/api/cards/"+order.Issuance.CardID+"/reveal-challenge", "{}").into(t, 200, &ch)
		return b.post("/api/cards/"+order.Issuance.CardID+"/reveal", revealBody(ch.IntentID, b.sign(ch.Message)))
	}
	w.issuer.fault("sensitive", "error_after", 1, 0)
	w.issuer.fault("sensitive", "malformed", 1, 0)
	for range 2 {
		if a := reveal(); a.status != 503 {
			t.Errorf("reveal from a failing issuer: %d", a.status)
		}
	}
	var shown struct {
		Credentials struct{ Number, SecurityCode string } `json:"credentials"`
	}
	reveal().into(t, 200, &shown)
	if len(shown.Credentials.Number) < 12 {
		t.Fatalf("no card was revealed")
	}
	secrets := map[string]string{
		"the bearer": b.token, "the buyer's key": hex.EncodeToString(b.key.D.Bytes()), "the relayer's key": strings.TrimPrefix(w.config.RelayerKeys[0].Reveal(), "0x"),
		"the payment": hex.EncodeToString(p.Signature[:]), "the surplus payment": hex.EncodeToString(surplus.Signature[:]), "the header": header(t, p)[200:260],
		"the number": shown.Credentials.Number, "the number in fours": grouped(shown.Credentials.Number), "the quote key": w.config.QuoteKey.Reveal(),
		"the issuer's answer": `"securityCode"`,
	}
	dump := w.dump()
	for name, secret := range secrets {
		for form, text := range map[string]string{"plain": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "hex": hex.EncodeToString([]byte(secret))} {
			if strings.Contains(log.String(), text) {
				t.Errorf("%s is in the log (%s)", name, form)
			}
			if strings.Contains(dump, text) {
				t.Errorf("%s is in the database (%s)", name, form)
			}
		}
	}
	if !strings.Contains(log.String(), "secret-story") && !strings.Contains(log.String(), `"call"`) {
		t.Error("the log is empty: nothing was looked at")
	}
	w.reconcile()
}

func grouped(number string) string {
	var parts []string
	for len(number) > 4 {
		parts, number = append(parts, number[:4]), number[4:]
	}
	return strings.Join(append(parts, number), " ")
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
