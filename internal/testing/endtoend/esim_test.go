package endtoend_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const esimPath = "/api/esim/purchase"

// esimOrder is what an answer tells of an eSIM order.
type esimOrder struct {
	OrderID  string `json:"orderId"`
	Status   string `json:"status"`
	Replayed bool   `json:"replayed"`
	Delivery struct {
		Status string `json:"status"`
		PlanID string `json:"planId"`
		Token  string `json:"token"`
	} `json:"delivery"`
	Credentials *esimCredentials `json:"credentials"`
}

type esimCredentials struct {
	ICCID, SMDPAddress, MatchingID, LPA, QRSVG, QRPNG string
}

// esimTerms asks for the terms of the cheapest eSIM.
func (w *world) esimTerms(key string) x402.PaymentRequired {
	w.t.Helper()
	a := w.send(post(esimPath, purchaseBody(key)))
	if a.status != 402 {
		w.t.Fatalf("no terms: %d %s", a.status, clipped(a.body))
	}
	required, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
	if err != nil {
		w.t.Fatal(err)
	}
	return required
}

// esimPayment is a good payment for terms.
func (b *buyer) esimPayment(terms x402.PaymentRequired) string {
	b.w.t.Helper()
	var amount int64
	if _, err := fmt.Sscan(terms.Accepts[0].Amount, &amount); err != nil {
		b.w.t.Fatal(err)
	}
	return header(b.w.t, b.payment(func(p *x402.Payment) {
		p.Accepted, p.Resource, p.Authorization.Value = terms.Accepts[0], terms.Resource, moneyOf(amount)
	}))
}

// esimPurchase is the request that buys the cheapest eSIM with a payment header.
func esimPurchase(key, payment string) request {
	return post(esimPath, purchaseBody(key)).paying(payment)
}

// buyEsim buys the cheapest eSIM.
func (b *buyer) buyEsim(key string) esimOrder {
	b.w.t.Helper()
	var o esimOrder
	b.w.send(esimPurchase(key, b.esimPayment(b.w.esimTerms(key)))).into(b.w.t, 200, &o)
	return o
}

func (w *world) awaitEsimReady(i *instance) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(get("/api/esim/ready").on(i))
		return a.status == 200, string(a.body)
	})
}

// TestEsimSalesDoNotDependOnCardIssuer: readiness and sale of eSIMs depend on nothing of the issuer's.
func TestEsimSalesDoNotDependOnCardIssuer(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	w.awaitEsimReady(nil)
	w.issuer.openBIN(false)
	w.issuer.setFloat(0)
	w.issuer.fault("*", "error_before", 0, 0)
	eventually(t, func() (bool, string) {
		a := w.send(get("/ready"))
		return a.status == 200 && strings.Contains(string(a.body), `{"name":"issuer","status":"failing"}`),
			"ready without an issuer: " + string(clipped(a.body))
	})
	wantStatus(t, "eSIMs are not ready", w.send(get("/api/esim/ready")), 200)
	o := w.buyer().buyEsim("travel-without-a-card-1")
	if o.Status != "fulfilled" || o.Credentials == nil || o.Credentials.LPA == "" {
		t.Errorf("bought %+v", o)
	}
	w.issuer.clearFaults()
	w.checkBooks()
}

// TestEsimsAreNotSoldWhileUndeliverable covers the 503 rows of the table, and that they end by themselves.
func TestEsimsAreNotSoldWhileUndeliverable(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		plan{change: func(c *app.Config) { c.Esim.SyncEvery, c.Esim.StaleAfter = time.Second, 3*time.Second }})
	w.awaitEsimReady(nil)
	paused := w.config
	paused.Esim.Paused = true
	closed := w.awaitCaughtUp(w.start(paused))
	b := w.buyer()
	b.signIn()
	good := b.esimPayment(w.esimTerms("state"))
	refused := func(name string, at *instance, code fault.Code) {
		t.Helper()
		before := len(w.transfers())
		session := b.bearer()
		session["Idempotency-Key"] = "state-order"
		for leg, r := range map[string]request{
			"unpaid": {at: at, path: esimPath, body: purchaseBody("state")},
			"paid":   esimPurchase("state", good).on(at),
			"order":  {at: at, path: "/api/esim/orders", body: "{}", header: session},
		} {
			if a := w.send(r); a.status != 503 || !a.is(code) || a.header.Get(x402.HeaderRequired) != "" {
				t.Errorf("%s, %s: %d %s, want 503 %s", name, leg, a.status, clipped(a.body), code)
			}
		}
		if len(w.transfers()) != before || len(w.orders()) != 0 {
			t.Errorf("%s: something was sold", name)
		}
	}
	eventually(t, func() (bool, string) {
		a := w.send(post(esimPath, purchaseBody("state")).on(closed))
		return a.is(fault.EsimPaused), "it does not know yet what has been paid: " +
			string(clipped(a.body))
	})
	refused("paused", closed, fault.EsimPaused)

	w.issuer.esimFault("*", "error_before", 0)
	// At once, the confirmation before the claim fails; a moment later nobody is told the terms, and then the catalogue
	// is stale, too.
	wantProblem(t, "paid while the supplier is down", w.send(esimPurchase("state", good)), 503, fault.DependencyDown)
	eventually(t, func() (bool, string) {
		a := w.send(post(esimPath, purchaseBody("state")))
		return a.status == 503, "a supplier that is down sells: " + string(clipped(a.body))
	})
	eventually(t, func() (bool, string) {
		a := w.send(get("/api/esim/ready"))
		return a.status == 503 && a.is(fault.NotReady) &&
				a.problem.Detail == "Failing: catalogue, supplier.",
			fmt.Sprintf("ready without a supplier: %d %s", a.status, clipped(a.body))
	})
	refused("stale", nil, fault.DependencyDown)
	// The catalogue is still shown.
	w.send(get("/api/esim/plans")).into(t, 200, nil)
	w.issuer.clearEsimFaults()
	w.awaitEsimReady(nil)
	if o := b.buyEsim("open-again-by-itself"); o.Status != "fulfilled" {
		t.Errorf("then bought %+v", o)
	}
	w.checkBooks()
}

