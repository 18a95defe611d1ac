package roamcard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	payTo = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
	key   = "0x4646464646464646464646464646464646464646464646464646464646464646"
)

// clock is a time that both sides see, and that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// shop is a service that asks for 25.00 and answers payments as it was told, in turn.
type shop struct {
	*httptest.Server
	t        *testing.T
	mu       sync.Mutex
	amount   string
	payTo    string
	resource string
	answers  []func(http.ResponseWriter)
	payments []string
	paths    []string
	orders   int
	// accounts says that smart accounts may pay.
	accounts bool
	// now is the service's clock; nil is the real one.
	now func() time.Time
}

func open(t *testing.T, answers ...func(http.ResponseWriter)) *shop {
	s := &shop{t: t, amount: "25000000", payTo: payTo, answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.ReadAll(r.Body); err != nil {
		s.t.Error(err)
	}
	if s.now != nil {
		w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	}
	header := r.Header.Get(x402.HeaderSignature)
	if header == "" {
		s.challenge(w, r)
		return
	}
	read := x402.DecodePayment
	if s.accounts {
		read = x402.DecodeAnyPayment
	}
	if _, err := read(header); err != nil {
		s.t.Errorf("the payment cannot be read: %v", err)
	}
	s.payments = append(s.payments, header)
	answer := s.sold
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	w.Header().Set(x402.HeaderRequired, s.required(r)) // an answer with 402 names the terms again
	s.paths = append(s.paths, r.URL.Path)
	answer(w)
}

func (s *shop) challenge(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(x402.HeaderRequired, s.required(r))
	w.WriteHeader(http.StatusPaymentRequired)
}

func (s *shop) required(r *http.Request) string {
	resource := s.resource
	if resource == "" {
		resource = s.URL + r.URL.Path
	}
	required, err := x402.EncodeRequired(x402.PaymentRequired{
		X402Version: x402.Version, Error: "Payment required", Resource: x402.Resource{URL: resource},
		Accepts: []x402.Requirements{{
			Scheme: x402.Scheme, Network: x402.NetworkID, Amount: s.amount, Asset: roamcard.BaseUSDC, PayTo: s.payTo,
			MaxTimeoutSeconds: 120,
			Extra:             map[string]any{"name": "USD Coin", "version": "2"},
		}},
	})
	if err != nil {
		s.t.Error(err)
	}
	return required
}

func (s *shop) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.payments...)
}

// order is an order for 25.00, of the kind that is sold at the path.
func order(path string, replayed bool) string {
	kind, id := "card_issue", "ord_1"
	switch {
	case path == roamcard.OpTopup || strings.HasSuffix(path, "TopUpCard"):
		kind = "card_topup"
	case path == roamcard.OpESIM || strings.HasSuffix(path, "PurchaseEsim"):
		kind = "esim"
	case strings.HasSuffix(path, "/topup") || strings.HasSuffix(path, "TopUpEsim"):
		kind = "esim_topup"
	case strings.Contains(path, "/pay/"):
		id = path[strings.LastIndexByte(path, '/')+1:]
	}
	sold := fmt.Sprintf(`{"orderId":%q,"kind":%q,"amountUsdCents":2500,"replayed":%t}`, id, kind, replayed)
	if strings.Contains(path, "Service/") { // over Connect the order is a member of the answer
		return `{"order":` + sold + `}`
	}
	return sold
}

// sold is the answer to a payment that was taken.
func (s *shop) sold(w http.ResponseWriter) {
	receipt, err := x402.EncodeSettlement(x402.Settlement{Success: true, Network: x402.NetworkID,
		Transaction: "0x" + strings.Repeat("ab", 32)})
	if err != nil {
		panic(err)
	}
	w.Header().Set(x402.HeaderResponse, receipt)
	s.orders++
	fmt.Fprint(w, order(s.paths[len(s.paths)-1], s.orders > 1))
}

func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func status(code int, problem string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		fmt.Fprint(w, problem)
	}
}

