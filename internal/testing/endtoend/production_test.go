package endtoend_test

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// liveKey is a key of Stripe that is not of its test mode.
const liveKey = "rk_live_roamcard"

// realProvider is a vendor that the test plays, and the settings that choose it.
type realProvider struct {
	vendor http.Handler
	// path is where its API begins.
	path     string
	settings map[string]string
}

func realIssuers() map[string]realProvider {
	return map[string]realProvider{
		lithic.Name: {
			vendor: lithicfake.New(lithicfake.Config{}), settings: map[string]string{
				"issuer.key": lithicfake.DevKey, lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program,
				lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load",
			},
		},
		stripe.Name: {
			vendor: stripefake.New(stripefake.Config{Key: liveKey}), settings: map[string]string{
				"issuer.key": liveKey, stripe.CardholderKey: stripefake.DevCardholder,
				stripe.PublishableKey: "pk_live_roamcard",
			},
		},
	}
}

func realSuppliers() map[string]realProvider {
	return map[string]realProvider{
		esimaccess.Name: {
			vendor: esimaccessfake.New(esimaccessfake.Config{}), settings: map[string]string{
				"supplier.key": esimaccessfake.DevAccessCode, esimaccess.SecretKey: esimaccessfake.DevSecret,
			},
		},
		esimgo.Name: {
			vendor: esimgofake.New(esimgofake.Config{}), path: "/v2.4", settings: map[string]string{
				"supplier.key": esimgofake.DevKey, esimgo.OrderGapKey: "10ms",
			},
		},
	}
}

// production is a world whose one instance is the program itself, as an operator runs it.
type production struct {
	*world
	settings map[string]string
	// trusted is a file with the certificates that the program trusts.
	trusted string
}

// newProduction makes one whose vendors answer by https. Nothing is started.
func newProduction(t *testing.T, issuer, supplier string) *production {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the certificates that a program trusts are not a file here")
	}
	p := &production{
		world: newWorld(t, plan{bare: true}), trusted: filepath.Join(t.TempDir(), "trusted.pem"),
		settings: map[string]string{
			"environment": app.Production, "contact.email": "operator@example.com", "issuer.provider": issuer,
			"supplier.provider": supplier, "supplier.poll": "100ms",
		},
	}
	var books string
	p.settings["issuer.url"], p.issuerBooks = p.plays(realIssuers()[issuer])
	p.settings["supplier.url"], books = p.plays(realSuppliers()[supplier])
	p.supplierBooks = books
	return p
}

// plays lets a vendor answer, and returns where its API and its books are.
func (p *production) plays(v realProvider) (api, books string) {
	p.t.Helper()
	maps.Copy(p.settings, v.settings)
	mux := http.NewServeMux()
	mux.Handle(v.path+"/", http.StripPrefix(v.path, v.vendor))
	public, private := httptest.NewTLSServer(mux), httptest.NewServer(v.vendor)
	p.t.Cleanup(func() {
		public.CloseClientConnections()
		public.Close()
		private.Close()
	})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public.Certificate().Raw})
	if err := os.WriteFile(p.trusted, certificate, 0o600); err != nil { // that of all such servers
		p.t.Fatal(err)
	}
	return public.URL + v.path, private.URL + "/control/books"
}

// serve starts the program with the settings and changes to them.
func (p *production) serve(changes map[string]string) (*apptest.Process, *instance) {
	p.t.Helper()
	addr := apptest.FreeAddr(p.t)
	env := append(p.environment(addr), "SSL_CERT_FILE="+p.trusted)
	all := maps.Clone(p.settings)
	maps.Copy(all, changes)
	for key, value := range all {
		env = append(env, settingName(key)+"="+value)
	}
	started := apptest.Start(p.t, env, "serve")
	p.t.Cleanup(func() { started.Kill(p.t) })
	return started, &instance{url: "http://" + addr, stop: func() {}}
}

// settingName is a setting's name in the environment.
func settingName(key string) string {
	return "ROAMCARD_" + strings.ToUpper(strings.ReplaceAll(key, ".", "__"))
}

