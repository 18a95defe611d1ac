package roamcard_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// The key that the caller never saw comes with whatever goes wrong after it was signed under.
func TestAnOrderThatCannotBeReadNamesTheKeyOfItsPayment(t *testing.T) {
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
	_, err = c.Cards.TopUp(t.Context(), 2500, "")
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

func keyOf(err error) string { return roamcard.ReportOf(err).IdempotencyKey }
