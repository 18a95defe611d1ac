package esimgo_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// sold is an eSIM that was ordered.
func (b *bench) sold(code string) esim.Held {
	b.t.Helper()
	p, err := b.Order(b.t.Context(), asking(code))
	if err != nil || p.State != esim.PurchaseReady {
		b.t.Fatalf("%+v, %v", p.State, err)
	}
	b.clock.pass(time.Hour)
	return esim.Held{ID: p.ID, Code: code, ICCID: p.ActivationData.ICCID, Cost: p.Cost}
}

func TestEsimTakesTheBundlesOfItsCountries(t *testing.T) {
	b := start(t, esimgofake.Config{PageSize: 2})
	h := b.sold(france)
	all, err := b.Topups(t.Context(), h)
	if err != nil || len(all) != 2 || all[0].Code != france || !all[1].Unlimited {
		t.Errorf("takes %+v, %v", all, err)
	}
	b.vendor.Put(h.ID, esimgofake.Use{Profile: "Deleted"})
	if all, err := b.Topups(t.Context(), h); err != nil || len(all) != 0 {
		t.Errorf("deleted it takes %+v, %v", all, err)
	}
	if stock, err := b.CheckTopup(t.Context(), h, france); err != nil || stock.Units != 0 {
		t.Errorf("deleted it can have %+v, %v", stock, err)
	}
	_, err = b.TopUp(t.Context(), esim.TopUpRequest{Request: asking(france), Held: h})
	if refusalOf(err) != esim.RefusedProfile || b.vendor.Requests()["topup"] != 0 {
		t.Errorf("deleted it is topped up: %v after %d orders", err, b.vendor.Requests()["topup"])
	}
}

// TestLostTopupIsTheOneOnItsEsim: another bundle of the time is no top-up of this eSIM.
func TestLostTopupIsTheOneOnItsEsim(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(b *bench, other esim.Held)
		found     bool
	}{
		"alone":                      {func(*bench, esim.Held) {}, true},
		"another eSIM has a bundle":  {func(b *bench, other esim.Held) { b.vendor.Add(france, other.ID) }, false},
		"somebody ordered the same":  {func(b *bench, _ esim.Held) { b.vendor.Buy(france) }, false},
		"somebody ordered something": {func(b *bench, _ esim.Held) { b.vendor.Buy(japan) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, esimgofake.Config{})
			h, other := b.sold(france), b.sold(france)
			r := esim.TopUpRequest{Request: asking(france), Held: h}
			b.fault("topup", vendorfake.TimeoutAfter)
			_, err := b.TopUp(t.Context(), r)
			wantUnknown(t, err)
			c.meanwhile(b, other)
			p, err := b.ToppedUp(t.Context(), h, r.Ref)
			if c.found {
				if err != nil || p.State != esim.PurchaseReady || p.Onto != h.ID || p.ActivationData != nil {
					t.Errorf("found %+v, %v", p, err)
				}
				return
			}
			wantUnknown(t, err)
		})
	}
}

// TestTopupNeverMadeIsNotAnotherOnes: the order of the time is on another eSIM, so it is not adopted.
func TestTopupNeverMadeIsNotAnotherOnes(t *testing.T) {
	b := start(t, esimgofake.Config{})
	h, other := b.sold(france), b.sold(france)
	r := esim.TopUpRequest{Request: asking(france), Held: h}
	b.fault("topup", vendorfake.TimeoutBefore)
	_, err := b.TopUp(t.Context(), r)
	wantUnknown(t, err)
	b.vendor.Add(france, other.ID)
	_, err = b.ToppedUp(t.Context(), h, r.Ref)
	wantUnknown(t, err)
	if _, err := b.ToppedUp(t.Context(), other, r.Ref); err == nil || errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("of another eSIM the reference is %v", err)
	}
	if _, err := b.TopUp(t.Context(), r); !errors.Is(err, esim.ErrSent) {
		t.Errorf("sent again: %v", err)
	}
}

// TestTopupIsNotReassigned: the vendor must not make another eSIM in place of the owner's.
func TestTopupIsNotReassigned(t *testing.T) {
	b := start(t, esimgofake.Config{})
	h := b.sold(france)
	var sent int
	adapter := b.over(between{before: func(r *http.Request) {
		if isTransaction(t, r) {
			sent++
			body, err := r.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			wantBody(t, body, `"iccids":["`+h.ICCID.Reveal()+`"]`, `"allowReassign":false`)
		}
	}})
	if _, err := adapter.TopUp(t.Context(), esim.TopUpRequest{Request: asking(france), Held: h}); err != nil || sent != 1 {
		t.Errorf("%v, sent %d times", err, sent)
	}
}

func TestStateIsOfAllBundles(t *testing.T) {
	b := start(t, esimgofake.Config{})
	h := b.sold(france)
	b.vendor.Put(h.ID, esimgofake.Use{Profile: "Enabled", Bundle: "Depleted", Used: 1_000_000_000})
	was, err := b.State(t.Context(), h)
	if err != nil || was.Status != esim.ProfileUsedUp {
		t.Fatalf("%+v, %v", was, err)
	}
	if _, err := b.TopUp(t.Context(), esim.TopUpRequest{Request: asking(france), Held: h}); err != nil {
		t.Fatal(err)
	}
	is, err := b.State(t.Context(), h)
	if err != nil || is.Status != esim.ProfileInstalled || is.Usage.Used != was.Usage.Used ||
		is.Usage.Total != 2*was.Usage.Total {
		t.Errorf("%+v, %+v, %v", is, is.Usage, err)
	}
	if _, err := b.TopUp(t.Context(), esim.TopUpRequest{Request: asking("esim_UL_7D_FR_V2"), Held: h}); err != nil {
		t.Fatal(err)
	}
	if is, err := b.State(t.Context(), h); err != nil || is.Usage == nil || is.Usage.Total != 0 {
		t.Errorf("with unlimited data: %+v, %v", is.Usage, err)
	}
}

func TestBookTellsTopupsFromEsims(t *testing.T) {
	b := start(t, esimgofake.Config{})
	h := b.sold(france)
	if _, err := b.TopUp(t.Context(), esim.TopUpRequest{Request: asking(france), Held: h}); err != nil {
		t.Fatal(err)
	}
	all, err := b.Purchases(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	onto := 0
	for _, p := range all {
		if p.Onto == h.ID {
			onto++
		}
	}
	if onto != 1 {
		t.Errorf("%+v", all)
	}
}

func wantBody(t *testing.T, body io.Reader, parts ...string) {
	t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
}