// TestProductionSellsOverRealProviders: the program starts in production over each pair, and the official x402 client
// gets a card with a top-up, and an eSIM. The card is used, frozen and unfrozen. The books of the vendors, of the chain
// and ours agree.
func TestProductionSellsOverRealProviders(t *testing.T) {
	t.Parallel()
	for issuer := range realIssuers() {
		for supplier := range realSuppliers() {
			t.Run(issuer+" and "+supplier, func(t *testing.T) {
				if (issuer == lithic.Name) != (supplier == esimaccess.Name) {
					onlyTorture(t, "each provider sells in a pair, app TestProductionStartsWithEveryPairOfRealProviders")
				}
				t.Parallel()
				p := newProduction(t, issuer, supplier)
				program, at := p.serve(nil)
				p.instances = append(p.instances, at)
				p.awaitSale(program, "/ready")
				p.awaitSale(program, "/api/esim/ready")
				b := p.buyer()
				b.officially(purchasePath, purchaseBody("a-card-in-production"), anyOrder)
				p.awaitSettled()
				b.signIn()
				card := p.newestOwned()
				b.officially("/api/card/topup", `{"amountUsdCents":2500,"idempotencyKey":"a-load-in-production"}`, anyOrder)
				var travels esimOrder
				b.officially(esimPath, purchaseBody("an-esim-in-production"), func(a answer) bool {
					a.into(t, 200, &travels)
					return travels.Credentials != nil
				})
				if !strings.HasPrefix(travels.Credentials.LPA, "LPA:1$") {
					t.Errorf("bought %+v", travels)
				}
				p.awaitSettled()
				p.usesCard(t, b, card)
				var balance struct{ AvailableUsdCents int64 }
				b.get("/api/cards/"+card+"/balance").into(t, 200, &balance)
				if balance.AvailableUsdCents != 1500+2450-100 {
					t.Errorf("%d cents on the card", balance.AvailableUsdCents)
				}
				p.wantGoods(b)
				p.checkBooks()
				if asked := p.issuer.books().Requests; len(asked) > 0 {
					t.Errorf("the sandbox was asked for %v", asked)
				}
				program.Stop(t)
				if code := program.Cmd.ProcessState.ExitCode(); code != 0 {
					t.Errorf("the program ended with %d\n%s", code, program.Log.Tail())
				}
			})
		}
	}
}

// awaitSale waits until a route of the program says that it sells.
func (p *production) awaitSale(program *apptest.Process, route string) {
	p.t.Helper()
	eventually(p.t, func() (bool, string) {
		if program.Ended() {
			p.t.Fatalf("the program ended: %v\n%s", program.Cmd.ProcessState, program.Log.Tail())
		}
		a := p.send(get(route))
		return a.err == nil && a.status == http.StatusOK, fmt.Sprint(route, ": ", a.status, string(clipped(a.body)), a.err)
	})
}

// wantGoods wants the vendors to have made one card, one load and one eSIM, all for a buyer.
func (p *production) wantGoods(b *buyer) {
	p.t.Helper()
	got, err := invariants.Tell(p.t.Context(), p.books(), b.address.String())
	if err != nil {
		p.t.Fatal(err)
	}
	want := invariants.Tally{Orders: 3, Transfers: 3, Cards: 1, Loads: 1, Esims: 1}
	if p.settings["issuer.provider"] == lithic.Name {
		want.Withdrawals = 1 // Stripe's limit never had the fee
	}
	if got != want {
		p.t.Errorf("the vendors' books come to %+v, want %+v", got, want)
	}
}

// refuses wants the program to end with an error that tells some sentences, and returns all that it told.
func (p *production) refuses(t *testing.T, changes map[string]string, told ...string) (said string) {
	t.Helper()
	program, _ := p.serve(changes)
	awaitEnd(t, program)
	said = program.Log.String()
	if program.Cmd.ProcessState.ExitCode() < 1 {
		t.Errorf("it ended with %v\n%s", program.Cmd.ProcessState, said)
	}
	for _, want := range told {
		if !strings.Contains(said, want) {
			t.Errorf("%s\nlacks %q", said, want)
		}
	}
	return said
}