// dead is the answer to a payment that was claimed and can never arrive.
func dead(w http.ResponseWriter) {
	receipt, err := x402.EncodeSettlement(x402.Settlement{Network: x402.NetworkID, ErrorReason: "expired"})
	if err != nil {
		panic(err)
	}
	w.Header().Set(x402.HeaderResponse, receipt)
	w.WriteHeader(http.StatusPaymentRequired)
}

// counting counts what a signer signs.
type counting struct {
	roamcard.Signer
	mu sync.Mutex
	n  int
}

func (c *counting) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Signer.SignTypedData(ctx, doc)
}

func payer(t *testing.T, store roamcard.Store) (*roamcard.Payer, *counting) {
	t.Helper()
	signer, err := roamcard.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	count := &counting{Signer: signer}
	return &roamcard.Payer{
		Signer: count, Store: store, Wait: func(context.Context, time.Duration) error { return nil },
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000, PayTo: payTo},
	}, count
}

func buy(p *roamcard.Payer, s *shop, key string) (int, error) {
	body, err := json.Marshal(map[string]string{"idempotencyKey": key})
	if err != nil {
		return 0, err
	}
	res, err := (&http.Client{Transport: p}).Post(s.URL+"/api/card/purchase", "application/json",
		strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	_, err = io.ReadAll(res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

func same(texts []string) bool {
	for _, t := range texts {
		if t != texts[0] {
			return false
		}
	}
	return true
}

func TestUnclearAnswerIsMetWithTheSameBytes(t *testing.T) {
	s := open(t, hangUp, status(503, `{"code":"settlement_unknown"}`),
		status(409, `{"title":"Wait","status":409,"retryable":true}`))
	p, signed := payer(t, roamcard.NewMemoryStore())
	if code, err := buy(p, s, "k"); code != 200 || err != nil {
		t.Fatalf("answered %d, %v", code, err)
	}
	if got := s.sent(); len(got) != 4 || !same(got) || signed.n != 1 {
		t.Errorf("%d payments, the same %v, %d signatures; expected 4 times the same, signed once", len(got), same(got),
			signed.n)
	}
}

func TestPaymentIsResumedAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wallet", "journal.json")
	s := open(t, hangUp, hangUp, hangUp, hangUp, hangUp)
	signatures := 0
	for life := range 2 {
		j, err := roamcard.NewFileStore(path)
		if err != nil {
			t.Fatal(err)
		}
		p, signed := payer(t, j)
		code, err := buy(p, s, "k")
		signatures += signed.n
		if _, unclear := errors.AsType[*roamcard.AmbiguousPaymentError](err); life == 0 && !unclear {
			t.Fatalf("five lost answers gave %d, %v; expected an ambiguous payment", code, err)
		}
		if life == 1 && (code != 200 || err != nil) {
			t.Fatalf("resumed with %d, %v", code, err)
		}
	}
	if got := s.sent(); len(got) != 6 || !same(got) || signatures != 1 {
		t.Errorf("%d payments, the same %v, %d signatures; expected 6 times the same, signed once", len(got), same(got),
			signatures)
	}
}

func TestNothingIsSignedAgainstThePolicyOrTheTerms(t *testing.T) {
	cases := []struct {
		name   string
		policy func(*roamcard.Policy)
		shop   func(*shop)
		want   error
	}{
		{"no mode", func(p *roamcard.Policy) { p.Mode = "" }, nil, roamcard.ErrPolicyDenied},
		{"autonomous without caps", func(p *roamcard.Policy) { p.MaxPerDay = 0 }, nil, roamcard.ErrPolicyDenied},
		{"above the cap of a payment", func(p *roamcard.Policy) { p.MaxPerPayment = 2499 }, nil, roamcard.ErrPolicyDenied},
		{"above the cap of a day", func(p *roamcard.Policy) { p.MaxPerDay = 2499 }, nil, roamcard.ErrPolicyDenied},
		{"another operation", func(p *roamcard.Policy) { p.Operations = []string{roamcard.OpESIM} }, nil,
			roamcard.ErrPolicyDenied},
		{"nobody to ask", func(p *roamcard.Policy) { p.Mode = roamcard.HumanApproval }, nil, roamcard.ErrPolicyDenied},
		{"said no", func(p *roamcard.Policy) {
			p.Mode = roamcard.PolicyGated
			p.Approve = func(context.Context, roamcard.Quote) (bool, error) { return false, nil }
		}, nil, roamcard.ErrApprovalDenied},
		{"another payee", nil, func(s *shop) { s.payTo = "0x0000000000000000000000000000000000000001" },
			roamcard.ErrTermsMismatch},
		{"another asset", func(p *roamcard.Policy) { p.Asset = payTo }, nil, roamcard.ErrTermsMismatch},
		{"another origin", nil, func(s *shop) { s.resource = "https://elsewhere.example/api/card/purchase" },
			roamcard.ErrTermsMismatch},
		{"another route", nil, func(s *shop) { s.resource = s.URL + "/api/card/topup" }, roamcard.ErrTermsMismatch},
		{"no amount", nil, func(s *shop) { s.amount = "0" }, roamcard.ErrTermsMismatch},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			p, signed := payer(t, roamcard.NewMemoryStore())
			if c.policy != nil {
				c.policy(&p.Policy)
			}
			if c.shop != nil {
				c.shop(s)
			}
			if _, err := buy(p, s, "k"); !errors.Is(err, c.want) {
				t.Errorf("%v; expected %v", err, c.want)
			}
			if signed.n > 0 || len(s.sent()) > 0 {
				t.Errorf("signed %d, sent %d; expected nothing", signed.n, len(s.sent()))
			}
		})
	}
}

