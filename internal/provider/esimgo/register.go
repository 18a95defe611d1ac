package esimgo

import (
	"cmp"
	"time"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// The keys of its own settings.
const (
	VisibilityDelayKey = "esim_go.visibility_delay"
	OrderGapKey        = "esim_go.order_gap"
	PerSecondKey       = "esim_go.per_second"
)

// defaultPerSecond is a guess: the vendor's documents name no figure.
const defaultPerSecond = 10

// callTimeout has room for validate, a turn to order and the order.
const callTimeout = 15 * time.Second

var _ provider.SupplierClient = (*Supplier)(nil)

// AsSupplier registers eSIM Go. supplier.url has the version of the API in its path.
func AsSupplier() provider.Supplier {
	return provider.Supplier{
		Registration: provider.Registration{
			Name: Name, Real: true,
			Settings: []provider.Setting{
				{Key: VisibilityDelayKey, Help: "how long after a send an order may still appear in the list of eSIM Go",
					Default: defaultVisibilityDelay.String(), Check: provider.CheckDuration},
				{Key: OrderGapKey, Help: "the time between two orders that one process sends to eSIM Go",
					Default: defaultOrderGap.String(), Check: provider.CheckDuration},
				provider.PerSecond(PerSecondKey, "eSIM Go", defaultPerSecond, 10_000),
			},
			Validate: func(c provider.Config) []error { return wire.AddressMistakes("supplier.url", c.URL) },
		},
		CallTimeout: callTimeout,
		Dial: func(c provider.Config) (provider.SupplierClient, error) {
			s, err := Dial(Config{
				URL: c.URL, APIKey: c.Key, Journal: c.Journal, Timeout: c.CallTimeout,
				VisibilityDelay: c.Own.Duration(VisibilityDelayKey), OrderGap: c.Own.Duration(OrderGapKey),
				PerSecond: cmp.Or(c.Own.Int(PerSecondKey), defaultPerSecond), HTTP: c.HTTP, Metrics: c.Metrics,
			})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}
