package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// VerifyArrived checks a transfer that was read from the chain's events, which one node alone may have invented. The
// verdict is Settled when two nodes show the transfer, where there are several. It is Void when two nodes have its
// block without it, or the authorization is void. Else it is Unknown. It is never Unused: a transfer that a
// reorganisation has removed may be included again.
func (c *Chain) VerifyArrived(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
	// A receipt is found by few calls, however old it is.
	verdict, err := c.Prove(ctx, a.Authorization, a.Receipt.Transaction)
	if err == nil && verdict.State == payment.Settled {
		return verdict, nil
	}
	verdict, err = c.Verdict(ctx, a.Authorization, payment.SearchFrom(a.Receipt.SettledAt))
	if err != nil || verdict.State == payment.Settled || verdict.State == payment.Void {
		return verdict, err
	}
	ask := func(ctx context.Context, one *Chain) (bool, error) { return one.lacks(ctx, a) }
	lacking := 0
	for _, w := range consultQuorum(ctx, c, c.pool.responsive(witnesses), ask, equal) {
		if w.err == nil && w.value {
			lacking++
		}
	}
	if lacking < min(witnesses, len(c.pool.endpoints)) {
		return payment.Verdict{}, nil
	}
	return payment.Verdict{State: payment.Void, Reason: payment.ReasonNeverMade}, nil
}

// lacks reports that a node has the block from which a transfer was read, and shows the authorization unused after it.
func (c *Chain) lacks(ctx context.Context, a payment.Arrived) (bool, error) {
	block, err := c.headerAt(ctx, a.Receipt.Block)
	if errors.Is(err, errNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the block of a transfer: %w", err)
	}
	// For a final block only the number is stored.
	if known := a.Receipt.BlockHash; known != (x402.Hash{}) && known != block.Hash {
		return false, nil
	}
	head, err := c.header(ctx, "latest")
	if err != nil || head.Number < block.Number {
		return false, err
	}
	used, err := c.stateAt(ctx, a.Authorization, head)
	return !used, err
}
