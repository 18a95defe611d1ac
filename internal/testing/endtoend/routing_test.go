package endtoend_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
)

// line is the way to a vendor.
type line struct {
	http.Handler
	// cut keeps everything from the vendor, and readOnly everything that changes something.
	cut, readOnly atomic.Bool
	// refused counts what was kept from it.
	refused atomic.Int64
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.cut.Load() || l.readOnly.Load() && r.Method != http.MethodGet {
		l.refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	l.Handler.ServeHTTP(w, r)
}

func (l *line) open(t *testing.T) (url string) {
	t.Helper()
	web := httptest.NewServer(l)
	t.Cleanup(web.Close)
	return web.URL
}

// routed is a world over two issuers.
type routed struct {
	*world
	lithic             *lithicfake.Server
	stripe             *stripefake.Server
	toLithic, toStripe *line
}

// newRoutedWorld prefers Lithic to Stripe.
func newRoutedWorld(t *testing.T, change func(*app.Config)) *routed {
	t.Helper()
	r := &routed{
		lithic: lithicfake.New(lithicfake.Config{Float: lithicFloat, Numbers: true}),
		stripe: stripefake.New(stripefake.Config{}),
	}
	r.toLithic, r.toStripe = &line{Handler: r.lithic}, &line{Handler: r.stripe}
	lithicURL, stripeURL := r.toLithic.open(t), r.toStripe.open(t)
	r.world = newAdminWorld(t, 100_000_000, plan{change: func(c *app.Config) {
		c.IssuerURL, c.IssuerKey = "", secret.Text{}
		for key, text := range map[string]string{
			"issuer.provider": "lithic, stripe", "lithic.url": lithicURL, "lithic.key": lithicfake.DevKey,
			"stripe.url": stripeURL, "stripe.key": stripefake.DevKey,
			lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program,
			lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load", lithic.RevealKey: "embed",
			stripe.CardholderKey: stripefake.DevCardholder, stripe.PublishableKey: stripefake.DevPublishable,
			stripe.ElementsKey: stripeURL + "/elements.js",
		} {
			if err := c.Set(key, text); err != nil {
				t.Fatal(err)
			}
		}
		if change != nil {
			change(c)
		}
	}})
	return r
}

// restarted ends all instances, and starts one with another configuration.
func (r *routed) restarted(change func(*app.Config)) {
	r.t.Helper()
	for _, i := range r.instances {
		i.stop()
	}
	r.instances = nil
	cfg := r.config
	change(&cfg)
	r.config = cfg
	r.awaitReady(r.start(cfg))
}

// wantCards wants the vendors to have so many cards.
func (r *routed) wantCards(what string, atLithic, atStripe int) {
	r.t.Helper()
	if l, s := len(r.lithic.Cards()), len(r.stripe.Cards()); l != atLithic || s != atStripe {
		r.t.Errorf("%s: %d cards of Lithic and %d of Stripe, want %d and %d", what, l, s, atLithic, atStripe)
	}
}

// TestCardsAreSoldOverTwoIssuers: the first that can sells, whatever belongs to a card goes to its own issuer, and the
// books of both are compared.
func TestCardsAreSoldOverTwoIssuers(t *testing.T) {
	t.Parallel()
	r := newRoutedWorld(t, nil)
	first := r.buyer()
	o := first.buyCard("over-the-preferred-issuer")
	r.wantCards("the preferred issuer sells", 1, 0)
	row := queryOne[string](r.world, `SELECT concat_ws(' ', provider, programme, holder, account) FROM cards
		WHERE id = $1`, o.Issuance.CardID)
	if want := "lithic " + lithicfake.Program + " programme " + r.lithic.Cards()[0].Token; row != want {
		t.Errorf("the card is stored as %q, want %q", row, want)
	}

	r.toLithic.cut.Store(true)
	second := r.buyer()
	// What the issuer told before counts until it is asked again.
	eventually(t, func() (bool, string) {
		a := r.send(request{path: "/api/card/purchase", body: purchaseBody("terms-while-it-is-down")})
		return r.toLithic.refused.Load() > 0 && a.status == http.StatusPaymentRequired, string(a.body)
	})
	other := second.buyCard("over-the-next-issuer")
	r.wantCards("the preferred issuer is down", 1, 1)
	r.toLithic.cut.Store(false)
	if held := r.count(
		`SELECT count(*) FROM reservations WHERE resource IN ('float/card/lithic', 'float/card/stripe')`); held != 2 {
		t.Errorf("%d reservations of a float, want one of each", held)
	}

	// Each top-up is a load of the card's own issuer, though the other one is preferred or down.
	r.toStripe.cut.Store(true)
	first.topUp("a-load-of-the-first-card", 2500).into(t, 200, nil)
	r.toStripe.cut.Store(false)
	second.topUp("a-load-of-the-other-card", 2500).into(t, 200, nil)
	r.awaitSettled()
	balance := func(b *buyer, card string, want int64) {
		t.Helper()
		var got struct{ AvailableUsdCents int64 }
		b.get("/api/cards/"+card+"/balance").into(t, 200, &got)
		if got.AvailableUsdCents != want {
			t.Errorf("%d cents on the card, want %d", got.AvailableUsdCents, want)
		}
	}
	balance(first, o.Issuance.CardID, 1500+2450)
	balance(second, other.Issuance.CardID, 1500+2450)
	if limit := r.stripe.Cards()[0].Limits[0].Amount; limit != 1500+2450 {
		t.Errorf("the limit at Stripe is %d", limit)
	}
	// Frozen where it is.
	second.post("/api/cards/"+other.Issuance.CardID+"/freeze", "{}").into(t, 200, nil)
	if l, s := r.lithic.Cards()[0].State, r.stripe.Cards()[0].Status; l != "OPEN" || s != "inactive" {
		t.Errorf("Lithic's card is %s, Stripe's %s", l, s)
	}
	r.wantFindings("the books of both issuers and ours")
	if lines := r.count(`SELECT count(DISTINCT provider) FROM issuer_lines`); lines != 2 {
		t.Errorf("the books of %d issuers are read", lines)
	}

	// A retired issuer serves what it has sold, and sells nothing.
	r.restarted(func(c *app.Config) { c.IssuerProvider, c.IssuerRetired = "stripe", "lithic" })
	r.buyer().buyCard("after-the-issuer-is-retired")
	r.wantCards("a retired issuer sells nothing", 1, 2)
	first.topUp("a-load-of-a-retired-issuer", 2500).into(t, 200, nil)
	r.awaitSettled()
	balance(first, o.Issuance.CardID, 1500+2*2450)
	first.reveal(o.Issuance.CardID).into(t, 200, nil)
	r.wantFindings("the books of both issuers and ours, with one of them retired")

	// Without its issuer, a card cannot be served at all, and nothing starts.
	cfg := r.config
	cfg.IssuerRetired = ""
	a, err := app.New(t.Context(), cfg, app.Options{Log: r.log})
	if err == nil {
		a.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "cards of lithic: name it in issuer.provider or issuer.retired") {
		t.Errorf("started without the issuer of a card: %v", err)
	}
}

// TestCardIsDeliveredByTheIssuerThatTheOrderRemembers: the service is started again between the order and its delivery,
// with another routing.
func TestCardIsDeliveredByTheIssuerThatTheOrderRemembers(t *testing.T) {
	onlyTorture(t, "product/card TestChosenIssuerIsKept and TestOrderWithoutItsIssuerWaitsForAnOperator")
	t.Parallel()
	r := newRoutedWorld(t, nil)
	r.toLithic.readOnly.Store(true)
	b := r.buyer()
	o, err := b.buyRetrying("remembered-over-a-restart")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, string) {
		return r.count("SELECT count(*) FROM cards") == 1, "no delivery has begun"
	})
	r.wantCards("nothing can be opened at the chosen issuer", 0, 0)
	r.restarted(func(c *app.Config) { c.IssuerProvider, c.IssuerRetired = "stripe", "lithic" })
	r.toLithic.readOnly.Store(false)
	b.signIn()
	b.awaitStatus(o.OrderID, "fulfilled")
	r.awaitSettled()
	r.wantCards("delivered once, by the remembered issuer", 1, 0)
	wantBooks(t, r.lithic, 1, 2)
	r.wantFindings("the books of both issuers and ours")
}

