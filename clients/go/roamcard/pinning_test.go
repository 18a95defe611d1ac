package roamcard_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// What a top-up costs is what its request names, over REST as well.
func TestTopUpOverRESTCostsWhatItNames(t *testing.T) {
	s := open(t)
	p, signed := payer(t, roamcard.NewMemoryStore())
	body := strings.NewReader(`{"idempotencyKey":"k","amountUsdCents":2400}`)
	_, err := (&http.Client{Transport: p}).Post(s.URL+roamcard.OpTopup, "application/json", body)
	if !errors.Is(err, roamcard.ErrTermsMismatch) || signed.n != 0 {
		t.Errorf("%v, signed %d", err, signed.n)
	}
}

// A top-up of no named amount costs what is published, and without any price nothing is signed.
func TestWithoutAPriceNothingIsSigned(t *testing.T) {
	s := open(t)
	p, signed := payer(t, roamcard.NewMemoryStore())
	p.Price = func(context.Context, string, string) (roamcard.Cents, error) { return 2500, nil }
	p.Plan = func(context.Context, string) (string, roamcard.Cents, error) { return "plan", 0, nil }
	post := func(path, body string) error {
		res, err := (&http.Client{Transport: p}).Post(s.URL+path, "application/json", strings.NewReader(body))
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	for _, c := range []struct{ amount, path, body string }{
		{"24990000", roamcard.OpTopup, `{"idempotencyKey":"k"}`},
		{"24990000", roamcard.OpTopup, `{"idempotencyKey":"k","amountUsdCents":0}`},
		{"490000", roamcard.OpESIM, `{"idempotencyKey":"k"}`},
	} {
		s.amount = c.amount
		if err := post(c.path, c.body); !errors.Is(err, roamcard.ErrTermsMismatch) || signed.n != 0 {
			t.Errorf("%s of %s for %s: %v, signed %d", c.path, c.body, c.amount, err, signed.n)
		}
	}
	s.amount = "25000000"
	if err := post(roamcard.OpTopup, `{"idempotencyKey":"k"}`); err != nil || signed.n != 1 {
		t.Errorf("at the published price: %v, signed %d", err, signed.n)
	}
}