// TestProviderOfLiveGoodsIsNeededToStart: stopped after a sale, the program does not start without the issuer of what
// was sold, and serves it where the issuer is retired.
func TestProviderOfLiveGoodsIsNeededToStart(t *testing.T) {
	t.Parallel()
	p := newProduction(t, lithic.Name, esimaccess.Name)
	program, at := p.serve(nil)
	p.instances = append(p.instances, at)
	p.awaitSale(program, "/ready")
	b := p.buyer()
	card := b.buyCard("a-card-of-lithic").Issuance.CardID
	p.awaitSettled()
	program.Stop(t)

	p.settings["lithic.url"], p.settings["lithic.key"] = p.settings["issuer.url"], p.settings["issuer.key"]
	url, _ := p.plays(realIssuers()[stripe.Name])
	p.settings["issuer.provider"], p.settings["issuer.url"] = stripe.Name, url
	const missing = "the database has cards of lithic: name it in issuer.provider or issuer.retired"
	p.refuses(t, nil, missing)

	program, p.instances[0] = p.serve(map[string]string{"issuer.retired": lithic.Name})
	p.awaitSale(program, "/ready")
	b.signIn()
	var balance struct{ AvailableUsdCents int64 }
	b.get("/api/cards/"+card+"/balance").into(t, 200, &balance)
	if balance.AvailableUsdCents != 1500 {
		t.Errorf("%d cents on the card of the retired issuer", balance.AvailableUsdCents)
	}
	program.Stop(t)
}

// TestProductionRefusesToStart, with a sentence that names the setting and no secret.
func TestProductionRefusesToStart(t *testing.T) {
	t.Parallel()
	p := newProduction(t, stripe.Name, esimaccess.Name)
	relayer, payee := devnet.WalletsOf(devnet.RoleRelayer)[0], devnet.WalletsOf(devnet.RolePayee)[0]
	for name, c := range map[string]struct {
		changes map[string]string
		told    []string
	}{
		"not real": {
			map[string]string{"issuer.provider": "sandbox", "supplier.provider": "sandbox"},
			[]string{
				"issuer.provider: the sandbox sells cards that are not real",
				"supplier.provider: the sandbox sells eSIMs that are not real",
			},
		},
		"half": {
			map[string]string{stripe.CardholderKey: "", esimaccess.SecretKey: ""},
			[]string{
				"stripe.cardholder (ROAMCARD_STRIPE__CARDHOLDER) is not set, and issuer.provider names stripe",
				"esim_access.secret (ROAMCARD_ESIM_ACCESS__SECRET) is not set, and supplier.provider names esim-access",
			},
		},
		"nowhere": {
			map[string]string{"issuer.url": "", "supplier.url": ""},
			[]string{
				"issuer.url (ROAMCARD_ISSUER__URL) is not set", "supplier.url (ROAMCARD_SUPPLIER__URL) is not set",
			},
		},
		"not by https": {
			map[string]string{"issuer.url": "http://127.0.0.1:8080", "supplier.url": "http://supplier.example"},
			[]string{"issuer.url: must be https in production", "supplier.url: the URL is not https"},
		},
		"keys of the development chain": {
			map[string]string{
				"relayer.keys": relayer.PrivateKey, "treasury.key": relayer.PrivateKey, "payment.pay_to": payee.Address,
			},
			[]string{
				"relayer.keys, number 1: this is a public development key", "treasury.key: this is a public development key",
				"payment.pay_to: the key of this address is a public development key",
			},
		},
		"a test mode": {
			map[string]string{"issuer.key": "sk_test_hunter2"}, []string{"issuer.key: the key is of Stripe's test mode"},
		},
		"by plain http":  {map[string]string{"base_url": "http://cards.example"}, []string{"base_url: must be https"}},
		"nobody to ask":  {map[string]string{"contact.email": ""}, []string{"contact.email: must be set in production"}},
		"an armed fault": {map[string]string{"fault": "settle.seen:kill"}, []string{"ROAMCARD_FAULT", "sandbox only"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := p.refuses(t, c.changes, c.told...)
			secrets := []string{"hunter2", liveKey, strings.TrimPrefix(relayer.PrivateKey, "0x")}
			if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(said, s) }) {
				t.Errorf("a secret is told: %s", said)
			}
		})
	}
}
