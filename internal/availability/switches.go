package availability

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// ErrPaused says that operators have closed the sale of a product. Nothing was claimed.
var ErrPaused = errors.New("the sale is paused")

// Switch is the kill switch of one product, or of one provider.
type Switch struct {
	// Product is the kind of a product, or a provider's OfProvider.
	Product order.Kind
	Paused  bool
	// Reason, Operator and ChangedAt are of the last change; empty when there was none.
	Reason, Operator string
	ChangedAt        time.Time
	// Configured says that the configuration closes the sale, too. The store does not know.
	Configured bool
}

// providerPrefix begins the names of the switches of providers.
const providerPrefix = "provider."

// OfProvider names the switch of a provider, whatever is sold over it. Sales that would go to it are closed; the
// routing prefers the next provider that can sell. What is paid already goes on.
func OfProvider(name string) order.Kind { return order.Kind(providerPrefix + name) }

// ProviderOf is the provider of a switch; ok is false when it is that of a product.
func ProviderOf(name order.Kind) (provider string, ok bool) {
	return strings.CutPrefix(string(name), providerPrefix)
}

// SwitchStore keeps the kill switches.
type SwitchStore interface {
	// Switches reads the switches of all products, and those of providers that were ever set.
	Switches(ctx context.Context) ([]Switch, error)
}

// Switches are the kill switches as unpaid requests see them: at most switchTTL old, read by every process for itself.
// A claim reads the switches of its product and its provider in its own transaction, where they act at once.
type Switches struct{ set *Memo[map[order.Kind]Switch] }

const switchTTL = time.Second

// NewSwitches makes Switches.
func NewSwitches(store SwitchStore, now func() time.Time) *Switches {
	read := func(ctx context.Context) (map[order.Kind]Switch, error) {
		all, err := store.Switches(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the kill switches: %w", err)
		}
		set := map[order.Kind]Switch{}
		for _, s := range all {
			set[s.Product] = s
		}
		return set, nil
	}
	return &Switches{NewMemo(MemoConfig[map[order.Kind]Switch]{Read: read, TTL: switchTTL, Now: now})}
}

// Sells fails with a fault while operators have closed the sale over a provider.
func (s *Switches) Sells(ctx context.Context, provider string, closed fault.Code) error {
	paused, err := s.Paused(ctx, OfProvider(provider))
	if err == nil && paused {
		return fault.New(closed, "Nothing is sold over this provider at the moment.")
	}
	return err
}

// Paused reports whether operators have closed the sale of a product, or that over a provider. Without Switches they
// cannot.
func (s *Switches) Paused(ctx context.Context, product order.Kind) (bool, error) {
	set, err := s.switchOf(ctx, product)
	return set.Paused, err
}

// switchOf is the switch of a product, or of a provider. Without Switches it is not set.
func (s *Switches) switchOf(ctx context.Context, product order.Kind) (Switch, error) {
	if s == nil {
		return Switch{}, nil
	}
	all, err := s.set.Get(ctx)
	return all[product], err
}
