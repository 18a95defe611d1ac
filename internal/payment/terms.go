package payment

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/recent"
	"github.com/roamcard/roamcard/internal/x402"
)

// MinMargin is the least remaining validity of a presented authorization: long enough for inclusion while the sequencer
// is slow, short enough for clients that sign for two minutes.
const MinMargin = 20 * time.Second

// Terms define which payments we accept: asset, payee, and the validity of the authorization.
type Terms struct {
	Network string
	Asset   x402.Address
	PayTo   x402.Address
	// Domain is the asset's EIP-712 domain, from our configuration. The payer's copy of it is never used.
	Domain x402.Domain
	// SmartAccounts tells what payers with code have signed; nil takes payments of keys only. SmartAccountKinds are the
	// names of the kinds that it knows.
	SmartAccounts     SmartAccounts
	SmartAccountKinds []string
	// MaxTimeout is how long a payer is asked to sign for.
	MaxTimeout time.Duration
	// Margin is how long an authorization must still be valid; at least MinMargin.
	Margin time.Duration
	// MaxValidity is how far ahead validBefore may be. Some clients always sign for an hour, so this is not MaxTimeout:
	// it bounds how long a payment can stay undecided.
	MaxValidity time.Duration
	// verified is what was verified; nil remembers nothing.
	verified *recent.Map[verified, struct{}]
}

// Rejection says that a payment does not meet our terms, or that its transfer would fail. Nothing has been sent. Reason
// is one of the reference reasons of package x402, or one of those below; Detail is fit to show.
type Rejection struct {
	Reason, Detail string
	// Code is the problem that the payer is told; empty for payment_rejected.
	Code fault.Code
}

// The reasons of a Rejection that do not depend on the payment: the same payment may be accepted later.
const (
	// ReasonTokenPaused: the token's issuer has paused all transfers.
	ReasonTokenPaused = "token_paused"
	// ReasonAccountBlocked: the token's issuer blocks an account of ours.
	ReasonAccountBlocked = "account_blacklisted"
	// ReasonPayerBlocked: the token's issuer blocks the payer.
	ReasonPayerBlocked = "payer_blacklisted"
)

// Error implements error.
func (r *Rejection) Error() string { return "payment rejected: " + r.Reason + ": " + r.Detail }

func reject(reason, format string, args ...any) error {
	return &Rejection{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// AccountTypes are the accounts that may pay: those of keys, and smart accounts by their kinds.
func (t Terms) AccountTypes() []string { return append([]string{"eoa"}, t.SmartAccountKinds...) }

// Requirements are the x402 requirements for an amount, with the token's name and version and any extra members.
func (t Terms) Requirements(amount money.USDC, extra map[string]any) x402.Requirements {
	members := map[string]any{}
	maps.Copy(members, extra)
	members["name"], members["version"] = t.Domain.Name, t.Domain.Version
	return x402.Requirements{
		Scheme:            x402.Scheme,
		Network:           t.Network,
		Amount:            amount.String(),
		Asset:             t.Asset.String(),
		PayTo:             t.PayTo.String(),
		MaxTimeoutSeconds: int(t.MaxTimeout / time.Second),
		Extra:             members,
	}
}

// Verify checks whether the payment would transfer exactly the amount to us now. A *Rejection says why not; any other
// error means that the chain did not answer. Checks that need no chain come first, so that an invalid payment costs no
// call.
func (t Terms) Verify(ctx context.Context, chain Chain, p Signed, amount money.USDC, now time.Time) error {
	if err := t.Check(p, amount, now); err != nil {
		return err
	}
	if err := chain.Simulate(ctx, p.Authorization, p.Signature); err != nil {
		return fmt.Errorf("simulate payment: %w", err)
	}
	return nil
}

// Check is the part of Verify that needs no chain: what the payer accepted, what it authorized, and for how
// long. The error is a *Rejection.
func (t Terms) Check(p Signed, amount money.USDC, now time.Time) error {
	if err := t.checkAccepted(p.Accepted, amount); err != nil {
		return err
	}
	if err := t.checkAuthorization(p.Authorization, amount); err != nil {
		return err
	}
	return t.checkWindow(p.Authorization, now)
}

// checkAccepted compares the echoed requirements with ours. They are not signed: the check only detects a payer who
// meant another offer. The timeout and other members of extra are ignored.
func (t Terms) checkAccepted(r x402.Requirements, amount money.USDC) error {
	if r.Scheme != x402.Scheme {
		return reject(x402.ReasonScheme, "accepted.scheme must be %s", x402.Scheme)
	}
	if r.Network != t.Network {
		return reject(x402.ReasonNetwork, "accepted.network must be %s", t.Network)
	}
	if asset, err := x402.ParseAddress(r.Asset); err != nil || asset != t.Asset {
		return reject(x402.ReasonRequirements, "accepted.asset must be %s", t.Asset)
	}
	if payTo, err := x402.ParseAddress(r.PayTo); err != nil || payTo != t.PayTo {
		return reject(x402.ReasonRecipient, "accepted.payTo must be %s", t.PayTo)
	}
	if accepted, err := money.ParseUSDC(r.Amount); err != nil || accepted != amount {
		return reject(x402.ReasonValue, "accepted.amount must be %s", amount)
	}
	return nil
}

func (t Terms) checkAuthorization(a x402.Authorization, amount money.USDC) error {
	switch {
	case a.To != t.PayTo:
		return reject(x402.ReasonRecipient, "authorization.to must be %s", t.PayTo)
	case a.From == t.PayTo:
		return reject(x402.ReasonRecipient, "authorization.from is the payee itself")
	case amount <= 0 || a.Value != amount:
		return reject(x402.ReasonValue, "authorization.value must be exactly %s", amount)
	}
	return nil
}

// reserved reports the zero address and the range of the precompiled contracts.
func reserved(a x402.Address) bool {
	return [18]byte(a[:18]) == [18]byte{}
}

// checkWindow compares the validity with our own clock, because the chain's head may lag. The token's comparison is
// strict on both sides.
func (t Terms) checkWindow(a x402.Authorization, now time.Time) error {
	seconds := uint64(now.Unix())
	margin := uint64(max(t.Margin, MinMargin) / time.Second)
	switch {
	case a.ValidAfter >= seconds:
		return reject(x402.ReasonValidAfter, "authorization.validAfter must lie in the past; 0 will do")
	case a.ValidBefore < seconds+margin:
		return reject(x402.ReasonValidBefore, "authorization.validBefore must lie at least %d s ahead", margin)
	case a.ValidBefore > seconds+uint64(t.MaxValidity/time.Second):
		most := int64(t.MaxValidity / time.Second)
		return reject(x402.ReasonValidBefore, "authorization.validBefore must lie at most %d s ahead", most)
	}
	return nil
}
