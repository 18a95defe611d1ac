// Package esimtest is the conformance kit of eSIM suppliers, with a supplier and a store in memory.
package esimtest

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// The calls of the port, as faults name them.
const (
	Plans   fulfilmenttest.Op = "plans"
	Check   fulfilmenttest.Op = "check"
	Order   fulfilmenttest.Op = "order"
	Ordered fulfilmenttest.Op = "ordered"
	Profile fulfilmenttest.Op = "profile"
	Cancel  fulfilmenttest.Op = "cancel"
	Topups  fulfilmenttest.Op = "topups"
	TopUp   fulfilmenttest.Op = "topup"
)

// Harness is the supplier under test and the handles on what is behind it.
type Harness struct {
	fulfilmenttest.Handles
	Supplier esim.Supplier
	// SellOut makes a plan run out. May be nil.
	SellOut func(code string)
	// Capabilities are what the supplier declares: they decide what it has to keep to.
	Capabilities esim.Capabilities
	// Use makes a device install the profile of a purchase and use so many bytes; where Capabilities have Status.
	Use func(p esim.Purchase, bytes int64)
	// NamedLate says that the supplier names a purchase when its profile is made, and not when it is ordered.
	NamedLate bool
	// ToppedUp is the call that looks a top-up up, as faults name it; Ordered if empty.
	ToppedUp fulfilmenttest.Op
}

// Run checks a supplier. It must list plans that are in stock, and have the float to buy a dozen of the
// cheapest.
func Run(t *testing.T, h Harness) {
	h.Absent = append(h.Absent, esim.ErrNoPlan)
	fulfilmenttest.Run(t, h.Handles, h.ordering())
	t.Run("ListingsAreWhole", h.listingsAreWhole)
	t.Run("CheckKnowsWhatIsListed", h.checkKnowsWhatIsListed)
	t.Run("OrderedProfileBecomesReady", h.orderedProfileBecomesReady)
	t.Run("CostAboveTheLimitIsRefused", h.costAboveTheLimitIsRefused)
	t.Run("StockThatRanOutIsRefused", h.stockThatRanOutIsRefused)
	t.Run("MaterialIsHidden", h.activationDataIsHidden)
	if h.Capabilities.Status {
		t.Run("ProfileIsWatched", h.profileIsWatched)
		t.Run("StateIsReadWholeOrNotAtAll", h.stateIsReadWholeOrNotAtAll)
	}
	if h.Capabilities.Cancel {
		t.Run("UnusedProfileIsGivenBackOnce", h.unusedProfileIsGivenBackOnce)
		t.Run("InstalledProfileIsNotTakenBack", h.installedProfileIsNotTakenBack)
		t.Run("LostCancellationIsUnknown", h.lostCancellationIsUnknown)
	}
	if h.Capabilities.Topup {
		t.Run("Topup", func(t *testing.T) { fulfilmenttest.Run(t, h.Handles, h.toppingUp(t)) })
		t.Run("ToppedUpProfileHasMoreData", h.toppedUpProfileHasMoreData)
		t.Run("WhatAProfileTakesIsReadWholeOrNotAtAll", h.whatAProfileTakesIsReadWholeOrNotAtAll)
		t.Run("ProfileTakesWhatIsListedForIt", h.profileTakesWhatIsListedForIt)
		t.Run("TopupAboveTheLimitIsRefused", h.topupAboveTheLimitIsRefused)
	}
}

// ordering orders the cheapest plan.
func (h Harness) ordering() fulfilmenttest.Operation[esim.Purchase] {
	return fulfilmenttest.Operation[esim.Purchase]{
		Name: "order", Send: Order, Read: Ordered, Lookup: h.Supplier.Ordered,
		New: func(t *testing.T) fulfilmenttest.Request[esim.Purchase] {
			l := h.cheapest(t)
			return h.request(l, l.Cost)
		},
		ID:   func(p esim.Purchase) string { return p.ID },
		Done: func(p esim.Purchase) bool { return p.State == esim.PurchaseReady },
		Pending: func(p esim.Purchase) bool {
			return p.State == esim.PurchasePending && p.ActivationData == nil
		},
		Refusal: func(p esim.Purchase) *fulfilment.Refusal { return p.Refusal },
		Same:    func(a, b esim.Purchase) bool { return a.ID == b.ID && a.State == b.State },
	}
}

// request asks for a listed plan at a cost.
func (h Harness) request(l esim.Listing, maxCost money.USDC) fulfilmenttest.Request[esim.Purchase] {
	r := esim.Request{Ref: fulfilmenttest.NewRef(), Code: l.Code, MaxCost: maxCost}
	other := r
	other.MaxCost++
	return fulfilmenttest.Request[esim.Purchase]{
		Ref:     r.Ref,
		Send:    func(ctx context.Context) (esim.Purchase, error) { return h.Supplier.Order(ctx, r) },
		Altered: func(ctx context.Context) (esim.Purchase, error) { return h.Supplier.Order(ctx, other) },
	}
}

// cheapest is the listing that costs least of what is in stock.
func (h Harness) cheapest(t *testing.T) esim.Listing {
	t.Helper()
	all, err := h.Supplier.Listings(fulfilmenttest.Context(t))
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	var best esim.Listing
	for _, l := range all {
		if l.InStock && (best.Code == "" || l.Cost < best.Cost) {
			best = l
		}
	}
	if best.Code == "" {
		t.Fatal("nothing is in stock")
	}
	return best
}

