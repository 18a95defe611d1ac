package checkout

import (
	"context"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// ArrivedStore keeps transfers to the payee that no order has claimed. They are claimed by the payment of a Placement, once: it
// has the transfer's authorization, which is unique. Placed.Claim is Reused when another order or an operator was first.
type ArrivedStore interface {
	// Arrive keeps a transfer that the chain has shown, before anything is said about it. Keeping it again only changes where it
	// stands.
	Arrive(ctx context.Context, a payment.Arrived) error
	// Unmatched finds the oldest transfer of a payer and a value that was made by an authorization, that no order has claimed,
	// whatever became of the order, and about which no operator has decided. ErrNotFound when there is none.
	Unmatched(ctx context.Context, q UnmatchedQuery) (payment.Arrived, error)
}

// UnmatchedQuery asks for money that arrived.
type UnmatchedQuery struct {
	Network             string
	Asset, PayTo, Payer x402.Address
	Value               money.USDC
}
