package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	testKey1 = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	testKey2 = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
)

func addressOf(t *testing.T, key string) x402.Address {
	t.Helper()
	w, err := openWallet(telemetry.NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	return w.address
}

// clock is virtual: pausing moves it on.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	pauses []time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.pauses = append(c.pauses, d)
}

// buyerAt is a configuration against the service with two wallets of 100 USDC, on a virtual clock.
func buyerAt(t *testing.T, s *service) (Config, *bytes.Buffer, *clock) {
	t.Helper()
	out := &bytes.Buffer{}
	c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	cfg := Config{
		BaseURL: s.URL, RPCURL: s.URL + "/rpc", USDC: testUSDC.String(), PayTo: testPayee.String(), Out: out, HTTP: s.Client(), Now: c.Now,
		Wait: func(ctx context.Context, d time.Duration) error {
			if d == hangUpAfter {
				// Hang up on a request that has been taken in.
				select {
				case <-s.seen:
				case <-ctx.Done():
				}
			}
			c.pause(d)
			return ctx.Err()
		},
	}
	for _, key := range []string{testKey1, testKey2} {
		cfg.Wallets = append(cfg.Wallets, telemetry.NewSecret(key))
		s.balances[addressOf(t, key)] = money.Cents(10_000).USDC()
	}
	return cfg, out, c
}

func TestTheStoryEndsWithOneCardPaidOnce(t *testing.T) {
	s := newService(t)
	cfg, out, _ := buyerAt(t, s)
	got, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !got.OK || got.OrderID != testOrder || got.CardID != testCard || got.Card != "4000 00•• •••• 1234" || !got.Replayed || got.Transfers != 1 ||
		got.PaidRequests != 3 || got.SpentUSDCents != 2500 || got.OnCardUSDCents != 1500 || got.FeeUSDCents != 1000 || got.Error != "" {
		t.Errorf("summary %+v", got)
	}
	if want := money.Cents(7500).USDC(); s.balances[addressOf(t, testKey1)] != want {
		t.Errorf("balance %s, want %s", s.balances[addressOf(t, testKey1)], want)
	}
	if len(s.headers) != 3 || len(slices.Compact(slices.Clone(s.headers))) != 1 {
		t.Errorf("%d payments, not three times the same bytes", len(s.headers))
	}
	for _, want := range []string{
		"402", "25.00 USDC", testPayee.String(), "hung up", "replayed: true", "issuance pending", "4000 00•• •••• 1234", "15.00 USD", "moved once",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the story does not say %q:\n%s", want, out)
		}
	}
}

func TestNoSecretIsTold(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		s := newService(t)
		cfg, out, _ := buyerAt(t, s)
		cfg.JSON, cfg.TTY = asJSON, true
		if _, err := Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		secrets := []string{testNumber, testNumber[6:12], testCode, testToken, testKey1[2:], s.headers[0]}
		for _, secret := range secrets {
			if strings.Contains(out.String(), secret) {
				t.Errorf("JSON %v: the story tells %s", asJSON, secret)
			}
		}
	}
}

func TestTheCardIsShownOnlyOnRequest(t *testing.T) {
	s := newService(t)
	cfg, out, _ := buyerAt(t, s)
	cfg.ShowCard = true
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if want := "4000 0012 3456 1234  valid to 07/2029  code " + testCode; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

func TestJSONIsOneSummary(t *testing.T) {
	for name, spoil := range map[string]func(*service){
		"well":   func(*service) {},
		"failed": func(s *service) { s.payTo = x402.Address{1} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			spoil(s)
			cfg, out, _ := buyerAt(t, s)
			cfg.JSON = true
			got, err := Run(t.Context(), cfg)
			var told Summary
			if jsonErr := json.Unmarshal(out.Bytes(), &told); jsonErr != nil {
				t.Fatalf("%v:\n%s", jsonErr, out)
			}
			if told.OK != (err == nil) || (told.Error != "") != (err != nil) || told.OrderID != got.OrderID || len(told.Steps) == 0 {
				t.Errorf("summary %+v of %v", told, err)
			}
		})
	}
}