// TestEsimsOfTwoSuppliersAreOneCatalogue: buyers cannot tell the suppliers apart, the cheapest plan that can be sold is
// sold, and an eSIM is delivered by its plan's supplier.
func TestEsimsOfTwoSuppliersAreOneCatalogue(t *testing.T) {
	t.Parallel()
	v := newVendor(t, esimaccess.Name)
	other := vendor{t, esimgo.Name, v.url}
	w := newAdminWorld(t, 100_000_000, plan{change: func(c *app.Config) {
		if err := dev.UseSupplier(c, esimaccess.Name+","+esimgo.Name, v.url, supplierDelay); err != nil {
			t.Fatal(err)
		}
		c.Own[esimgo.OrderGapKey] = secret.New("10ms")
		c.Esim.SyncEvery = time.Second
	}})
	w.awaitEsimReady(nil)
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(DISTINCT provider) FROM esim_plans WHERE live")
		return n == 2, "the catalogue is not of both suppliers yet"
	})
	var listed struct {
		Plans []struct {
			PlanID        string
			PriceUsdCents int64
		}
	}
	a := w.send(get("/api/esim/plans"))
	a.into(t, 200, &listed)
	if all := w.count("SELECT count(*) FROM esim_plans WHERE live"); len(listed.Plans) != all {
		t.Errorf("%d plans are shown, of %d", len(listed.Plans), all)
	}
	for _, name := range []string{"esim-access", "esim-go", "esim_access", "esim_go", "provider"} {
		if strings.Contains(string(a.body), name) {
			t.Errorf("the catalogue tells %q", name)
		}
	}
	cheapest := queryOne[string](w,
		"SELECT provider FROM esim_plans WHERE live ORDER BY price_usd_cents, data_mb DESC, id")
	bought := func(key string, atAccess, atGo int) {
		t.Helper()
		b := w.buyer()
		b.signIn()
		var o esimOrder
		w.send(esimPurchase(key, b.esimPayment(w.esimTerms(key)))).into(t, 200, &o)
		b.awaitStatus(o.OrderID, "fulfilled")
		if v.orders() != atAccess || other.orders() != atGo {
			t.Errorf("%s: %d orders of eSIM Access and %d of eSIM Go, want %d and %d", key, v.orders(), other.orders(),
				atAccess, atGo)
		}
	}
	counts := map[string][2]int{esimaccess.Name: {1, 0}, esimgo.Name: {0, 1}}[cheapest]
	bought("the-cheapest-of-all", counts[0], counts[1])

	// With a rule, everything is sold by one of them.
	for _, i := range w.instances {
		i.stop()
	}
	w.instances = nil
	costlier := map[string]string{esimaccess.Name: esimgo.Name, esimgo.Name: esimaccess.Name}[cheapest]
	if err := w.config.Set("routing.rules", "esim: "+costlier); err != nil {
		t.Fatal(err)
	}
	w.awaitReady(w.start(w.config))
	w.awaitEsimReady(nil)
	w.send(get("/api/esim/plans")).into(t, 200, &listed)
	if own := w.count("SELECT count(*) FROM esim_plans WHERE live AND provider = $1", costlier); len(listed.Plans) != own {
		t.Errorf("%d plans are shown, and %d are of the supplier that the rule prefers", len(listed.Plans), own)
	}
	bought("what-the-rule-prefers", 1, 1)
	if of := w.count("SELECT count(DISTINCT provider) FROM esim_profiles WHERE status = 'ready'"); of != 2 {
		t.Errorf("the eSIMs are of %d suppliers", of)
	}
}

