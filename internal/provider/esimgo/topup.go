package esimgo

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Topups implements esim.Topper. The vendor adds any bundle to any eSIM that it finds fit, which CheckTopup asks;
// offered are those of the eSIM's own countries, its own bundle among them.
func (s *Supplier) Topups(ctx context.Context, h esim.Held) ([]esim.Listing, error) {
	status, err := s.simStatus(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("read an eSIM: %w", err)
	}
	if !takesBundles(status) || !isBundle(h.Code) {
		return nil, nil
	}
	// A bundle's price has no currency of its own.
	if _, err := s.balance(ctx); err != nil {
		return nil, fmt.Errorf("read what an eSIM takes: %w", err)
	}
	got, listed, err := s.bundle(ctx, h.Code)
	if err != nil {
		return nil, fmt.Errorf("read what an eSIM takes: %w", err)
	}
	own, ok := got.listing()
	if !listed || !ok {
		return nil, nil // nobody can say what its countries are
	}
	near, err := s.catalogue(ctx, "topups", url.Values{"countries": {own.Countries[0]}})
	if err != nil {
		return nil, fmt.Errorf("read what an eSIM takes: %w", err)
	}
	all := []esim.Listing{own}
	for _, l := range near {
		if l.Code != own.Code && l.Type == own.Type && sameCountries(l, own) {
			all = append(all, l)
		}
	}
	return all, nil
}

// takesBundles reports whether an eSIM is there for a bundle to be added to: one that its owner has deleted is not.
func takesBundles(sim string) bool { return sim == simReleased || onDevice[sim] && sim != simDeleted }

func sameCountries(a, b esim.Listing) bool {
	one, other := slices.Sorted(slices.Values(a.Countries)), slices.Sorted(slices.Values(b.Countries))
	return slices.Equal(one, other)
}

// CheckTopup implements esim.Topper: validate runs all checks of an order for this eSIM and charges nothing.
func (s *Supplier) CheckTopup(ctx context.Context, h esim.Held, code string) (esim.Stock, error) {
	return s.check(ctx, wanted{code, h.ICCID.Reveal()})
}

// TopUp implements esim.Topper. What holds for Order holds for it.
func (s *Supplier) TopUp(ctx context.Context, r esim.TopUpRequest) (esim.Purchase, error) {
	if _, ok := esim.ParseICCID(r.Held.ICCID.Reveal()); !ok || r.Held.ID == "" {
		return esim.Purchase{}, &fulfilment.Refusal{Code: esim.RefusedProfile, Message: "that is no eSIM"}
	}
	p, err := s.order(ctx, "topup", r.Request, r.Held)
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("add a bundle to an eSIM: %w", err)
	}
	return p, nil
}

// ToppedUp implements esim.Topper.
func (s *Supplier) ToppedUp(ctx context.Context, h esim.Held, ref fulfilment.Ref) (esim.Purchase, error) {
	return s.ordered(ctx, ref, h)
}
