package esimaccess

import (
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

var (
	_ esim.Controls = (*Supplier)(nil)
	_ esim.Topper   = (*Supplier)(nil)
)

// Capabilities implements provider.SupplierClient.
func (s *Supplier) Capabilities() esim.Capabilities {
	return esim.Capabilities{Status: true, Usage: true, Cancel: true, Topup: true}
}

// State implements esim.Controls. What is used is the vendor's last measurement, which lags by hours.
func (s *Supplier) State(ctx context.Context, h esim.Held) (esim.State, error) {
	if !isName(h.ID) {
		return esim.State{}, fmt.Errorf("read a profile: %w", wire.Unclear("that is no name of a profile"))
	}
	one, err := s.one(ctx, h.ID)
	if err != nil {
		return esim.State{}, fmt.Errorf("read a profile: %w", err)
	}
	state := one.state()
	if state.Status == esim.ProfileNotInstalled || state.Status == esim.ProfileCancelled {
		return state, nil // nothing is used
	}
	if state.Usage, err = s.usage(ctx, h.ID); err != nil {
		return esim.State{}, fmt.Errorf("read what a profile used: %w", err)
	}
	if one.DataType == unlimitedData {
		state.Usage.Total = 0
	}
	return state, nil
}

// one reads the profile of a name.
func (s *Supplier) one(ctx context.Context, id string) (profileAnswer, error) {
	page, err := s.profiles(ctx, query("profile"), map[string]any{"esimTranNo": id}, 1)
	if err != nil {
		return profileAnswer{}, err
	}
	if len(page.items) != 1 || string(page.items[0].ID) != id || page.items[0].ESIMStatus == "" {
		return profileAnswer{}, wire.Unclear("the answer is about another profile")
	}
	return page.items[0], nil
}

// onDevice are the states at the SM-DP+ server of a profile that a device has fetched.
var onDevice = []wire.Upper{"DOWNLOAD", "INSTALLATION", "ENABLED", "DISABLED", "DELETED"}

func (a profileAnswer) state() esim.State {
	state := esim.State{Status: esim.ProfileUnknown}
	switch a.ESIMStatus {
	case gotResource:
		switch {
		case a.SMDPStatus == released:
			state.Status = esim.ProfileNotInstalled
		case slices.Contains(onDevice, a.SMDPStatus):
			state.Status = esim.ProfileInstalled
		}
	case inUse:
		state.Status = esim.ProfileActive
	case usedUp:
		state.Status = esim.ProfileUsedUp
	case usedExpired, unusedExpired:
		state.Status = esim.ProfileExpired
	case cancelled:
		state.Status = esim.ProfileCancelled
	}
	if state.Status != esim.ProfileCancelled {
		state.ExpiresAt = a.ExpiresAt.Time
	}
	return state
}

func (s *Supplier) usage(ctx context.Context, id string) (*esim.Usage, error) {
	var got struct {
		List []struct {
			ID        wire.Text `json:"esimTranNo"`
			Used      wire.Text `json:"dataUsage"`
			Total     wire.Text `json:"totalData"`
			UpdatedAt wire.Time `json:"lastUpdateTime"`
		} `json:"esimUsageList"`
	}
	err := s.send(ctx, request{
		op: "usage", path: "esim/usage/query", body: map[string][]string{"esimTranNoList": {id}}, confidential: true,
	}, &got)
	if err != nil {
		return nil, err
	}
	if len(got.List) != 1 || string(got.List[0].ID) != id {
		return nil, wire.Unclear("the answer is about another profile")
	}
	used, ok := got.List[0].Used.Units(maxBytes)
	total, limited := got.List[0].Total.Units(maxBytes)
	if !ok || !limited {
		return nil, wire.Undocumented
	}
	return &esim.Usage{Used: used, Total: total, MeasuredAt: got.List[0].UpdatedAt.Time}, nil
}