func TestRefusalFreesNoBudget(t *testing.T) {
	s := open(t, status(409, `{"code":"card_already_exists","title":"No","status":409,"safeToPayAgain":true}`), dead)
	p, signed := payer(t, roamcard.NewMemoryStore())
	now := &clock{at: time.Now()}
	p.Now, p.Policy.MaxPerDay = now.now, 4999
	s.now = p.Now
	if code, err := buy(p, s, "k"); code != 409 || err != nil {
		t.Fatalf("answered %d, %v", code, err)
	}
	for _, later := range []time.Duration{0, 3 * time.Minute, 20 * time.Hour} {
		now.add(later)
		if _, err := buy(p, s, "other"); !errors.Is(err, roamcard.ErrPolicyDenied) {
			t.Errorf("%s later: %v", later, err)
		}
		now.add(-later)
	}
	now.add(25 * time.Hour)
	if code, err := buy(p, s, "other"); code != 402 || err != nil || signed.n != 2 {
		t.Errorf("a day later: %d, %v, signed %d", code, err, signed.n)
	}
}

// However often a service says that a payment is dead, one authorization of a purchase is live at a time.
func TestOneAuthorizationOfAPurchaseIsLiveAtATime(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second func(http.ResponseWriter)
		fresh         bool
	}{
		{"refused", status(402, ""), status(402, ""), false},
		{"told dead", dead, dead, true},
		{"told dead on the repeat", status(402, ""), dead, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, c.first, c.second)
			p, signed := payer(t, roamcard.NewMemoryStore())
			now := &clock{at: time.Now()}
			p.Now = now.now
			s.now = p.Now
			for range 2 {
				if code, err := buy(p, s, "k"); code != 402 || err != nil || signed.n != 1 {
					t.Fatalf("answered %d, %v, signed %d", code, err, signed.n)
				}
			}
			now.add(3 * time.Minute)
			if code, err := buy(p, s, "k"); code != 200 || err != nil || signed.n != 2 {
				t.Fatalf("answered %d, %v, signed %d", code, err, signed.n)
			}
			if !same(s.sent()[:2]) {
				t.Error("while the payment was live, another one was sent")
			}
			var nonces []x402.Hash
			for _, h := range s.sent()[1:] {
				pay, err := x402.DecodePayment(h)
				if err != nil {
					t.Fatal(err)
				}
				nonces = append(nonces, pay.Authorization.Nonce)
			}
			if (nonces[0] != nonces[1]) != c.fresh {
				t.Errorf("nonces %v; expected another one: %v", nonces, c.fresh)
			}
		})
	}
}

