package endtoend_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// canaries are secrets by what they are. Each is unlike anything else, so finding one is a leak.
type canaries map[string]string

// plant makes a secret with a prefix and keeps it.
func (c canaries) plant(name, prefix string) string {
	random := make([]byte, 24)
	_, _ = rand.Read(random) // never fails
	c[name] = prefix + hex.EncodeToString(random)
	return c[name]
}

// plantNumber plants digits.
func (c canaries) plantNumber(name, prefix string, length int) string {
	random := make([]byte, length)
	_, _ = rand.Read(random) // never fails
	text := []byte(prefix)
	for _, b := range random {
		text = append(text, '0'+b%10)
	}
	c[name] = string(text[:length])
	return c[name]
}

// forms are the ways in which a secret can be written.
func forms(secret string) map[string]string {
	raw := []byte(secret)
	quoted, _ := json.Marshal(secret) // a string always marshals
	all := map[string]string{
		"plain":   secret,
		"hex":     hex.EncodeToString(raw),
		"escaped": strings.Trim(strconv.QuoteToASCII(secret), `"`),
		"JSON":    strings.Trim(string(quoted), `"`),
		"URL":     url.QueryEscape(secret),
		"spaced":  grouped(secret),
	}
	// Base64 of a text that begins with something else has another form for each of three places.
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), raw...))
		middle := text[4 : len(text)-4]
		all[fmt.Sprintf("base64, shifted by %d", shift)] = middle
		all[fmt.Sprintf("base64url, shifted by %d", shift)] = strings.NewReplacer("+", "-", "/", "_").Replace(middle)
	}
	if digits, ok := strings.CutPrefix(secret, "0x"); ok {
		all["hex without 0x"] = digits
		if bytes, err := hex.DecodeString(digits); err == nil {
			all["raw base64"] = base64.RawStdEncoding.EncodeToString(bytes)[:len(digits)/2]
			all["raw"] = string(bytes)
		}
	}
	return all
}

// sink is a collector of OTLP: it keeps all that is sent.
type sink struct{ lockedBuffer }

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if unzipped, err := gzip.NewReader(r.Body); err == nil {
			body = unzipped
		}
	}
	var all bytes.Buffer
	if _, err := all.ReadFrom(body); err == nil {
		_, _ = s.Write(all.Bytes()) // never fails
	}
}

// TestPlantedSecretsAreNeverExposed runs everything once, well and badly, with a secret in every place
// that can take one, and then looks for them in all that is written: log, traces, metrics and logs of
// OTLP, the metrics page, a dump of the database, and the answers of MCP tools.
func TestPlantedSecretsAreNeverExposed(t *testing.T) {
	var log lockedBuffer
	out := &sink{}
	collector := httptest.NewServer(out)
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	tel := startTelemetry(t)
	secrets := canaries{}
	operatorToken := secrets.plant("the operator's token", "rco_")
	analyst := newKey(t)
	w := newWorld(t, plan{
		telemetry: tel,
		log:       tel.Logger(telemetry.NewLogger(&log, slog.LevelDebug, true)),
		change: func(c *app.Config) {
			c.MetricsAddr = "127.0.0.1:0"
			c.Operators, c.Activity = []auth.Operator{newOperator("ada", operatorToken)}, []x402.Address{addressOf(analyst)}
			quote := make([]byte, 32)
			_, _ = rand.Read(quote) // never fails
			c.QuoteKey = secret.New(hex.EncodeToString(quote))
		},
	})
	secrets["the quote key"] = w.config.QuoteKey.Reveal()
	secrets["the receipts' key"] = w.config.ReceiptKeys[0].Reveal()
	secrets["the relayer's key"] = w.config.RelayerKeys[0].Reveal()
	secrets["the issuer's key"] = w.config.IssuerKey.Reveal()
	w.runPurchaseStory(secrets)
	w.sendStrangerSecrets(secrets, operatorToken)
	w.sendEventSecrets(secrets)
	told := w.callTools(secrets)
	(&buyer{w: w, key: analyst, address: addressOf(analyst)}).readActivityReport(secrets)

	if len(secrets) < 40 {
		t.Errorf("%d secrets are planted", len(secrets))
	}
	page, dump := scrape(t, w.instances[0].metrics), w.dump()
	w.instances[0].stop()
	if err := tel.Stop(t.Context()); err != nil {
		t.Errorf("send what is queued: %v", err)
	}
	secrets.wantAbsent(t, map[string]place{
		"the log":                {log.String(), `"msg":"job attempt"`},
		"what the collector got": {out.String(), "checkout.buy"},
		"the metrics":            {page, "payment_settlements_total"},
		"the database":           {dump, "fulfilled"},
		"the answers of tools":   {told, "payable_url"},
	})
}