func TestWrongTermsAreRefusedBeforeSigning(t *testing.T) {
	tests := map[string]func(*service, *Config){
		"payee of the 402":      func(s *service, _ *Config) { s.payTo = x402.Address{1} },
		"pinned payee":          func(_ *service, c *Config) { c.PayTo = x402.Address{1}.String() },
		"pinned asset":          func(_ *service, c *Config) { c.USDC = x402.Address{1}.String() },
		"message for elsewhere": func(s *service, _ *Config) { s.otherDomain = true },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			cfg, _, _ := buyerAt(t, s)
			spoil(s, &cfg)
			if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrTerms) {
				t.Errorf("error %v, want %v", err, ErrTerms)
			}
			if len(s.headers) != 0 {
				t.Errorf("%d payments were sent", len(s.headers))
			}
		})
	}
}

func TestEveryTermOfTheChallengeIsChecked(t *testing.T) {
	good := func() x402.PaymentRequired {
		return x402.PaymentRequired{X402Version: 2, Resource: x402.Resource{URL: "http://shop/api/card/purchase"}, Accepts: []x402.Requirements{{
			Scheme: "exact", Network: x402.NetworkID, Amount: "25000000", Asset: testUSDC.String(), PayTo: testPayee.String(), MaxTimeoutSeconds: 240,
			Extra: map[string]any{"name": "USD Coin", "version": "2"},
		}}}
	}
	want := terms{network: x402.NetworkID, payTo: testPayee, amount: 25_000_000, resource: "http://shop/api/card/purchase",
		domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: testUSDC}}
	if err := new(want).check(good()); err != nil {
		t.Fatalf("the published terms: %v", err)
	}
	for name, change := range map[string]func(*x402.PaymentRequired){
		"version":   func(r *x402.PaymentRequired) { r.X402Version = 1 },
		"no offer":  func(r *x402.PaymentRequired) { r.Accepts = nil },
		"resource":  func(r *x402.PaymentRequired) { r.Resource.URL = "http://shop/api/other" },
		"scheme":    func(r *x402.PaymentRequired) { r.Accepts[0].Scheme = "upto" },
		"network":   func(r *x402.PaymentRequired) { r.Accepts[0].Network = "eip155:1" },
		"amount":    func(r *x402.PaymentRequired) { r.Accepts[0].Amount = "25000001" },
		"asset":     func(r *x402.PaymentRequired) { r.Accepts[0].Asset = testPayee.String() },
		"payee":     func(r *x402.PaymentRequired) { r.Accepts[0].PayTo = "" },
		"name":      func(r *x402.PaymentRequired) { r.Accepts[0].Extra["name"] = "USDC" },
		"too long":  func(r *x402.PaymentRequired) { r.Accepts[0].MaxTimeoutSeconds = 1 << 40 },
		"no window": func(r *x402.PaymentRequired) { r.Accepts[0].MaxTimeoutSeconds = 0 },
	} {
		r := good()
		change(&r)
		if err := new(want).check(r); !errors.Is(err, ErrTerms) {
			t.Errorf("%s: error %v, want %v", name, err, ErrTerms)
		}
	}
}

func TestAnUnknownSettlementIsRepeatedWithTheSameBytesWhenAsked(t *testing.T) {
	s := newService(t)
	cfg, out, c := buyerAt(t, s)
	unknown := func(after time.Duration) *fault.Fault {
		return fault.New(fault.SettlementUnknown, "The payment is on its way.").About(testOrder).After(after)
	}
	// The first is the answer that is lost on purpose.
	s.hurry = []*fault.Fault{unknown(time.Second), unknown(2 * time.Second), unknown(7 * time.Second), fault.New(fault.Internal, "")}
	got, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(s.headers) != 6 || len(slices.Compact(slices.Clone(s.headers))) != 1 {
		t.Errorf("%d payments, not six times the same bytes", len(s.headers))
	}
	if want := []time.Duration{hangUpAfter, 2 * time.Second, 7 * time.Second, 4 * firstPause}; !slices.Equal(c.pauses[:4], want) {
		t.Errorf("pauses %v, want %v", c.pauses[:4], want)
	}
	if got.Transfers != 1 || got.PaidRequests != 6 {
		t.Errorf("summary %+v", got)
	}
}

