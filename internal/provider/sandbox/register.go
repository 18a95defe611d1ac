package sandbox

import (
	"github.com/roamcard/roamcard/internal/provider"
)

// providerName is how the settings choose the sandbox.
const providerName = "sandbox"

var (
	_ provider.IssuerClient   = (*Issuer)(nil)
	_ provider.SupplierClient = (*Supplier)(nil)
)

// AsIssuer registers the sandbox as a card issuer.
func AsIssuer() provider.Issuer {
	return provider.Issuer{
		Registration: provider.Registration{Name: providerName},
		Dial: func(c provider.Config) (provider.IssuerClient, error) {
			i, err := Dial(clientConfig(c))
			if err != nil {
				return nil, err
			}
			return i, nil
		},
	}
}

// AsSupplier registers the sandbox as an eSIM supplier.
func AsSupplier() provider.Supplier {
	return provider.Supplier{
		Registration: provider.Registration{Name: providerName},
		Dial: func(c provider.Config) (provider.SupplierClient, error) {
			s, err := DialSupplier(clientConfig(c))
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

func clientConfig(c provider.Config) ClientConfig {
	return ClientConfig{
		URL: c.URL, APIKey: c.Key, HTTP: c.HTTP, Timeout: c.CallTimeout, VisibilityDelay: c.VisibilityDelay,
		SpendLimits: c.SpendLimits, Metrics: c.Metrics,
	}
}