// place is where a secret may have been written, and a text that shows that it was looked at.
type place struct{ written, sign string }

// wantAbsent looks for each secret, in all its forms, in all places.
func (c canaries) wantAbsent(t *testing.T, places map[string]place) {
	t.Helper()
	small := map[string]string{}
	for name, p := range places {
		if !strings.Contains(p.written, p.sign) {
			t.Errorf("%s lacks %q: nothing was looked at", name, p.sign)
		}
		small[name] = strings.ToLower(p.written)
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if len(c[name]) < 3 {
			t.Errorf("%s is %q", name, c[name])
			continue
		}
		for form, text := range forms(c[name]) {
			for where, written := range small {
				if len(text) >= 8 && strings.Contains(written, strings.ToLower(text)) {
					t.Errorf("%s is in %s (%s)", name, where, form)
				}
			}
		}
	}
}

// runPurchaseStory is a buyer's whole story: paid once and again, signed in by both schemes, revealed in spite of an
// issuer that fails with its secrets in hand.
func (w *world) runPurchaseStory(secrets canaries) {
	t, b := w.t, w.buyer()
	w.issuer.fault("open", "error_after", 1, 0)
	w.issuer.fault("move", "error_after", 1, 0)
	paid, surplus := b.payment(), b.payment()
	secrets["the buyer's key"] = "0x" + hex.EncodeToString(crypto.FromECDSA(b.key))
	secrets["the payment's signature"] = "0x" + hex.EncodeToString([]byte(paid.Signature))
	secrets["the surplus payment's signature"] = "0x" + hex.EncodeToString([]byte(surplus.Signature))
	secrets["the payment header"] = header(t, paid)[300:380]
	var order paidOrder
	w.send(purchase("canary-story", header(t, paid))).into(t, 200, &order)
	w.send(purchase("canary-story", header(t, surplus))).into(t, 200, nil)
	other := purchase("canary-story", header(t, b.payment(func(p *x402.Payment) { p.Authorization.Value++ })))
	secrets["a rejected header"] = other.header[x402.HeaderSignature][200:280]
	w.send(other)
	w.awaitSettled()

	var ch struct{ IntentID, Message string }
	w.send(challengeRequest(b.address.String())).into(t, 200, &ch)
	signature := b.sign(ch.Message)
	secrets["the sign-in signature"] = signature
	// texts always marshal
	body, _ := json.Marshal(map[string]string{
		"address":   b.address.String(),
		"intentId":  ch.IntentID,
		"signature": signature,
	})
	var session struct{ AccessToken string }
	w.send(post("/api/auth/verify", string(body))).into(t, 200, &session)
	w.send(post("/api/auth/verify", string(body))) // once more: refused
	b.token = session.AccessToken
	secrets["the bearer"] = b.token
	b.get("/api/orders/"+order.OrderID).into(t, 200, &order)

	w.issuer.fault("sensitive", "error_after", 1, 0)
	w.issuer.fault("sensitive", "malformed", 1, 0)
	w.issuer.fault("balance", "error_after", 1, 0)
	for i := range 3 {
		b.post("/api/cards/"+order.Issuance.CardID+"/reveal-challenge", "{}").into(t, 200, &ch)
		signature := b.sign(ch.Message)
		secrets[fmt.Sprintf("reveal signature %d", i+1)] = signature
		a := b.post("/api/cards/"+order.Issuance.CardID+"/reveal", revealBody(ch.IntentID, signature))
		if a.status == 200 {
			var shown struct {
				Credentials struct{ Number, SecurityCode string }
			}
			a.into(t, 200, &shown)
			secrets["the card's number"] = shown.Credentials.Number
			secrets["the card's number in fours"] = grouped(shown.Credentials.Number)
			secrets["the card's code, as the issuer says it"] = `"securityCode":"` + shown.Credentials.SecurityCode + `"`
		}
		b.get("/api/cards/" + order.Issuance.CardID + "/balance")
	}
	if secrets["the card's number"] == "" {
		t.Error("no card was revealed")
	}
	w.awaitEsimReady(nil)
	travel := b.buyEsim("canary-travel")
	if travel.Credentials == nil {
		t.Fatalf("no eSIM was shown: %s", travel.Status)
	}
	secrets["the eSIM's ICCID"], secrets["the eSIM's matching id"] = travel.Credentials.ICCID,
		travel.Credentials.MatchingID
	secrets["the eSIM's LPA"], secrets["the eSIM's delivery token"] = travel.Credentials.LPA, travel.Delivery.Token
	b.post("/api/auth/logout", "").into(t, 200, nil)
}

