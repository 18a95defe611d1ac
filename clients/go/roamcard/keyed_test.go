package roamcard_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// The key that the caller never saw comes with whatever goes wrong after it was signed under.
func TestOrderThatCannotBeReadNamesTheKeyOfItsPayment(t *testing.T) {
	wrong := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		status(200, `{"order":{"orderId":"ord_1","kind":"card_topup","amountUsdCents":2500,"status":7}}`)(w)
	}
	s := open(t, wrong, wrong)
	_, signed := payer(t, nil)
	c, err := roamcard.New(roamcard.Config{
		BaseURL: s.URL, Signer: signed, MaxReplays: new(0),
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000, PayTo: payTo},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Cards.TopUp(t.Context(), 2500, roamcard.NewKey())
	unclear, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err)
	if !ok || unclear.IdempotencyKey == "" {
		t.Fatalf("%v names no key", err)
	}
	all, err := c.ResumeAll(t.Context())
	if err != nil || len(all) != 1 || keyOf(all[0].Err) != unclear.IdempotencyKey {
		t.Errorf("resumed %+v, %v", all, err)
	}
	bought, err := c.Cards.TopUp(t.Context(), 2500, unclear.IdempotencyKey)
	if err != nil || bought.Order.GetOrderId() != "ord_1" || signed.n != 1 || !same(s.sent()) {
		t.Errorf("%v, %v, signed %d", bought, err, signed.n)
	}
}

// Also an error that has no place for a key of its own comes with the one that was signed under.
func TestWhateverFailsAfterSigningNamesTheKey(t *testing.T) {
	s := open(t, dead)
	_, signed := payer(t, nil)
	now := &clock{at: time.Now()}
	s.now = now.now
	c, err := roamcard.New(roamcard.Config{
		BaseURL: s.URL, Signer: signed, MaxReplays: new(0), Now: now.now,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000, PayTo: payTo},
	})
	if err != nil {
		t.Fatal(err)
	}
	var told *roamcard.APIError
	if _, err := c.Cards.TopUp(t.Context(), 2500, "k"); !errors.As(err, &told) || told.IdempotencyKey != "k" {
		t.Fatal(err)
	}
	now.add(time.Hour) // then a new price is asked for, of a service that is not there
	s.CloseClientConnections()
	s.Close()
	_, err = c.Cards.TopUp(t.Context(), 2500, "k")
	if !errors.Is(err, roamcard.ErrAmbiguousPayment) || keyOf(err) != "k" || signed.n != 1 {
		t.Errorf("%v, signed %d", err, signed.n)
	}
}

// A second payment that is not made leaves the first one signed, whoever made the calls.
func TestRefusalToSignAgainNamesTheKey(t *testing.T) {
	for name, change := range map[string]func(*roamcard.Payer, *shop){
		"policy": func(p *roamcard.Payer, _ *shop) { p.Policy.MaxPerPayment = 100 },
		"day":    func(p *roamcard.Payer, _ *shop) { p.Policy.MaxPerDay = 100 },
		"nobody": func(p *roamcard.Payer, _ *shop) { p.Policy.Mode = roamcard.HumanApproval },
		"terms":  func(_ *roamcard.Payer, s *shop) { s.payTo = "0x000000000000000000000000000000000000dEaD" },
		"clock":  func(_ *roamcard.Payer, s *shop) { s.now = time.Now },
		"signer": func(p *roamcard.Payer, _ *shop) { p.Signer = unwilling{p.Signer} },
	} {
		s := open(t, dead)
		p, signed := payer(t, roamcard.NewMemoryStore())
		now := &clock{at: time.Now()}
		p.Now, s.now = now.now, now.now
		if code, err := buy(p, s, "k"); code != 402 || err != nil {
			t.Fatalf("%s: %d, %v", name, code, err)
		}
		now.add(time.Hour)
		change(p, s)
		if _, err := buy(p, s, "k"); keyOf(err) != "k" || signed.n != 1 {
			t.Errorf("%s: %v names %q, signed %d", name, err, keyOf(err), signed.n)
		}
	}
}

// unwilling is a wallet that signs nothing.
type unwilling struct{ roamcard.Signer }

func (unwilling) SignTypedData(context.Context, roamcard.TypedData) ([]byte, error) {
	return nil, errors.New("no")
}

// A clock that is ahead by what is let pass takes no payment for over that the chain could still take.
func TestClockThatIsAheadSignsNothingWhileAPaymentLives(t *testing.T) {
	s := open(t, dead)
	p, signed := payer(t, roamcard.NewMemoryStore())
	theirs := &clock{at: time.Now()}
	ahead := time.Duration(0)
	s.now, p.Now = theirs.now, func() time.Time { return theirs.now().Add(ahead) }
	if code, err := buy(p, s, "k"); code != 402 || err != nil {
		t.Fatal(code, err)
	}
	theirs.add(100 * time.Second) // it is good for 120
	ahead = 55 * time.Second
	s.answers = append(s.answers, dead)
	if code, err := buy(p, s, "k"); code != 402 || err != nil || signed.n != 1 {
		t.Errorf("%d, %v, signed %d", code, err, signed.n)
	}
}

// A top-up over REST may leave the amount to the service; it is resumed as it was asked for.
func TestTopUpOfNoNamedAmountIsResumed(t *testing.T) {
	s := open(t, hangUp)
	p, signed := payer(t, roamcard.NewMemoryStore())
	c, err := roamcard.New(roamcard.Config{
		BaseURL: s.URL, Signer: signed, Store: p.Store, Policy: p.Policy, MaxReplays: new(0),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.MaxReplays = new(0)
	body := strings.NewReader(`{"idempotencyKey":"k"}`)
	_, err = (&http.Client{Transport: p}).Post(s.URL+roamcard.OpTopup, "application/json", body)
	if !errors.Is(err, roamcard.ErrAmbiguousPayment) {
		t.Fatal(err)
	}
	if r, err := c.Resume(t.Context(), "k"); err != nil || r.Order.GetOrderId() != "ord_1" || !same(s.sent()) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A purchase whose caller died with the answer is in the journal as settled: its order comes again by its key.
func TestSettledPurchaseIsResumed(t *testing.T) {
	s := open(t)
	_, signed := payer(t, nil)
	c, err := roamcard.New(roamcard.Config{
		BaseURL: s.URL, Signer: signed,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 2500, PayTo: payTo},
	})
	if err != nil {
		t.Fatal(err)
	}
	bought, err := c.Cards.TopUp(t.Context(), 2500, "k")
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Cards.TopUp(t.Context(), 2500, "k")
	if err != nil || bought.Replayed || !again.Replayed {
		t.Errorf("bought %+v, again %+v, %v", bought, again, err)
	}
	r, err := c.Resume(t.Context(), "k")
	if err != nil || r.Order.GetOrderId() != bought.Order.GetOrderId() || !r.Replayed || signed.n != 1 {
		t.Errorf("%+v, %v, signed %d", r, err, signed.n)
	}
	if _, err := c.Resume(t.Context(), "other"); !errors.Is(err, roamcard.ErrNotFound) {
		t.Error(err)
	}
}

func keyOf(err error) string { return roamcard.ReportOf(err).IdempotencyKey }