func (h Harness) listingsAreWhole(t *testing.T) {
	all, err := h.Supplier.Listings(fulfilmenttest.Context(t))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d listings, %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, l := range all {
		if l.Code == "" || seen[l.Code] || l.Name == "" || l.Cost <= 0 || (l.DataMB > 0) == l.Unlimited || l.DataMB < 0 ||
			l.ValidityDays <= 0 ||
			len(l.Countries) == 0 || (l.Type != esim.Country && l.Type != esim.Region) {
			t.Errorf("listing %+v is not whole, or listed twice", l)
		}
		seen[l.Code] = true
	}
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutBefore, fulfilmenttest.Malformed,
		fulfilmenttest.Truncated, fulfilmenttest.Huge, fulfilmenttest.RateLimited,
		fulfilmenttest.Unauthorized,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, Plans, mode)
			if half, err := h.Supplier.Listings(fulfilmenttest.Context(t)); err == nil || half != nil {
				t.Errorf("half a catalogue: %d listings, %v", len(half), err)
			}
		})
	}
}

func (h Harness) checkKnowsWhatIsListed(t *testing.T) {
	l := h.cheapest(t)
	stock, err := h.Supplier.Check(fulfilmenttest.Context(t), l.Code)
	if err != nil || stock.Cost != l.Cost || stock.Units == 0 || stock.Float < l.Cost {
		t.Errorf("check says %+v, %v of %+v", stock, err, l)
	}
	if _, err := h.Supplier.Check(fulfilmenttest.Context(t), "no-such-plan"); !errors.Is(err, esim.ErrNoPlan) {
		t.Errorf("Check of a plan that is not sold = %v, want ErrNoPlan", err)
	}
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutBefore, fulfilmenttest.Malformed,
		fulfilmenttest.Truncated, fulfilmenttest.RateLimited, fulfilmenttest.Unauthorized,
		fulfilmenttest.Inexact, fulfilmenttest.WrongCurrency,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, Check, mode)
			_, err := h.Supplier.Check(fulfilmenttest.Context(t), l.Code)
			h.WantUnknown(t, err)
		})
	}
}

var (
	iccid    = regexp.MustCompile(`^89\d{16,18}$`)
	host     = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`)
	matching = regexp.MustCompile(`^[A-Z0-9-]{4,}$`)
)

func (h Harness) orderedProfileBecomesReady(t *testing.T) {
	ctx, l := fulfilmenttest.Context(t), h.cheapest(t)
	r := h.request(l, l.Cost)
	asked, err := r.Send(ctx)
	if err != nil {
		t.Fatalf("order: %v", err)
	}
	if (asked.ID == "") != h.NamedLate || asked.Ref != r.Ref || asked.Code != l.Code ||
		(asked.State != esim.PurchasePending && asked.State != esim.PurchaseReady) {
		t.Errorf("ordered %+v", asked)
	}
	h.Settle()
	got, err := h.Supplier.Ordered(ctx, r.Ref)
	if err != nil || got.State != esim.PurchaseReady || got.ActivationData == nil || got.ID == "" ||
		(!h.NamedLate && got.ID != asked.ID) || got.Ref != r.Ref || got.Code != l.Code || got.Cost != l.Cost {
		t.Fatalf("reads back as %+v, %v", got, err)
	}
	m := *got.ActivationData
	if !iccid.MatchString(m.ICCID.Reveal()) || !host.MatchString(m.SMDPAddress.Reveal()) ||
		!matching.MatchString(m.MatchingID.Reveal()) {
		t.Error("the activation data is not what devices take")
	}
	again, err := h.Supplier.Ordered(ctx, r.Ref)
	if err != nil || again.ActivationData == nil || !again.ActivationData.ICCID.Equal(m.ICCID) ||
		!again.ActivationData.MatchingID.Equal(m.MatchingID) {
		t.Errorf("the activation data is another the second time: %v", err)
	}
	h.WantExecuted(t, r.Ref, 1)
}

func (h Harness) costAboveTheLimitIsRefused(t *testing.T) {
	l := h.cheapest(t)
	h.ordering().WantRefused(t, h.Handles, h.request(l, l.Cost-1), esim.RefusedPrice)
}

func (h Harness) stockThatRanOutIsRefused(t *testing.T) {
	if h.SellOut == nil {
		t.Skip("no plan of the supplier can be sold out")
	}
	l := h.cheapest(t)
	h.SellOut(l.Code)
	if stock, err := h.Supplier.Check(fulfilmenttest.Context(t), l.Code); err != nil || stock.Units != 0 {
		t.Errorf("check says %+v, %v of a plan that is sold out", stock, err)
	}
	h.ordering().WantRefused(t, h.Handles, h.request(l, l.Cost), esim.RefusedStock)
	if next := h.cheapest(t); next.Code == l.Code {
		t.Error("a plan that is sold out is listed as in stock")
	}
}

func (h Harness) activationDataIsHidden(t *testing.T) {
	_, p := h.ordering().Finished(t, h.Handles)
	secrets := []string{p.ActivationData.ICCID.Reveal(), p.ActivationData.MatchingID.Reveal()}
	wantNone := func(t *testing.T, what, text string) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s shows the activation data", what)
			}
		}
	}
	wantNone(t, "a purchase", fulfilmenttest.Shown(t, p))
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutAfter, fulfilmenttest.Malformed,
		fulfilmenttest.Truncated, fulfilmenttest.Huge, fulfilmenttest.WrongOwner,
		fulfilmenttest.WrongAmount,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, Ordered, mode)
			_, err := h.Supplier.Ordered(fulfilmenttest.Context(t), p.Ref)
			for ; err != nil; err = errors.Unwrap(err) {
				wantNone(t, "an error", fulfilmenttest.Shown(t, err))
			}
		})
	}
}