// sendStrangerSecrets sends a secret wherever a stranger's request can have one.
func (w *world) sendStrangerSecrets(secrets canaries, operatorToken string) {
	for _, requests := range []map[string]request{
		secretHeaders(secrets), secretPaths(secrets, operatorToken), secretBodies(secrets),
	} {
		for name, r := range requests {
			if a := w.send(r); a.status == 0 || a.status >= 500 {
				w.t.Errorf("%s: %d %s (%v)", name, a.status, a.body, a.err)
			}
		}
	}
}

// secretHeaders are requests with a secret in a header.
func secretHeaders(secrets canaries) map[string]request {
	return map[string]request{
		"an unknown bearer": {method: "GET", path: "/api/cards",
			header: bearerOf(secrets.plant("an unknown bearer", "rcs_"))},
		"a basic authorization": {method: "GET", path: "/api/cards",
			header: map[string]string{"Authorization": "Basic " + secrets.plant("a basic authorization", "")}},
		"a wrong operator's token": {method: "GET", path: "/api/admin/card-issue-fee/jobs",
			header: bearerOf(secrets.plant("a wrong operator's token", "rco_"))},
		"a delivery token": {method: "GET", path: "/api/cards",
			header: map[string]string{"X-Esim-Delivery-Token": secrets.plant("a delivery token", "rcd_")}},
		"a cookie": {method: "GET", path: "/api/config",
			header: map[string]string{"Cookie": "session=" + secrets.plant("a cookie", "")}},
		"a user agent": {method: "GET", path: "/api/config",
			header: map[string]string{"User-Agent": secrets.plant("a user agent", "Mozilla/")}},
		"a referrer": {method: "GET", path: "/api/config",
			header: map[string]string{"Referer": "https://evil.example/" + secrets.plant("a referrer", "")}},
		"a forwarded address": {method: "GET", path: "/api/config",
			header: map[string]string{"X-Forwarded-For": secrets.plant("a forwarded address", "")}},
		"a host": {method: "GET", path: "/api/config",
			header: map[string]string{"Host": secrets.plant("a host", "h") + ".example"}},
		"an origin": {method: "GET", path: "/api/config",
			header: map[string]string{"Origin": "https://" + secrets.plant("an origin", "o") + ".example"}},
		"a request id": {method: "GET", path: "/api/config",
			header: map[string]string{"X-Request-Id": "a " + secrets.plant("a request id", "")}},
		"a trace state": {path: purchasePath, body: purchaseBody("x"),
			header: map[string]string{
				"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				"Tracestate":  "k=" + secrets.plant("a trace state", ""),
			}},
		"baggage": {path: purchasePath, body: purchaseBody("x"),
			header: map[string]string{"Baggage": "k=" + secrets.plant("baggage", "")}},
		"a sign-in header": {path: purchasePath, body: purchaseBody("x"),
			header: map[string]string{"Sign-In-With-X": secrets.plant("a sign-in header", "")}},
		"a payment that is no payment": {path: purchasePath, body: purchaseBody("x"),
			header: map[string]string{x402.HeaderSignature: secrets.plant("a payment that is no payment", "")}},
		"a payment of nonsense": {path: purchasePath, body: purchaseBody("x"), header: map[string]string{
			x402.HeaderSignature: base64.StdEncoding.EncodeToString([]byte(`{"x402Version":2,"payload":{"signature":"` +
				secrets.plant("a payment of nonsense", "0x") + `"}}`))}},
		"a bearer of a procedure": {path: "/roamcard.v1.OrderService/ListOrders", body: `{}`,
			header: bearerOf(secrets.plant("a bearer of a procedure", "rcs_"))},
		"a payment of a procedure": {path: "/roamcard.v1.CardService/PurchaseCard", body: purchaseBody("x"),
			header: map[string]string{x402.HeaderSignature: secrets.plant("a payment of a procedure", "")}},
	}
}

