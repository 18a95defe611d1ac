package esimaccess_test

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// sold is a profile that is ready.
func (b *bench) sold(code string) esim.Held {
	b.Helper()
	ref, _ := b.ordered(code)
	b.fake.Settle()
	p, err := b.Ordered(b.Context(), ref)
	if err != nil || p.State != esim.PurchaseReady {
		b.Fatalf("%+v, %v", p.State, err)
	}
	return esim.Held{ID: p.ID, Code: p.Code, ICCID: p.ActivationData.ICCID, Cost: p.Cost}
}

const franceMore = "TOPUP_" + france

func TestProfileTakesThePackagesOfTheVendorsList(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	h := b.sold(france)
	all, err := b.Topups(t.Context(), h)
	if err != nil || len(all) != 3 {
		t.Fatalf("takes %+v, %v", all, err)
	}
	for _, l := range all {
		if l.Countries[0] != "FR" || l.Cost <= 0 || l.Code[:6] != "TOPUP_" {
			t.Errorf("takes %+v", l)
		}
	}
	for _, status := range []string{"USED_EXPIRED", "UNUSED_EXPIRED", "CANCEL"} {
		b.use(h.ID, status, "ENABLED", 0)
		if all, err := b.Topups(t.Context(), h); err != nil || len(all) != 0 {
			t.Errorf("%s it takes %+v, %v", status, all, err)
		}
		_, err := b.TopUp(t.Context(), esim.TopUpRequest{Request: request(franceMore), Held: h})
		if no, ok := errors.AsType[*fulfilment.Refusal](err); !ok || no.Code != esim.RefusedPlan {
			t.Errorf("%s it is topped up: %v", status, err)
		}
	}
	if n := b.fake.Requests()["topup"]; n != 0 {
		t.Errorf("%d top-ups were sent", n)
	}
}

// TestTopupIsGuardedByItsPrice: the vendor refuses at another price than the one that was read.
func TestTopupIsGuardedByItsPrice(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	h := b.sold(france)
	before := b.fake.Balance()
	r := esim.TopUpRequest{Request: request(franceMore), Held: h}
	r.MaxCost = 1
	_, err := b.TopUp(t.Context(), r)
	if no, ok := errors.AsType[*fulfilment.Refusal](err); !ok || no.Code != esim.RefusedPrice {
		t.Errorf("above the limit: %v", err)
	}
	if b.fake.Balance() != before || b.fake.Requests()["topup"] != 0 {
		t.Error("it was sent")
	}
	r = esim.TopUpRequest{Request: request(franceMore), Held: h}
	p, err := b.TopUp(t.Context(), r)
	if err != nil || b.fake.Balance() != before-int64(p.Cost)/100 || p.Onto != h.ID {
		t.Errorf("%+v, %v; the balance fell by %d", p, err, before-b.fake.Balance())
	}
}

// TestTopupIsFoundByAnotherProcess: the profile names it, whoever asks.
func TestTopupIsFoundByAnotherProcess(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	h, other := b.sold(france), b.sold(france)
	r := esim.TopUpRequest{Request: request(franceMore), Held: h}
	b.fake.Fault("topup", vendorfake.TimeoutAfter)
	_, err := b.TopUp(t.Context(), r)
	b.handles().WantUnknown(b.T, err)
	p, err := b.dial().ToppedUp(t.Context(), h, r.Ref)
	if err != nil || p.State != esim.PurchaseReady || p.Code != franceMore {
		t.Errorf("found %+v, %v", p, err)
	}
	if _, err := b.ToppedUp(t.Context(), other, r.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("on another profile: %v", err)
	}
	if _, err := b.ToppedUp(t.Context(), h, fulfilmenttest.NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("under another reference: %v", err)
	}
	all, err := b.Purchases(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	onto := map[string]int{}
	for _, p := range all {
		onto[p.Onto]++
	}
	if onto[h.ID] != 1 || onto[""] != 2 {
		t.Errorf("the book has %v", onto)
	}
}