// TestOperatorClosesOneIssuer: cards are sold over the next one, top-ups of the closed one's cards are not sold, and
// what was paid goes on.
func TestOperatorClosesOneIssuer(t *testing.T) {
	onlyTorture(t, "store TestSwitchClosesItsProviderWhateverIsSold, product/card TestClosedIssuerSellsNothing")
	t.Parallel()
	r := newRoutedWorld(t, nil)
	first := r.buyer()
	first.buyCard("before")
	r.awaitSettled()
	r.wantSwitch("provider.lithic", true, "1")
	second := r.buyer()
	tries := 0
	eventually(t, func() (bool, string) { // the switch is read once a second
		tries++
		a := first.topUp(fmt.Sprint("while-it-is-closed-", tries), 2500)
		return a.is(fault.TopupPaused), string(a.body)
	})
	second.buyCard("while-it-is-closed")
	r.wantCards("the preferred issuer is closed", 1, 1)
	wantProblem(t, "a provider that is not configured",
		r.operatorCall("POST", "/api/admin/switches/provider.acme", `{"paused":true,"reason":"drill"}`, "2"), 400,
		fault.SchemaInvalid)
	r.wantSwitch("provider.stripe", true, "3")
	eventually(t, func() (bool, string) {
		a := r.send(request{path: "/api/card/purchase", body: purchaseBody("nobody-sells")})
		return a.is(fault.IssuePaused), string(a.body)
	})
	var told struct{ Paused bool }
	r.send(request{method: http.MethodGet, path: "/api/card/discovery"}).into(t, 200, &told)
	if !told.Paused {
		t.Error("the discovery does not say that no cards are sold")
	}
	r.wantSwitch("provider.lithic", false, "4")
	eventually(t, func() (bool, string) {
		a := r.send(request{path: "/api/card/purchase", body: purchaseBody("it-sells-again")})
		return a.status == http.StatusPaymentRequired, string(a.body)
	})
	third := r.buyer()
	third.buyCard("after")
	r.wantCards("the preferred issuer is open again", 2, 1)
}
