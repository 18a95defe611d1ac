package availability

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/order"
)

// ErrPaused says that operators have closed the sale of a product. Nothing was claimed.
var ErrPaused = errors.New("the sale is paused")

// Switch is the kill switch of one product.
type Switch struct {
	Product order.Kind
	Paused  bool
	// Reason, Operator and ChangedAt are of the last change; empty when there was none.
	Reason, Operator string
	ChangedAt        time.Time
}

// SwitchStore keeps the kill switches.
type SwitchStore interface {
	// Switches reads the switches of all products.
	Switches(ctx context.Context) ([]Switch, error)
}

// Switches are the kill switches as unpaid requests see them: at most switchTTL old, read by every process for itself.
// A claim reads the switch in its own transaction, where it acts at once.
type Switches struct{ paused *Memo[map[order.Kind]bool] }

const switchTTL = time.Second

// NewSwitches makes Switches.
func NewSwitches(store SwitchStore, now func() time.Time) *Switches {
	read := func(ctx context.Context) (map[order.Kind]bool, error) {
		all, err := store.Switches(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the kill switches: %w", err)
		}
		paused := map[order.Kind]bool{}
		for _, s := range all {
			paused[s.Product] = s.Paused
		}
		return paused, nil
	}
	return &Switches{NewMemo(MemoConfig[map[order.Kind]bool]{Read: read, TTL: switchTTL, Now: now})}
}

// Paused reports whether operators have closed the sale of a product. Without Switches they cannot.
func (s *Switches) Paused(ctx context.Context, product order.Kind) (bool, error) {
	if s == nil {
		return false, nil
	}
	paused, err := s.paused.Get(ctx)
	return paused[product], err
}
