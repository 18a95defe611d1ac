package esimgo

import (
	"context"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

var (
	_ esim.Controls = (*Supplier)(nil)
	_ esim.Topper   = (*Supplier)(nil)
)

// Capabilities implements provider.SupplierClient. A bundle goes back to the inventory and from there to the balance
// only where the vendor has enabled it, so nothing is cancelled.
func (s *Supplier) Capabilities() esim.Capabilities {
	return esim.Capabilities{Status: true, Usage: true, Topup: true}
}

// The states of an eSIM and of a bundle on it, in lower case.
const (
	simReleased = "released"
	simDeleted  = "deleted"

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
	"downloaded": true, "installed": true, "enabled": true, "disabled": true, simDeleted: true,
}

// State implements esim.Controls: the eSIM says whether a device has it, and its bundles how much data is used.
func (s *Supplier) State(ctx context.Context, h esim.Held) (esim.State, error) {
	status, err := s.simStatus(ctx, h)
	if err != nil {
		return esim.State{}, fmt.Errorf("read an eSIM: %w", err)
	}
	on, err := s.applied(ctx, h.ICCID.Reveal(), h.Code)
	if err != nil {
		return esim.State{}, fmt.Errorf("read the bundles of an eSIM: %w", err)
	}
	return on.state(status), nil
}

// simStatus reads the state of an eSIM, in lower case.
func (s *Supplier) simStatus(ctx context.Context, h esim.Held) (string, error) {
	iccid, ok := esim.ParseICCID(h.ICCID.Reveal())
	if !ok {
		return "", wire.Unclear("that is no number of an eSIM")
	}
	var sim struct {
		ICCID  wire.Text  `json:"iccid"`
		Status wire.Lower `json:"profileStatus"`
	}
	err := s.call(ctx, request{
		op: "esim", method: http.MethodGet, path: []string{"esims", iccid}, route: "/esims/{iccid}",
	}, &sim)
	if number, _ := esim.ParseICCID(string(sim.ICCID)); err == nil && (number != iccid || sim.Status == "") {
		err = wire.Unclear("the answer is about another eSIM")
	}
	return string(sim.Status), err
}

// appliedAnswer is a bundle on an eSIM, as it was assigned once.
type appliedAnswer struct {
	State     wire.Lower `json:"bundleState"`
	Initial   *wire.Int  `json:"initialQuantity"`
	Remaining *wire.Int  `json:"remainingQuantity"`
	Unlimited wire.Flag  `json:"unlimited"`
	Ends      wire.Time  `json:"endTime"`
}

// bundlesOn are all bundles on an eSIM: the one that it was ordered with, and those that were added.
type bundlesOn []appliedAnswer

// applied reads the bundles of an eSIM, of which one at least is the one that it was ordered with.
func (s *Supplier) applied(ctx context.Context, iccid, code string) (bundlesOn, error) {
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
		return nil, err
	}
	if got.Bundles == nil {
		return nil, wire.Undocumented
	}
	var all bundlesOn
	own := false
	for _, b := range *got.Bundles {
		own = own || b.Name == code && len(b.Assignments) > 0
		all = append(all, b.Assignments...)
	}
	if !own {
		return nil, wire.Unclear("the eSIM does not have its bundle")
	}
	return all, nil
}

// state is that of all bundles together: the data of all, and the end of the last. What can be used decides, then what
// is still to come, then what is over.
func (on bundlesOn) state(sim string) esim.State {
	state, rank := esim.State{Status: esim.ProfileUnknown, Usage: &esim.Usage{}}, 0
	unlimited := false
	for _, a := range on {
		one := a.state(sim)
		if r := ranks[one.Status]; r > rank {
			state.Status, rank = one.Status, r
		}
		if one.ExpiresAt.After(state.ExpiresAt) {
			state.ExpiresAt = one.ExpiresAt
		}
		if one.Usage == nil {
			state.Usage = nil
		}
		if state.Usage != nil {
			state.Usage.Used += one.Usage.Used
			state.Usage.Total += one.Usage.Total
		}
		unlimited = unlimited || bool(a.Unlimited)
	}
	if state.Usage != nil && unlimited {
		state.Usage.Total = 0
	}
	return state
}

// ranks say which of the states of an eSIM's bundles is the eSIM's: the highest. That of an unfamiliar one is none.
var ranks = map[esim.ProfileStatus]int{
	esim.ProfileCancelled: 1, esim.ProfileExpired: 2, esim.ProfileUsedUp: 3, esim.ProfileNotInstalled: 4,
	esim.ProfileInstalled: 5, esim.ProfileActive: 6,
}

func (a appliedAnswer) state(sim string) esim.State {
	state := esim.State{Status: esim.ProfileUnknown, Usage: a.usage()}
	switch a.State {
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
	state.ExpiresAt = a.Ends.Time
	return state
}

// usage is nil when the quantities do not say it.
func (a appliedAnswer) usage() *esim.Usage {
	if a.Initial == nil || a.Remaining == nil || *a.Remaining < 0 || *a.Remaining > *a.Initial {
		return nil
	}
	u := &esim.Usage{Used: int64(*a.Initial - *a.Remaining), Total: int64(*a.Initial)}
	if a.Unlimited {
		u.Total = 0
	}
	return u
}
