package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/x402"
)

// resolveRefunded finds and resolves the transfers that were refunded in data that we have lost. They must not pay for
// anything. Those in gaps, which were not read whole, are read for whom something went back to.
func (c *CatchUp) resolveRefunded(ctx context.Context, before Scan, head uint64, gaps []span) error {
	if !before.Begun {
		return nil
	}
	var payouts []Payout
	for _, sender := range c.Senders {
		found, err := c.Head.Payouts(ctx, sender, before.Next-min(before.Next, overlap), head)
		if err != nil {
			return fmt.Errorf("read the transfers of %s: %w", sender, err)
		}
		payouts = append(payouts, found...)
	}
	payouts, err := c.unexplainedPayouts(ctx, payouts)
	if err != nil || len(payouts) == 0 {
		return err
	}
	var receivers []x402.Address
	for _, p := range payouts {
		if slices.Contains(receivers, p.To) {
			continue
		}
		receivers = append(receivers, p.To)
		if err := c.readOf(ctx, p.To, gaps); err != nil {
			return err
		}
	}
	open, err := c.Watermarks.Unclaimed(ctx, receivers)
	if err != nil {
		return fmt.Errorf("find the unmatched transfers: %w", err)
	}
	if back := matchRefunds(open, payouts); len(back) > 0 {
		return c.Watermarks.ResolveRefunded(ctx, back)
	}
	return nil
}

// unexplainedPayouts are the payouts without a refund in our records.
func (c *CatchUp) unexplainedPayouts(ctx context.Context, payouts []Payout) ([]Payout, error) {
	var nonces []x402.Hash
	for _, p := range payouts {
		if !p.Nonce.IsZero() {
			nonces = append(nonces, p.Nonce)
		}
	}
	ours := map[x402.Hash]bool{}
	if len(nonces) > 0 {
		known, err := c.Watermarks.Refunds(ctx, nonces)
		if err != nil {
			return nil, fmt.Errorf("look our refunds up: %w", err)
		}
		for _, nonce := range known {
			ours[nonce] = true
		}
	}
	var left []Payout
	for _, p := range payouts {
		if p.Nonce.IsZero() || !ours[p.Nonce] {
			left = append(left, p)
		}
	}
	return left, nil
}

// matchRefunds finds for each payout the oldest earlier transfer of its receiver with the same amount.
func matchRefunds(open []Transfer, payouts []Payout) []RefundedTransfer {
	var back []RefundedTransfer
	taken := make([]bool, len(open))
	for _, p := range payouts {
		oldest := -1
		for i, t := range open {
			if !taken[i] && t.From == p.To && t.Value == p.Value && t.before(p.Transfer) &&
				(oldest < 0 || t.before(open[oldest])) {
				oldest = i
			}
		}
		if oldest >= 0 {
			taken[oldest] = true
			back = append(back, RefundedTransfer{open[oldest], p.Transfer})
		}
	}
	return back
}

// before reports whether a transfer is before another one in the chain.
func (t Transfer) before(u Transfer) bool {
	return t.Block < u.Block || t.Block == u.Block && t.LogIndex < u.LogIndex
}
