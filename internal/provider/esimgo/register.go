package esimgo

import (
	"time"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// The keys of its own settings.
const (
	VisibilityDelayKey = "esim_go.visibility_delay"
	OrderGapKey        = "esim_go.order_gap"
)

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
			},
			Mistakes: func(c provider.Config) []error { return wire.AddressMistakes("supplier.url", c.URL) },
		},
		CallTimeout: callTimeout,
		Dial: func(c provider.Config) (provider.SupplierClient, error) {
			s, err := Dial(Config{
				URL: c.URL, APIKey: c.Key, Journal: c.Journal, Timeout: c.CallTimeout,
				VisibilityDelay: c.Own.Duration(VisibilityDelayKey), OrderGap: c.Own.Duration(OrderGapKey), Metrics: c.Metrics,
			})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}
