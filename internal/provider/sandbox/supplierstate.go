package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

var (
	_ esim.Controls  = (*Supplier)(nil)
	_ esim.Canceller = (*Supplier)(nil)
	_ esim.Topper    = (*Supplier)(nil)
)

// Capabilities are those of the server that is dialled.
func (s *Supplier) Capabilities() esim.Capabilities {
	return esim.Capabilities{Status: true, Usage: true, Cancel: true, Topup: true}
}

type profileAnswer struct {
	ID         string     `json:"id"`
	Status     wire.Lower `json:"status"`
	Used       *wire.Int  `json:"usedBytes"`
	Total      *wire.Int  `json:"totalBytes"`
	MeasuredAt wire.Time  `json:"measuredAt"`
	InstallBy  wire.Time  `json:"installBy"`
	Credit     *wire.Int  `json:"creditMicros"`
	Currency   wire.Upper `json:"currency"`
}

// State implements esim.Controls.
func (s *Supplier) State(ctx context.Context, h esim.Held) (esim.State, error) {
	var got profileAnswer
	err := s.call(ctx, request{
		op: "profile", method: http.MethodGet, under: supplierAPI, path: []string{"profiles", h.ID},
		route: "/esim/v1/profiles/{id}",
	}, &got)
	if err != nil {
		return esim.State{}, fmt.Errorf("read a profile: %w", err)
	}
	state, err := got.state(h.ID)
	if err != nil {
		return esim.State{}, fmt.Errorf("read a profile: %w", err)
	}
	return state, nil
}

// Cancel implements esim.Canceller.
func (s *Supplier) Cancel(ctx context.Context, h esim.Held) (money.USDC, error) {
	var got profileAnswer
	err := s.call(ctx, request{
		op: "cancel", method: http.MethodPost, under: supplierAPI, path: []string{"profiles", h.ID, "cancel"},
		route: "/esim/v1/profiles/{id}/cancel",
	}, &got)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused && no.Code != esim.RefusedInstalled {
		err = wire.Unclear("the profile is not there: " + no.Message)
	}
	if err == nil && (got.ID != h.ID || got.Status != profileCancelled || got.Credit == nil || *got.Credit < 0 ||
		money.USDC(*got.Credit) > h.Cost || got.Currency != currencyUSD) {
		err = wire.Unclear("the answer does not say what is credited for the profile")
	}
	if err != nil {
		return 0, fmt.Errorf("cancel a profile: %w", err)
	}
	return money.USDC(*got.Credit), nil
}

func (a profileAnswer) state(id string) (esim.State, error) {
	switch {
	case a.ID != id:
		return esim.State{}, wire.Unclear("the answer is about another profile")
	case a.Status == "" || a.Used == nil || *a.Used < 0 || (a.Total != nil && *a.Total <= 0) || a.MeasuredAt.IsZero():
		return esim.State{}, wire.Unclear("the profile in the answer does not match the documentation")
	}
	state := esim.State{
		Status: esim.ProfileUnknown, Usage: &esim.Usage{Used: int64(*a.Used), MeasuredAt: a.MeasuredAt.Time},
	}
	if a.Total != nil {
		state.Usage.Total = int64(*a.Total)
	}
	switch a.Status {
	case profileReleased:
		state.Status, state.ExpiresAt = esim.ProfileNotInstalled, a.InstallBy.Time
	case profileInstalled:
		state.Status = esim.ProfileInstalled
	case profileEnabled:
		state.Status = esim.ProfileActive
	case profileDepleted:
		state.Status = esim.ProfileUsedUp
	case profileExpired:
		state.Status = esim.ProfileExpired
	case profileCancelled:
		state.Status = esim.ProfileCancelled
	}
	return state, nil
}
