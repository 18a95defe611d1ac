//go:build !demo

package app

import (
	"context"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/signer/awskms"
	"github.com/roamcard/roamcard/internal/x402"
)

// issuers are the card issuers that issuer.provider and issuer.retired choose from: a line for each.
func issuers() []provider.Issuer {
	return []provider.Issuer{
		sandbox.AsIssuer(),
		lithic.AsIssuer(),
		stripe.AsIssuer(),
	}
}

// suppliers are the suppliers that supplier.provider and supplier.retired choose from: a line for each.
func suppliers() []provider.Supplier {
	return []provider.Supplier{
		sandbox.AsSupplier(),
		esimaccess.AsSupplier(),
		esimgo.AsSupplier(),
	}
}

func openKMS(ctx context.Context, key string, account x402.Address, rule outward.Rule) (payment.Signer, error) {
	return awskms.New(ctx, key, account, rule)
}
