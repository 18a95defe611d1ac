package reconcile

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/x402"
)

// sentBack finds the transfers whose money has gone back already, by a refund that our books have lost: they must
// not pay for anything.
func (c *CatchUp) sentBack(ctx context.Context, before Scan, head uint64) error {
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
	payouts, err := c.strangers(ctx, payouts)
	if err != nil || len(payouts) == 0 {
		return err
	}
	var receivers []x402.Address
	for _, p := range payouts {
		receivers = append(receivers, p.To)
	}
	open, err := c.Marks.Unclaimed(ctx, receivers)
	if err != nil {
		return fmt.Errorf("find the transfers of no order: %w", err)
	}
	if back := paired(open, payouts); len(back) > 0 {
		return c.Marks.SentBack(ctx, back)
	}
	return nil
}

// strangers are the payouts that no refund of our books explains.
func (c *CatchUp) strangers(ctx context.Context, payouts []Payout) ([]Payout, error) {
	var nonces []x402.Hash
	for _, p := range payouts {
		if !p.Nonce.IsZero() {
			nonces = append(nonces, p.Nonce)
		}
	}
	ours := map[x402.Hash]bool{}
	if len(nonces) > 0 {
		known, err := c.Marks.Refunds(ctx, nonces)
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

// paired finds for each payout the oldest transfer of who received it with the same amount, before it.
func paired(open []Transfer, payouts []Payout) []SentBack {
	var back []SentBack
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
			back = append(back, SentBack{open[oldest], p.Transfer})
		}
	}
	return back
}

// before says that a transfer came before another one.
func (t Transfer) before(u Transfer) bool {
	return t.Block < u.Block || t.Block == u.Block && t.LogIndex < u.LogIndex
}
