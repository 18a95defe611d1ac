package esimgo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

var _ esim.Controls = (*Supplier)(nil)

// Capabilities implements provider.SupplierClient. A bundle goes back to the inventory and from there to the balance
// only where the vendor has enabled it, so nothing is cancelled.
func (s *Supplier) Capabilities() esim.Capabilities {
	return esim.Capabilities{Status: true, Usage: true}
}

// The states of an eSIM and of a bundle on it, in lower case.
const (
	simReleased = "released"

	bundleProcessing = "processing"
	bundleQueued     = "queued"
	bundleActive     = "active"
	bundleDepleted   = "depleted"
	bundleExpired    = "expired"
	bundleLapsed     = "lapsed"
	bundleRevoked    = "revoked"
)

// onDevice are the states of an eSIM that a device has.
var onDevice = map[string]bool{
	"downloaded": true, "installed": true, "enabled": true, "disabled": true, "deleted": true,
}

// State implements esim.Controls: the eSIM says whether a device has it, and its bundle how much data is used.
func (s *Supplier) State(ctx context.Context, h esim.Held) (esim.State, error) {
	iccid := h.ICCID.Reveal()
	if !isICCID(iccid) {
		return esim.State{}, fmt.Errorf("read an eSIM: %w", wire.Unclear("that is no number of an eSIM"))
	}
	var sim struct {
		ICCID  string `json:"iccid"`
		Status string `json:"profileStatus"`
	}
	err := s.call(ctx, request{
		op: "esim", method: http.MethodGet, path: []string{"esims", iccid}, route: "/esims/{iccid}",
	}, &sim)
	if err == nil && (sim.ICCID != iccid || sim.Status == "") {
		err = wire.Unclear("the answer is about another eSIM")
	}
	if err != nil {
		return esim.State{}, fmt.Errorf("read an eSIM: %w", err)
	}
	on, err := s.applied(ctx, iccid, h.Code)
	if err != nil {
		return esim.State{}, fmt.Errorf("read the bundle of an eSIM: %w", err)
	}
	return on.state(strings.ToLower(sim.Status)), nil
}

// appliedAnswer is a bundle on an eSIM, as it was assigned once.
type appliedAnswer struct {
	State     string `json:"bundleState"`
	Initial   *int64 `json:"initialQuantity"`
	Remaining *int64 `json:"remainingQuantity"`
	Unlimited bool   `json:"unlimited"`
	Ends      string `json:"endTime"`
}

// applied reads the bundle that was ordered with an eSIM, which has it once.
func (s *Supplier) applied(ctx context.Context, iccid, code string) (appliedAnswer, error) {
	var got struct {
		Bundles *[]struct {
			Name        string          `json:"name"`
			Assignments []appliedAnswer `json:"assignments"`
		} `json:"bundles"`
	}
	err := s.call(ctx, request{
		op: "bundles", method: http.MethodGet, path: []string{"esims", iccid, "bundles"}, route: "/esims/{iccid}/bundles",
	}, &got)
	if err != nil {
		return appliedAnswer{}, err
	}
	if got.Bundles == nil {
		return appliedAnswer{}, wire.Undocumented
	}
	var found []appliedAnswer
	for _, b := range *got.Bundles {
		if b.Name == code {
			found = append(found, b.Assignments...)
		}
	}
	if len(found) != 1 {
		return appliedAnswer{}, wire.Unclear("the eSIM does not have its bundle once")
	}
	return found[0], nil
}

func (a appliedAnswer) state(sim string) esim.State {
	state := esim.State{Status: esim.ProfileUnknown, Usage: a.usage()}
	switch strings.ToLower(a.State) {
	case bundleProcessing, bundleQueued:
		switch {
		case sim == simReleased:
			state.Status = esim.ProfileNotInstalled
		case onDevice[sim]:
			state.Status = esim.ProfileInstalled
		}
	case bundleActive:
		state.Status = esim.ProfileActive
	case bundleDepleted:
		state.Status = esim.ProfileUsedUp
	case bundleExpired, bundleLapsed:
		state.Status = esim.ProfileExpired
	case bundleRevoked:
		state.Status = esim.ProfileCancelled
	}
	if at, err := time.Parse(time.RFC3339, a.Ends); err == nil && at.Year() > 1 {
		state.ExpiresAt = at.UTC()
	}
	return state
}

// usage is nil when the quantities do not say it.
func (a appliedAnswer) usage() *esim.Usage {
	if a.Initial == nil || a.Remaining == nil || *a.Remaining < 0 || *a.Remaining > *a.Initial {
		return nil
	}
	u := &esim.Usage{Used: *a.Initial - *a.Remaining, Total: *a.Initial}
	if a.Unlimited {
		u.Total = 0
	}
	return u
}
