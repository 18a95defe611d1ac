package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/devtools/demo"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/secret"
)

// serve runs a development server for the test.
func serve(t *testing.T) dev.Ready {
	t.Helper()
	r, stop, err := dev.Start(context.Background(), dev.Config{
		Addr: "127.0.0.1:0", Log: dev.Logger(io.Discard, ""), Out: io.Discard,
	})
	if err != nil {
		t.Fatalf("start the development server: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the development server: %v", err)
		}
	})
	return r
}

func buyerAt(r dev.Ready, wallets ...dev.Wallet) (demo.Config, *bytes.Buffer) {
	out := &bytes.Buffer{}
	c := demo.Config{BaseURL: r.BaseURL, RPCURL: r.RPCURL, USDC: r.USDC, PayTo: r.PayTo, Out: out}
	for _, w := range wallets {
		c.Wallets = append(c.Wallets, secret.New(w.PrivateKey))
	}
	return c, out
}

// recorder collects what must not be printed: payments, and tokens of sessions.
type recorder struct{ secrets []string }

func (w *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, name := range []string{"PAYMENT-SIGNATURE", "Authorization", "X-Esim-Delivery-Token"} {
		if value := strings.TrimPrefix(req.Header.Get(name), "Bearer "); value != "" {
			w.secrets = append(w.secrets, value)
		}
	}
	return http.DefaultTransport.RoundTrip(req)
}

// asShown compares the story's end with the README's, but for the wallet and the card.
func asShown(t *testing.T, story string) {
	t.Helper()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- printed by internal/devtools/demo/demo_test.go -->\n```text\n(.*?)```").
		FindSubmatch(readme)
	varies := regexp.MustCompile(`0x[0-9a-fA-F]{40}|•••• \d{4}`)
	same := func(text string) string { return varies.ReplaceAllString(text, "…") }
	if shown == nil || !strings.Contains(same(story), same(string(shown[1]))) {
		t.Errorf("the README shows %s, and the story is\n%s", shown, story)
	}
}

// Several runs on one server: each buys with the next wallet.
func TestDemoBuysWithTheNextWallet(t *testing.T) {
	r := serve(t)

	c, out := buyerAt(r, r.Wallets...)
	network := &recorder{}
	c.TTY, c.HTTP = true, network
	got, err := demo.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !got.OK || got.Wallet != r.Wallets[0].Address || got.Transfers != 1 || got.PaidRequests != 3 || !got.Replayed ||
		got.FeeUSDCents != 1000 ||
		got.OnCardUSDCents != 1500 || got.ESIMUSDCents <= 0 || got.SpentUSDCents != 2500+got.ESIMUSDCents ||
		got.Millis > 120_000 || got.Error != "" {
		t.Errorf("summary %+v", got)
	}
	for _, want := range []string{
		"402", "25.00 USDC", r.PayTo, "thrown away on purpose", "replayed: true", "is ACTIVE", got.Card, "15.00 USD",
		"moved once", "█", "activation code",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the story does not say %q:\n%s", want, out)
		}
	}
	for _, secret := range append(network.secrets, r.Wallets[0].PrivateKey[2:]) {
		if strings.Contains(out.String(), secret) {
			t.Error("the story tells a secret")
		}
	}

	c, out = buyerAt(r, r.Wallets...)
	c.JSON = true
	got, err = demo.Run(t.Context(), c)
	var told demo.Summary
	if bad := json.Unmarshal(out.Bytes(), &told); bad != nil || err != nil || !told.OK ||
		told.Wallet != r.Wallets[1].Address || told.OrderID != got.OrderID || len(told.Steps) == 0 {
		t.Errorf("%v, %v: %s", err, bad, out)
	}
	if strings.Contains(out.String(), "LPA:") || !strings.Contains(told.Card, "••") {
		t.Errorf("the summary tells a secret: %s", out)
	}

	c, out = buyerAt(r, r.Wallets[2])
	c.ShowCard = true
	if _, err := demo.Run(t.Context(), c); err != nil ||
		!regexp.MustCompile(`\d{4} \d{4} \d{4} \d{4}  valid to \d\d/20\d\d  code \d{3}`).MatchString(out.String()) {
		t.Errorf("%v: the card was asked for:\n%s", err, out)
	}

	asShown(t, out.String())

	c, out = buyerAt(r, r.Wallets[:2]...)
	c.JSON = true
	_, err = demo.Run(t.Context(), c)
	if !errors.Is(err, demo.ErrNoWallet) || !strings.Contains(err.Error(), "owns a card") ||
		!strings.Contains(err.Error(), "use another wallet") || !strings.Contains(out.String(), `"ok": false`) {
		t.Errorf("%v: %s", err, out)
	}
	wrong := dev.Wallet{PrivateKey: r.Wallets[3].PrivateKey + "z"}
	c, _ = buyerAt(r, wrong)
	if _, err := demo.Run(t.Context(), c); err == nil || strings.Contains(err.Error(), wrong.PrivateKey[2:]) {
		t.Errorf("a wrong key: %v", err)
	}
	for name, change := range map[string]func(*demo.Config){
		"payee": func(c *demo.Config) { c.PayTo = "0x0000000000000000000000000000000000000001" },
		"asset": func(c *demo.Config) { c.USDC = "0x0000000000000000000000000000000000000001" },
	} {
		c, _ := buyerAt(r, r.Wallets[3])
		change(&c)
		if _, err := demo.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "nothing was signed") {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestDemoBuysFromASandboxOnly(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"environment":"production"}`)
	}))
	c, _ := buyerAt(dev.Ready{BaseURL: s.URL})
	if _, err := demo.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "real money") || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	s.Close()
	if _, err := demo.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "roamcard dev") {
		t.Errorf("where nothing runs: %v", err)
	}
}

// TestDemoBuysOverRealProviders: a card whose issuer shows it on a page alone is bought like any other, and an eSIM.
func TestDemoBuysOverRealProviders(t *testing.T) {
	for issuer, supplier := range map[string]string{"lithic": "esim-go", "stripe": "esim-access"} {
		if issuer == "stripe" && os.Getenv("ROAMCARD_TORTURE") == "" {
			continue // one pair shows it; make torture runs both
		}
		t.Run(issuer+" and "+supplier, func(t *testing.T) {
			r, stop, err := dev.Start(context.Background(), dev.Config{
				Addr: "127.0.0.1:0", Issuer: issuer, Supplier: supplier, Log: dev.Logger(io.Discard, ""), Out: io.Discard,
			})
			if err != nil {
				t.Fatalf("start the development server: %v", err)
			}
			defer func() {
				if err := stop(); err != nil {
					t.Errorf("the development server: %v", err)
				}
			}()
			c, out := buyerAt(r, r.Wallets...)
			got, err := demo.Run(t.Context(), c)
			if err != nil || !got.OK || got.ESIMUSDCents <= 0 || got.OnCardUSDCents != 1500 || got.Card != got.CardID {
				t.Errorf("%+v, %v\n%s", got, err, out)
			}
			if strings.Contains(out.String(), "/reveal/") {
				t.Errorf("the card's page is told:\n%s", out)
			}
		})
	}
}
