package sandbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Topups implements esim.Topper.
func (s *Supplier) Topups(ctx context.Context, h esim.Held) ([]esim.Listing, error) {
	all, err := s.plans(ctx, request{
		op: "topups", path: []string{"profiles", h.ID, "plans"}, route: "/esim/v1/profiles/{id}/plans",
	})
	if err != nil {
		return nil, fmt.Errorf("read what a profile takes: %w", err)
	}
	return all, nil
}

// CheckTopup implements esim.Topper.
func (s *Supplier) CheckTopup(ctx context.Context, h esim.Held, code string) (esim.Stock, error) {
	all, err := s.Topups(ctx, h)
	if err != nil {
		return esim.Stock{}, err
	}
	if !slices.ContainsFunc(all, func(l esim.Listing) bool { return l.Code == code }) {
		return esim.Stock{}, fmt.Errorf("check a plan for a profile: %w", esim.ErrNoPlan)
	}
	return s.Check(ctx, code)
}

// TopUp implements esim.Topper.
func (s *Supplier) TopUp(ctx context.Context, r esim.TopUpRequest) (esim.Purchase, error) {
	p, err := s.order(ctx, r.Request, r.Held.ID, request{
		op: "topup", path: []string{"profiles", r.Held.ID, "orders"}, route: "/esim/v1/profiles/{id}/orders",
	})
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("add a plan to a profile: %w", err)
	}
	return p, nil
}

// ToppedUp implements esim.Topper.
func (s *Supplier) ToppedUp(ctx context.Context, h esim.Held, ref fulfilment.Ref) (esim.Purchase, error) {
	return s.ordered(ctx, ref, h.ID)
}
