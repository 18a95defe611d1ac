package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

var _ esim.Controls = (*Supplier)(nil)

// Capabilities are those of the server that is dialled.
func (s *Supplier) Capabilities() esim.Capabilities {
	return esim.Capabilities{Status: true, Usage: true}
}

type profileAnswer struct {
	ID         string    `json:"id"`
	Status     string    `json:"status"`
	Used       *int64    `json:"usedBytes"`
	Total      *int64    `json:"totalBytes"`
	MeasuredAt time.Time `json:"measuredAt"`
	InstallBy  time.Time `json:"installBy"`
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

func (a profileAnswer) state(id string) (esim.State, error) {
	switch {
	case a.ID != id:
		return esim.State{}, wire.Unclear("the answer is about another profile")
	case a.Status == "" || a.Used == nil || *a.Used < 0 || (a.Total != nil && *a.Total <= 0) || a.MeasuredAt.IsZero():
		return esim.State{}, wire.Unclear("the profile in the answer does not match the documentation")
	}
	state := esim.State{
		Status: esim.ProfileUnknown, Usage: &esim.Usage{Used: *a.Used, MeasuredAt: a.MeasuredAt.UTC()},
	}
	if a.Total != nil {
		state.Usage.Total = *a.Total
	}
	switch a.Status {
	case profileReleased:
		state.Status, state.ExpiresAt = esim.ProfileNotInstalled, a.InstallBy.UTC()
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
