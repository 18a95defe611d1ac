package roamcard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Cents is an amount of US dollars in hundredths.
type Cents int64

// String shows dollars with two decimals, as in "25.00".
func (c Cents) String() string { return fmt.Sprintf("%d.%02d", c/100, c%100) }

// Mode is who decides about a payment.
type Mode string

// The modes.
const (
	// Autonomous pays within the caps and never asks. It is denied without explicit caps.
	Autonomous Mode = "autonomous"
	// PolicyGated asks above ApproveAbove, which is always when that is zero.
	PolicyGated Mode = "policy_gated"
	// HumanApproval always asks.
	HumanApproval Mode = "human_approval"
)

// Policy decides which payments are signed. The zero policy denies every one.
type Policy struct {
	Mode Mode
	// MaxPerPayment and MaxPerDay cap one payment, and all payments of a rolling day; zero is no cap, which
	// autonomous does not allow.
	MaxPerPayment, MaxPerDay Cents
	// ApproveAbove is what policy_gated pays without asking.
	ApproveAbove Cents
	// Approve asks; without it, what needs approval is denied.
	Approve func(ctx context.Context, q Quote) (bool, error)
	// PayTo and Asset pin the payee and the token. Empty takes native USDC on Base, and the payee that the
	// service publishes when the store first pays it; the store keeps it, and refuses another one ever after.
	PayTo, Asset string
	// Operations names what may be paid for, by the documented paths, as in OpCard; empty allows everything.
	Operations []string
}

// Quote is what a payment would be for, after its terms were checked. Nothing is signed yet.
type Quote struct {
	// Operation is OpCard, OpTopup, OpESIM, OpESIMTopup or OpOrder.
	Operation      string `json:"operation"`
	IdempotencyKey string `json:"idempotencyKey"`
	// Resource is the address that is paid for.
	Resource    string `json:"resource"`
	Description string `json:"description"`
	// Amount is the price, rounded up to a cent; AmountUSDC the exact amount in USDC's atomic units.
	Amount     Cents  `json:"amountUsdCents"`
	AmountUSDC string `json:"amount"`
	PayTo      string `json:"payTo"`
	Asset      string `json:"asset"`
	Network    string `json:"network"`
}

// cap refuses what no approval could allow. The cap of a day is the journal's to keep.
func (p Policy) cap(q Quote) error {
	switch p.Mode {
	case Autonomous:
		if p.MaxPerPayment <= 0 || p.MaxPerDay <= 0 {
			return denied(ErrPolicyDenied, "autonomous needs caps for a payment and for a day")
		}
	case PolicyGated, HumanApproval:
	default:
		return denied(ErrPolicyDenied, "it has no mode")
	}
	if len(p.Operations) > 0 && !slices.Contains(p.Operations, q.Operation) {
		return denied(ErrPolicyDenied, "it allows %s, not %s", strings.Join(p.Operations, ", "), q.Operation)
	}
	if p.MaxPerPayment > 0 && q.Amount > p.MaxPerPayment {
		return denied(ErrPolicyDenied, "%s USD is above the cap of %s for one payment", q.Amount, p.MaxPerPayment)
	}
	return nil
}

// asset is the token that is paid in.
func (p Policy) asset() string { return cmp.Or(p.Asset, BaseUSDC) }

// asks says whether a payment has to be asked for.
func (p Policy) asks(q Quote) bool {
	return p.Mode == HumanApproval || (p.Mode == PolicyGated && q.Amount > p.ApproveAbove)
}

// approve asks, when the mode wants it.
func (p Policy) approve(ctx context.Context, q Quote) error {
	if !p.asks(q) {
		return nil
	}
	if p.Approve == nil {
		return denied(ErrPolicyDenied, "it needs an approval, and there is nobody to ask")
	}
	yes, err := p.Approve(ctx, q)
	if err != nil {
		return fmt.Errorf("ask for approval: %w", err)
	}
	if !yes {
		return denied(ErrApprovalDenied, "%s USD for %s", q.Amount, q.Operation)
	}
	return nil
}