func TestAnOutcomeThatStaysUnknownIsNeverPaidAnew(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	s.refuse = fault.New(fault.SettlementUnknown, "The payment is on its way.").About(testOrder)
	_, err := Run(t.Context(), cfg)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != fault.SettlementUnknown || p.OrderID != testOrder {
		t.Errorf("error %v", err)
	}
	if len(s.headers) != 1+maxSends || len(slices.Compact(slices.Clone(s.headers))) != 1 {
		t.Errorf("%d payments, not %d times the same bytes", len(s.headers), 1+maxSends)
	}
	for _, want := range []string{"settlement_unknown", "never sign another", "req-7", "idempotencyKey demo-"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestWalletsThatCannotBuyAreLeftAlone(t *testing.T) {
	for name, spoil := range map[string]func(s *service, first x402.Address){
		"owns a card":      func(s *service, first x402.Address) { s.owners[first] = true },
		"has too little":   func(s *service, first x402.Address) { s.balances[first] = 24_999_999 },
		"buys in parallel": func(s *service, _ x402.Address) { s.ownsMeantime = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			cfg, out, _ := buyerAt(t, s)
			spoil(s, addressOf(t, testKey1))
			before := s.balances[addressOf(t, testKey1)]
			got, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got.Wallet != addressOf(t, testKey2).String() || s.balances[addressOf(t, testKey1)] != before {
				t.Errorf("%s bought; the first wallet has %s", got.Wallet, s.balances[addressOf(t, testKey1)])
			}
		})
	}
}

func TestWithoutAWalletThatCanBuyTheStorySaysWhatToDo(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	s.owners[addressOf(t, testKey1)] = true
	s.balances[addressOf(t, testKey2)] = 1
	_, err := Run(t.Context(), cfg)
	if !errors.Is(err, ErrNoWallet) || !strings.Contains(err.Error(), "owns a card") || !strings.Contains(err.Error(), "use another wallet") {
		t.Errorf("error %v", err)
	}
	if len(s.headers) != 0 {
		t.Errorf("%d payments were sent", len(s.headers))
	}
}

func TestAKeyIsNeverQuoted(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	cfg.Wallets = []telemetry.Secret{telemetry.NewSecret(testKey1 + "z")}
	if _, err := Run(t.Context(), cfg); err == nil || strings.Contains(err.Error(), testKey1[2:]) {
		t.Errorf("error %v", err)
	}
}

func TestASecondTransferIsFoundOut(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	s.charges = 2
	got, err := Run(t.Context(), cfg)
	if !errors.Is(err, ErrOutcome) || got.OK || got.Transfers != 0 {
		t.Errorf("summary %+v, error %v", got, err)
	}
}

func TestOnlyASandboxIsBoughtFrom(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	s.environment = "production"
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "real money") {
		t.Errorf("error %v", err)
	}
}

func TestAnOrderUnderReviewEndsTheStory(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	s.finalStatus = "operator_review"
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), testOrder) || !strings.Contains(err.Error(), "operators") {
		t.Errorf("error %v", err)
	}
}

func TestPatienceEndsAndSaysWhereToLook(t *testing.T) {
	s := newService(t)
	cfg, _, c := buyerAt(t, s)
	s.stuck = true
	begin := c.Now()
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/api/orders/"+testOrder) {
		t.Errorf("error %v", err)
	}
	if waited := c.Now().Sub(begin); waited < 2*time.Minute || waited > 3*time.Minute {
		t.Errorf("waited %s", waited)
	}
}

func TestAPaymentFollowsNoRedirect(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	s.redirect = other.URL
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "http_307") {
		t.Errorf("error %v", err)
	}
}

func TestNothingRunsAtTheAddress(t *testing.T) {
	s := newService(t)
	cfg, _, _ := buyerAt(t, s)
	s.Close()
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "roamcard dev") {
		t.Errorf("error %v", err)
	}
}

func TestThePaymentNonceFollowsFromThePurchaseAlone(t *testing.T) {
	payer := x402.Address{1}
	base := paymentNonce("http://shop", "/a", payer, "key")
	if paymentNonce("http://shop", "/a", payer, "key") != base {
		t.Error("the same purchase has two nonces")
	}
	for _, other := range []x402.Hash{
		paymentNonce("http://shop2", "/a", payer, "key"), paymentNonce("http://shop", "/b", payer, "key"),
		paymentNonce("http://shop", "/a", x402.Address{2}, "key"), paymentNonce("http://shop", "/a", payer, "key2"),
		paymentNonce("http://shop/", "a", payer, "key"),
	} {
		if other == base {
			t.Error("two purchases have one nonce")
		}
	}
}
