package goclient_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// unsent fails what is sent over it, and counts it.
type unsent struct{ n int }

func (u *unsent) RoundTrip(*http.Request) (*http.Response, error) {
	u.n++
	return nil, errors.New("sent")
}

// A key that is given and empty is no key to be made: run twice, it would buy twice.
func TestEmptyKeyBuysNothing(t *testing.T) {
	signer, err := roamcard.NewKeySigner("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d")
	if err != nil {
		t.Fatal(err)
	}
	wire := &unsent{}
	c, err := roamcard.New(roamcard.Config{
		BaseURL: "https://shop.example", Signer: signer, HTTP: wire, MaxReplays: new(0),
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, empty := range []string{"", " ", "\n", roamcard.NoKey} {
		_, card := c.Cards.Purchase(t.Context(), empty)
		_, topup := c.Cards.TopUp(t.Context(), 2500, empty)
		_, esim := c.ESIM.Purchase(t.Context(), "", empty)
		_, more := c.ESIM.TopUp(t.Context(), "ord_1", "", empty)
		for _, err := range []error{card, topup, esim, more} {
			if !errors.Is(err, roamcard.ErrEmpty) || wire.n > 0 {
				t.Errorf("%q: %v, sent %d", empty, err, wire.n)
			}
		}
	}
}
