package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

// SmartAccounts tells what wallets with code have signed.
type SmartAccounts interface {
	// SignedBy is payment.SmartAccounts.SignedBy.
	SignedBy(ctx context.Context, account x402.Address, digest x402.Hash, s x402.Signature) error
}

// smartAccountTTL is the longest session of a smart account: an owner that is removed has it for no longer.
const smartAccountTTL = 15 * time.Minute

// provenBySmartAccount reports whether the challenge's wallet is a smart account whose owner signed it, which the chain
// is asked for. While that does not answer, the error is dependency_unavailable.
func (a *Auth) provenBySmartAccount(ctx context.Context, c Challenge, signature string) (bool, error) {
	digest, ours := a.site.digest(c)
	if !ours {
		return false, nil
	}
	return a.signedBySmartAccount(ctx, c.Wallet, digest, signature)
}

// signedBySmartAccount reports whether a wallet is a smart account whose owner signed a digest; see
// provenBySmartAccount.
func (a *Auth) signedBySmartAccount(
	ctx context.Context, wallet x402.Address, digest [32]byte, signature string,
) (bool, error) {
	s, err := x402.ParseAnySignature(signature)
	if a.smartAccounts == nil || err != nil {
		return false, nil
	}
	err = a.smartAccounts.SignedBy(limit.WithUse(ctx, limit.ForOwner), wallet, digest, s.OfAccount())
	if _, otherKind := errors.AsType[*x402.PayerKindError](err); otherKind || errors.Is(err, curve.ErrNotSigned) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check a smart account's signature: %w", errors.Join(err, fault.New(fault.DependencyDown,
			"The chain does not answer, which says who owns a smart account. Repeat the same request.").
			Then(fault.RetrySameRequest)))
	}
	return true, nil
}
