package goclient_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// At another price than the order's, and than the published one, nothing is signed, whichever way it is called.
func TestOrderIsPaidAtItsOwnPriceOnly(t *testing.T) {
	ctx, s := t.Context(), newStage(t)
	w := s.wallet()
	c := s.buyer(w)
	opened, err := c.Orders.CreateCard(ctx, "for later")
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, body string) error {
		res, err := c.HTTP.Post(s.BaseURL+path, "application/json", strings.NewReader(body))
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	for path, call := range map[string]func() error{
		"/pay/":         func() error { _, err := c.Orders.Pay(ctx, opened.GetOrderId()); return err },
		"/pay/ord":      func() error { return post("/pay/"+opened.GetOrderId(), "") },
		roamcard.OpCard: func() error { return post(roamcard.OpCard, `{"idempotencyKey":"k"}`) },
	} {
		for _, amount := range []string{"25010000", "10000"} {
			s.Inject(fault{"on": path, "terms": map[string]any{"amount": amount}})
			if err := call(); !errors.Is(err, roamcard.ErrTermsMismatch) {
				t.Errorf("%s for %s: %v", path, amount, err)
			}
		}
	}
	s.paid(w, 0)
	if _, err := c.Orders.Pay(ctx, opened.GetOrderId()); err != nil {
		t.Error(err)
	}
	s.paid(w, 1, 2500)
}