// What is no order for what was signed decides nothing.
func TestOnlyAnOrderIsSuccess(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"page":          status(200, "<html>Thank you</html>"),
		"redirect":      status(307, order(roamcard.OpCard, false)),
		"created":       status(201, order(roamcard.OpCard, false)),
		"nothing":       status(200, "{}"),
		"another kind":  status(200, order(roamcard.OpESIM, false)),
		"another price": status(200, `{"orderId":"ord_1","kind":"card_issue","amountUsdCents":2400}`),
		"another payer": status(200,
			`{"orderId":"ord_1","kind":"card_issue","amountUsdCents":2500,"payment":{"payer":"`+payTo+`"}}`),
		"numbered": status(200, `{"orderId":"ord_1","kind":"card_issue","amountUsdCents":2500,"status":7}`),
		"no time":  status(200, `{"orderId":"ord_1","kind":"card_issue","amountUsdCents":2500,"createdAt":"tomorrow"}`),
		"shouted":  status(200, `{"ORDERID":"ord_1","KIND":"card_issue","AMOUNTUSDCENTS":2500}`),
		"nested":   status(200, `{"order":`+order(roamcard.OpCard, false)+`}`),
		"too long": status(200, `{"orderId":"`+strings.Repeat("x", 2<<20)+`"}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, answer, answer, answer, answer, answer)
			p, signed := payer(t, roamcard.NewMemoryStore())
			_, err := buy(p, s, "k")
			unclear, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err)
			if !ok || unclear.IdempotencyKey != "k" {
				t.Fatalf("%v; expected an ambiguous payment under its key", err)
			}
			if code, err := buy(p, s, "k"); code != 200 || err != nil || signed.n != 1 || !same(s.sent()) {
				t.Errorf("called again: %d, %v, signed %d", code, err, signed.n)
			}
		})
	}
}

func TestRepeatSaysThatItIsOne(t *testing.T) {
	s := open(t)
	p, _ := payer(t, roamcard.NewMemoryStore())
	if code, err := buy(p, s, "k"); code != 200 || err != nil {
		t.Fatalf("answered %d, %v", code, err)
	}
	s.orders = 0 // the service sells it again
	if _, err := buy(p, s, "k"); !errors.Is(err, roamcard.ErrAmbiguousPayment) {
		t.Errorf("a purchase that was sold twice: %v", err)
	}
}

func TestClockThatIsOffSignsNothing(t *testing.T) {
	s := open(t)
	p, signed := payer(t, roamcard.NewMemoryStore())
	p.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
	if _, err := buy(p, s, "k"); !errors.Is(err, roamcard.ErrClock) || signed.n != 0 {
		t.Errorf("%v, signed %d", err, signed.n)
	}
}

// The challenge in the answer to an earlier payment is compared, too, and so is a quote's.
func TestClockThatIsOffSignsNothingAnew(t *testing.T) {
	now, theirs := &clock{at: time.Now()}, &clock{at: time.Now()}
	s := open(t, hangUp, dead)
	s.now = theirs.now
	p, signed := payer(t, roamcard.NewMemoryStore())
	p.Now, p.MaxReplays = now.now, new(0)
	if _, err := buy(p, s, "k"); !errors.Is(err, roamcard.ErrAmbiguousPayment) || signed.n != 1 {
		t.Fatalf("%v, signed %d", err, signed.n)
	}
	now.add(time.Hour)
	if _, err := buy(p, s, "k"); !errors.Is(err, roamcard.ErrClock) || signed.n != 1 || len(s.sent()) != 2 {
		t.Errorf("%v, signed %d, sent %d", err, signed.n, len(s.sent()))
	}
	theirs.add(time.Hour)
	if code, err := buy(p, s, "k"); err != nil || code != http.StatusOK || signed.n != 2 {
		t.Errorf("with the clocks together: %d, %v, signed %d", code, err, signed.n)
	}
	theirs.add(time.Hour)
	c, err := roamcard.New(roamcard.Config{BaseURL: s.URL, Signer: signed, Now: now.now,
		Policy: roamcard.Policy{PayTo: payTo}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Quote.TopUp(t.Context(), 2500); !errors.Is(err, roamcard.ErrClock) {
		t.Errorf("a quote: %v", err)
	}
}

func TestKeyIsBoundToItsBody(t *testing.T) {
	s := open(t)
	p, _ := payer(t, roamcard.NewMemoryStore())
	client := &http.Client{Transport: p}
	for i, body := range []string{`{"idempotencyKey":"k","amountUsdCents":2500}`,
		`{ "idempotencyKey": "k", "amountUsdCents":2500 }`, `{"idempotencyKey":"k","amountUsdCents":2600}`} {
		res, err := client.Post(s.URL+"/api/card/topup", "application/json", strings.NewReader(body))
		if i == 2 {
			if !errors.Is(err, roamcard.ErrKeyConflict) {
				t.Errorf("another body under the key: %v", err)
			}
			continue
		}
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("body %d: %v", i, err)
		}
		_ = res.Body.Close()
	}
}

func TestFirstPayeeIsKeptAndAnotherOneRefused(t *testing.T) {
	const stranger = "0x0000000000000000000000000000000000000001"
	store, s := roamcard.NewMemoryStore(), open(t)
	for i, want := range []error{nil, nil, roamcard.ErrTermsMismatch} {
		p, signed := payer(t, store)
		p.Policy.PayTo = ""
		if i == 2 {
			s.payTo = stranger // and what is published agrees
		}
		p.PayTo = func(context.Context) (string, error) { return s.payTo, nil }
		if _, err := buy(p, s, fmt.Sprint("k", i)); !errors.Is(err, want) || (want != nil && signed.n > 0) {
			t.Errorf("purchase %d: %v, signed %d; want %v", i, err, signed.n, want)
		}
	}
}

func TestPaymentThatDiedUnansweredIsAskedAboutAndThenReplaced(t *testing.T) {
	s := open(t, hangUp, hangUp, hangUp, hangUp, hangUp, status(402, ""))
	p, signed := payer(t, roamcard.NewMemoryStore())
	now := &clock{at: time.Now()}
	p.Now = now.now
	s.now = p.Now
	if _, err := buy(p, s, "k"); !errors.Is(err, roamcard.ErrAmbiguousPayment) {
		t.Fatalf("five lost answers: %v", err)
	}
	now.add(3 * time.Minute)
	if code, err := buy(p, s, "k"); code != 200 || err != nil || signed.n != 2 {
		t.Errorf("answered %d, %v, signed %d", code, err, signed.n)
	}
	first, last := s.sent()[0], s.sent()[6]
	a, err1 := x402.DecodePayment(first)
	b, err2 := x402.DecodePayment(last)
	if err1 != nil || err2 != nil || s.sent()[5] != first || first == last ||
		a.Authorization.Nonce != b.Authorization.Nonce {
		t.Errorf("%v, %v: the old bytes were not sent first, or their successor has another nonce", err1, err2)
	}
}

// failing is a store that fails from its nth change on.
type failing struct {
	roamcard.Store
	from, n int
}

func (f *failing) Update(ctx context.Context, change func(*roamcard.Book) error) error {
	if f.n++; f.n >= f.from {
		return &roamcard.JournalError{File: "journal.json", Reason: roamcard.JournalFull}
	}
	return f.Store.Update(ctx, change)
}

func TestFullDiskLosesNoAnswer(t *testing.T) {
	s := open(t)
	store := roamcard.NewMemoryStore()
	// Reserved and signed are kept, settled is not.
	p, signed := payer(t, &failing{Store: store, from: 3})
	var unkept error
	p.Events = &roamcard.Events{Unkept: func(_ string, err error) { unkept = err }}
	if code, err := buy(p, s, "k"); code != 200 || err != nil || unkept == nil {
		t.Fatalf("answered %d, %v, told %v", code, err, unkept)
	}
	p.Store = store
	if code, err := buy(p, s, "k"); code != 200 || err != nil || signed.n != 1 {
		t.Errorf("answered %d, %v, signed %d", code, err, signed.n)
	}
	p.Store = &failing{Store: store, from: 2}
	_, err := buy(p, s, "other")
	if failed, ok := errors.AsType[*roamcard.JournalError](err); !ok || failed.IdempotencyKey != "other" ||
		len(s.sent()) != 2 {
		t.Errorf("a payment that could not be kept: %v, sent %d", err, len(s.sent()))
	}
}