// secretPaths are requests with a secret in the method, the path or the query.
func secretPaths(secrets canaries, operatorToken string) map[string]request {
	return map[string]request{
		"a query":        {method: "GET", path: "/api/orders?token=" + secrets.plant("a query", "")},
		"a query's name": {method: "GET", path: "/api/config?" + secrets.plant("a query's name", "q") + "=1"},
		"a path":         {method: "GET", path: "/" + secrets.plant("a path", "p")},
		"an order's id":  {method: "GET", path: "/api/orders/" + secrets.plant("an order's id", "ord_")},
		"a card's id":    {method: "GET", path: "/api/cards/" + secrets.plant("a card's id", "c") + "/balance"},
		"a procedure":    {path: "/roamcard.v1.CardService/" + secrets.plant("a procedure", "P"), body: "{}"},
		"a method":       {method: "M" + secrets.plant("a method", "M"), path: "/health"},
		"a job's id": {path: "/api/admin/card-issue-fee/jobs/" + secrets.plant("a job's id", "j") +
			"/reconcile", header: bearerOf(operatorToken)},
		"a number as key of a query": {method: "GET", path: "/api/config?pan=" +
			secrets.plantNumber("a number as key of a query", "4", 16)},
	}
}

// secretBodies are requests with a secret in the body.
func secretBodies(secrets canaries) map[string]request {
	json := map[string]string{"Content-Type": "application/json"}
	return map[string]request{
		"a member's name": {path: purchasePath, body: `{"` + secrets.plant("a member's name", "m") + `":1}`},
		"a member's value": {path: purchasePath, body: `{"note":"` + secrets.plant("a member's value", "") +
			`"}`},
		"broken JSON": {path: purchasePath, body: `{"idempotencyKey":"` + secrets.plant("broken JSON", "")},
		"an unknown signature": {path: "/api/auth/verify",
			body: `{"address":"0x0000000000000000000000000000000000000001","signature":"` +
				secrets.plant("an unknown signature", "0x") + `"}`},
		"an unknown message": {path: "/api/auth/verify",
			body: `{"address":"0x0000000000000000000000000000000000000001","signature":"0x","message":"` +
				secrets.plant("an unknown message", "") + `"}`},
		"an address that is none": {path: "/api/auth/challenge", body: `{"address":"` +
			secrets.plant("an address that is none", "0x") + `"}`},
		"a member of a procedure": {path: "/roamcard.v1.CardService/PurchaseCard", body: `{"note":"` +
			secrets.plant("a member of a procedure", "") + `"}`, header: json},
	}
}

// sendEventSecrets sends product events with what they must not hold.
func (w *world) sendEventSecrets(secrets canaries) {
	for name, changes := range map[string]map[string]any{
		"a PAN in an event": {"path": "/card/" + secrets.plantNumber("a PAN in an event", "4", 16)},
		"a code in an event": {"properties": map[string]any{"step": "cvv_" +
			secrets.plantNumber("a code in an event", "", 9)}},
		"an ICCID in an event": {"properties": map[string]any{"product": secrets.plantNumber("an ICCID in an event", "89",
			19)}},
		"an LPA in an event": {"properties": map[string]any{"note": "LPA:1$rsp.example.com$" +
			secrets.plant("an LPA in an event", "")}},
		"a wallet in an event":  {"properties": map[string]any{secrets.plant("a wallet in an event", "0x"): "card"}},
		"an e-mail in an event": {"path": "/" + secrets.plant("an e-mail in an event", "a") + "@example.com"},
		"a token in an event":   {"eventName": secrets.plant("a token in an event", "rcs_")},
		"a visitor's name":      {"visitorId": secrets.plant("a visitor's name", "")},
		"an order in an event":  {"path": "/pay/" + secrets.plantNumber("an order in an event", "ord_0199", 40)},
		"something in base64": {"path": "/" +
			base64.RawURLEncoding.EncodeToString([]byte(secrets.plant("something in base64", "rcs_")))},
		"a visitor that is known": {"visitorId": secrets.plantVisitor("a visitor that is known")},
	} {
		if a := w.send(post("/api/events", eventBody(changes))); a.status != 400 && a.status != 202 {
			w.t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// plantVisitor plants a visitor's id, which is accepted, and of which only a digest may be kept.
func (c canaries) plantVisitor(name string) string {
	c[name] = uuid.NewString()
	return c[name]
}

// readActivityReport reads what operators read, which must not hold a secret either.
func (b *buyer) readActivityReport(secrets canaries) {
	b.signIn()
	secrets["the analyst's bearer"] = b.token
	a := b.get("/api/admin/activity?days=1")
	a.into(b.w.t, 200, nil)
	for name, secret := range secrets {
		if strings.Contains(string(a.body), secret) {
			b.w.t.Errorf("%s is in the report of activity", name)
		}
	}
}