// TestEsimCredentialsAreNeitherLoggedNorStoredUnsealed: neither the log nor the database has activation data or tokens,
// and everything that is sealed is sealed again with a new key.
func TestEsimCredentialsAreNeitherLoggedNorStoredUnsealed(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	w := newWorld(t, plan{log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	w.awaitEsimReady(nil)
	b := w.buyer()
	for _, mode := range []string{"error_after", "malformed"} { // their texts repeat what must not be seen
		w.issuer.esimFault("ordered", mode, 1)
	}
	o := b.buyEsim("nothing-is-written-down")
	if o.Credentials == nil {
		t.Fatalf("bought %+v", o)
	}
	b.signIn()
	at := "/api/esim/orders/" + o.OrderID
	var rotated struct{ Token string }
	b.post(at+"/rotate-token", "").into(t, 200, &rotated)
	withToken := func(token string) map[string]string { return map[string]string{"X-Esim-Delivery-Token": token} }
	w.send(get(at+"/credentials").with(withToken(rotated.Token))).into(t, 200, nil)
	if a := w.send(get(at + "/credentials").with(withToken(o.Delivery.Token))); a.status != 404 {
		t.Errorf("the rotated token opens: %d", a.status)
	}
	c := o.Credentials
	key := strings.TrimPrefix(w.config.Esim.Keys.Reveal(), "k1:")
	secrets := map[string]string{
		"the ICCID":       c.ICCID,
		"the matching id": c.MatchingID,
		"the LPA":         c.LPA,
		"the token":       o.Delivery.Token,
		"the next token":  rotated.Token,
		"the key":         key,
		"the token key":   w.config.Esim.TokenKey.Reveal(),
		"the QR code":     c.QRPNG[100:160],
	}
	w.wantNotWritten(secrets, &log)
	if !strings.Contains(log.String(), o.OrderID) && !strings.Contains(log.String(), `"request"`) {
		t.Error("the log is empty: nothing was looked at")
	}

	newKey := "k2:" + strings.Repeat("d5", 32)
	w.restartWithSealingKeys(newKey + "," + w.config.Esim.Keys.Reveal())
	eventually(t, func() (bool, string) { return w.sealingKey() == "k2", "sealed by " + w.sealingKey() })
	w.restartWithSealingKeys(newKey)
	var again esimCredentials
	w.send(get(at+"/credentials").with(withToken(rotated.Token))).into(t, 200, &again)
	if again != *c {
		t.Error("another eSIM after the rotation")
	}
	w.wantNotWritten(secrets, &log)
	w.checkBooks()
}

// wantNotWritten looks for secrets in the log and in the database.
func (w *world) wantNotWritten(secrets map[string]string, log *lockedBuffer) {
	w.t.Helper()
	dump, logged := w.dump(), log.String()
	for name, secret := range secrets {
		for form, text := range map[string]string{
			"plain":  secret,
			"base64": base64.StdEncoding.EncodeToString([]byte(secret)),
			"hex":    hex.EncodeToString([]byte(secret)),
		} {
			if strings.Contains(logged, text) {
				w.t.Errorf("%s is in the log (%s)", name, form)
			}
			if strings.Contains(dump, text) {
				w.t.Errorf("%s is in the database (%s)", name, form)
			}
		}
	}
}

// restartWithSealingKeys replaces the oldest instance by one with these keys, of which the first seals.
func (w *world) restartWithSealingKeys(keys string) {
	w.t.Helper()
	next := w.config
	next.Esim.Keys = secret.New(keys)
	w.start(next)
	w.instances[0].stop()
	w.instances = w.instances[1:]
}

func (w *world) sealingKey() string {
	w.t.Helper()
	var key string
	if err := w.db.QueryRow(context.WithoutCancel(w.t.Context()),
		"SELECT min(sealed_key) FROM esim_profiles").Scan(&key); err != nil {
		w.t.Fatal(err)
	}
	return key
}

// TestRefusedEsimKeepsEvidence: the supplier's definite refusal after the payment ends the order
// with its evidence, and the buyer is told no secrets and no success.
func TestRefusedEsimKeepsEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	terms := w.esimTerms("refused-by-the-supplier")
	// Sold out between the confirmation and the order.
	w.issuer.esimFault("order", "refused", 1)
	var o esimOrder
	w.send(esimPurchase("refused-by-the-supplier", b.esimPayment(terms))).into(t, 200, &o)
	if o.Credentials != nil || o.Status == "fulfilled" || o.Delivery.Status == "fulfilled" {
		t.Errorf("answered %+v", o)
	}
	var evidence []byte
	err := w.db.QueryRow(t.Context(), "SELECT evidence FROM timeline WHERE order_id = $1 AND evidence ? 'refusal' LIMIT 1",
		o.OrderID).Scan(&evidence)
	var said map[string]string
	if err != nil || json.Unmarshal(evidence, &said) != nil || said["refusal"] == "" || said["reference"] == "" {
		t.Errorf("evidence %s, %v", evidence, err)
	}
}
