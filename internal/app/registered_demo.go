//go:build demo

package app

import (
	"context"
	"errors"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/x402"
)

// The program of `make demo` sells what the sandbox makes. The vendors' own packages would take a fifth of the time in
// which it is compiled.

func issuers() []provider.Issuer { return []provider.Issuer{sandbox.AsIssuer()} }

func suppliers() []provider.Supplier { return []provider.Supplier{sandbox.AsSupplier()} }

func openKMS(context.Context, string, x402.Address, outward.Rule) (payment.Signer, error) {
	return nil, errors.New("the program of the demonstration has no AWS KMS")
}
