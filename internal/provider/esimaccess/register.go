package esimaccess

import (
	"time"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

// Name is how the settings choose eSIM Access.
const Name = "esim-access"

// The keys of its own settings.
const (
	SecretKey          = "esim_access.secret"
	VisibilityDelayKey = "esim_access.visibility_delay"
	LookbackKey        = "esim_access.lookback"
	PerSecondKey       = "esim_access.per_second"
)

// callTimeout has room for the look at the price and for the order, each behind other requests of the process.
const callTimeout = 15 * time.Second

var _ provider.SupplierClient = (*Supplier)(nil)

// AsSupplier registers eSIM Access. supplier.key is the access code.
func AsSupplier() provider.Supplier {
	return provider.Supplier{
		Registration: provider.Registration{
			Name: Name, Real: true,
			Settings: []provider.Setting{
				{Key: SecretKey, Help: "the key that signs requests to eSIM Access; supplier.key is the access code", Secret: true},
				{Key: VisibilityDelayKey, Help: "how long after a send an order may still appear at eSIM Access",
					Default: defaultVisibilityDelay.String(), Check: provider.CheckDuration},
				{Key: LookbackKey, Help: "how old an order at eSIM Access may be to be found by our reference alone; longer " +
					"than the age of a backup that is restored", Default: defaultLookback.String(), Check: provider.CheckDuration},
				provider.PerSecond(PerSecondKey, "eSIM Access; the account has 8", defaultPerSecond, defaultPerSecond),
			},
			Validate: func(c provider.Config) []error { return wire.AddressMistakes("supplier.url", c.URL) },
		},
		CallTimeout: callTimeout,
		Dial: func(c provider.Config) (provider.SupplierClient, error) {
			s, err := Dial(Config{
				URL: c.URL, AccessCode: c.Key, Secret: secret.New(c.Own.Text(SecretKey)), Timeout: c.CallTimeout,
				VisibilityDelay: c.Own.Duration(VisibilityDelayKey), Lookback: c.Own.Duration(LookbackKey),
				PerSecond: c.Own.Int(PerSecondKey), HTTP: c.HTTP, Metrics: c.Metrics,
			})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}
