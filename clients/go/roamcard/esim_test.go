package roamcard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// esimIsBoughtAndShown buys a plan by its id, and shows it to who asks rightly.
func (s stage) esimIsBoughtAndShown(t *testing.T) {
	ctx, w, p := t.Context(), s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	plans, err := c.Plans(ctx, "JP", "country")
	if err != nil || len(plans) == 0 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	const name = "an eSIM for Japan"
	bought, err := c.BuyESIM(ctx, plans[0].GetPlanId(), name)
	if err != nil || bought.Order.GetDelivery().GetPlanId() != plans[0].GetPlanId() {
		t.Fatalf("%v, %v", bought, err)
	}
	id := bought.Order.GetOrderId()
	if again, err := c.BuyESIM(ctx, plans[0].GetPlanId(), name); err != nil || again.Order.GetOrderId() != id || !again.Order.GetReplayed() {
		t.Errorf("again: %v, %v", again, err)
	}
	s.paidUnits(t, w, int64(plans[0].GetPriceUsdCents())*10_000)
	if err := c.WatchOrder(ctx, id, func(*roamcardv1.Order) bool { return true }); err != nil {
		t.Fatal(err)
	}
	byToken := roamcard.WithDeliveryToken(ctx, bought.Token)
	for name, ctx := range map[string]context.Context{"by token": byToken, "by session": ctx} {
		if o, err := c.ESIMStatus(ctx, id); err != nil || o.GetStatus() != "fulfilled" {
			t.Errorf("%s: %v, %v", name, o.GetStatus(), err)
		}
		if page := s.installed(t, ctx, c, id); !strings.Contains(page, `<img src="data:image/png;base64,`) || !strings.Contains(page, "LPA:1$") {
			t.Errorf("%s: the page shows no eSIM", name)
		}
	}
	inJSON, err := json.Marshal(bought)
	if err != nil {
		t.Fatal(err)
	}
	written := fmt.Sprintf("%v %+v %#v %s %v", bought, bought, bought.ESIM, inJSON, bought.Order)
	for _, secret := range []string{bought.ESIM.LPA.Reveal(), bought.ESIM.ICCID.Reveal(), bought.Token.Reveal()} {
		if secret == "" || strings.Contains(written, secret) {
			t.Errorf("a secret is missing or shows in what is printed")
		}
	}
	stranger := buyerOf(t, s.BaseURL, p.BaseURL, s.wallet(t), nil)
	if _, err := stranger.ESIMStatus(ctx, id); !errors.Is(err, &roamcard.APIError{Code: "order_not_found"}) {
		t.Errorf("another wallet: %v", err)
	}
	if _, err := c.ESIMStatus(roamcard.WithDeliveryToken(ctx, roamcard.NewSecret("wrong")), id); err == nil {
		t.Errorf("another token opens the order")
	}
}

// installed is the page of an eSIM as a person sees it.
func (s stage) installed(t *testing.T, ctx context.Context, c *roamcard.Client, order string) string {
	t.Helper()
	var page []byte
	seen, err := c.InstallESIM(ctx, order, roamcard.BrowserPresenter{Open: func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		page, err = io.ReadAll(res.Body)
		return errors.Join(err, res.Body.Close())
	}})
	if err != nil || !seen.Seen {
		t.Fatalf("install: %v, %v", seen, err)
	}
	return string(page)
}

// cheapestESIMIsBoughtOnce buys without naming a plan, through faults.
func (s stage) cheapestESIMIsBoughtOnce(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	plans, err := c.Plans(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	p.inject(t, fault{"on": "paid", "cut": 0}, fault{"on": "paid", "status": 503}, fault{"on": "paid", "cut": -5})
	first, err := c.BuyESIM(t.Context(), "", "the same key for good")
	if err != nil || first.ESIM == nil {
		t.Fatalf("%v, %v", first, err)
	}
	if all, different := p.sent(t); all != 4 || different != 1 || w.signed != 1 {
		t.Errorf("signed %d, sent %d, different %d; want 1, 4, 1", w.signed, all, different)
	}
	again, err := buyerOf(t, s.BaseURL, p.BaseURL, w, nil).BuyESIM(t.Context(), "", "the same key for good")
	if err != nil || again.Order.GetOrderId() != first.Order.GetOrderId() || !again.Order.GetReplayed() {
		t.Errorf("again: %v, %v", again, err)
	}
	s.paidUnits(t, w, int64(plans[0].GetPriceUsdCents())*10_000)
	if _, err := c.BuyESIM(t.Context(), plans[0].GetPlanId(), "the same key for good"); !errors.Is(err, roamcard.ErrKeyReused) {
		t.Errorf("another plan under the key: %v", err)
	}
}

// dearESIMIsRefused asks for another price than published, and for more than the caps.
func (s stage) dearESIMIsRefused(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	plans, err := c.Plans(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	p.inject(t, fault{"on": "unpaid", "terms": map[string]any{"amount": fmt.Sprint((plans[0].GetPriceUsdCents() + 1) * 10_000)}})
	if _, err := c.BuyESIM(t.Context(), plans[0].GetPlanId(), ""); !errors.Is(err, roamcard.ErrTermsMismatch) {
		t.Errorf("another price: %v", err)
	}
	p.inject(t, fault{"on": "unpaid", "terms": map[string]any{"amount": "260000000"}})
	if _, err := c.BuyESIM(t.Context(), "", ""); !errors.Is(err, roamcard.ErrPolicyDenied) {
		t.Errorf("above the caps: %v", err)
	}
	if _, err := c.BuyESIM(t.Context(), "pln_none", ""); err == nil {
		t.Error("a plan that is none was bought")
	}
	if all, _ := p.sent(t); all != 0 || w.signed != 0 {
		t.Errorf("signed %d, sent %d; want none", w.signed, all)
	}
}
