package roamcard_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// What a top-up costs is what its request names, over REST as well.
func TestATopUpOverRESTCostsWhatItNames(t *testing.T) {
	s := open(t)
	p, signed := payer(t, roamcard.NewMemoryStore())
	body := strings.NewReader(`{"idempotencyKey":"k","amountUsdCents":2400}`)
	_, err := (&http.Client{Transport: p}).Post(s.URL+roamcard.OpTopup, "application/json", body)
	if !errors.Is(err, roamcard.ErrTermsMismatch) || signed.n != 0 {
		t.Errorf("%v, signed %d", err, signed.n)
	}
}
