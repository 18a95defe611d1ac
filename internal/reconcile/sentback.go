package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/payment"
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
	payouts, err = c.withoutResolved(ctx, payouts)
	if err != nil || len(payouts) == 0 {
		return err
	}
	receivers := receiversOf(payouts)
	for _, to := range receivers {
		if err := c.readOf(ctx, to, gaps); err != nil {
			return err
		}
	}
	open, err := c.Sent.Unclaimed(ctx, receivers)
	if err != nil {
		return fmt.Errorf("find the unmatched transfers: %w", err)
	}
	if back := matchRefunds(open, payouts); len(back) > 0 {
		return c.Sent.ResolveRefunded(ctx, back)
	}
	return nil
}

// unexplainedPayouts are the payouts that our records explain neither by a refund of ours nor by one that an operator
// has made by hand. The refund of a payment that an order has is explained, too: its order finds it by its nonce.
func (c *CatchUp) unexplainedPayouts(ctx context.Context, payouts []Payout) ([]Payout, error) {
	var nonces, transactions []x402.Hash
	for _, p := range payouts {
		if transactions = append(transactions, p.Transaction); !p.Nonce.IsZero() {
			nonces = append(nonces, p.Nonce)
		}
	}
	known := map[x402.Hash]bool{}
	for _, of := range []struct {
		what string
		look func(context.Context, []x402.Hash) ([]x402.Hash, error)
		all  []x402.Hash
	}{
		{"our refunds", c.Sent.Refunds, nonces}, {"refunds by hand", c.Sent.Concluded, transactions},
	} {
		if len(of.all) == 0 {
			continue
		}
		found, err := of.look(ctx, of.all)
		if err != nil {
			return nil, fmt.Errorf("look %s up: %w", of.what, err)
		}
		for _, hash := range found {
			known[hash] = true
		}
	}
	payouts = slices.DeleteFunc(payouts, func(p Payout) bool { return known[p.Nonce] || known[p.Transaction] })
	if len(payouts) == 0 {
		return nil, nil
	}
	claimed, err := c.Sent.Claimed(ctx, receiversOf(payouts))
	if err != nil {
		return nil, fmt.Errorf("look the payments of their receivers up: %w", err)
	}
	refunds := map[x402.Hash]bool{}
	for _, a := range claimed {
		refunds[payment.RefundNonce(a)] = true
	}
	return slices.DeleteFunc(payouts, func(p Payout) bool { return refunds[p.Nonce] }), nil
}

// withoutResolved leaves out the payouts by which a transfer was resolved as sent back already: each of them explains
// one transfer. A payout is looked at again after each start while it is recent, and its receiver may have sent the
// same amount once more.
func (c *CatchUp) withoutResolved(ctx context.Context, payouts []Payout) ([]Payout, error) {
	resolved, err := c.Sent.SentBack(ctx, receiversOf(payouts))
	if err != nil {
		return nil, fmt.Errorf("look up what was sent back: %w", err)
	}
	left := slices.Clone(payouts)
	for _, r := range resolved {
		for i, p := range left {
			if p.To != r.To || r.In.IsZero() && p.Value != r.Value {
				continue
			}
			by, err := c.isBy(ctx, r, p)
			if err != nil {
				return nil, err
			}
			if by {
				left = slices.Delete(left, i, i+1)
				break
			}
		}
	}
	return left, nil
}

// isBy reports whether a resolution is by a payout: it names its transaction, or an operator has made it afterwards.
func (c *CatchUp) isBy(ctx context.Context, r SentBack, p Payout) (bool, error) {
	if !r.In.IsZero() {
		return r.In == p.Transaction, nil
	}
	_, at, err := c.Head.Block(ctx, p.Block)
	if err != nil {
		return false, fmt.Errorf("read the time of a transfer: %w", err)
	}
	return !at.After(r.At.Add(payment.ClockSkew)), nil
}

func receiversOf(payouts []Payout) (all []x402.Address) {
	for _, p := range payouts {
		if !slices.Contains(all, p.To) {
			all = append(all, p.To)
		}
	}
	return all
}

// matchRefunds finds for each payout the earlier transfer that it sends back: the one whose refund has its nonce,
// whatever went back of it (a supplier keeps a part of an eSIM's price, a merchant has one of what was on a card), or
// else the oldest one of its receiver with the same amount.
func matchRefunds(open []Transfer, payouts []Payout) []RefundedTransfer {
	var back []RefundedTransfer
	taken := make([]bool, len(open))
	match := func(p Payout, is func(Transfer) bool) bool {
		oldest := -1
		for i, t := range open {
			if !taken[i] && t.From == p.To && t.before(p.Transfer) && is(t) &&
				(oldest < 0 || t.before(open[oldest])) {
				oldest = i
			}
		}
		if oldest >= 0 {
			taken[oldest] = true
			back = append(back, RefundedTransfer{open[oldest], p.Transfer})
		}
		return oldest >= 0
	}
	var others []Payout
	for _, p := range payouts {
		if !match(p, func(t Transfer) bool {
			return payment.RefundNonce(x402.Authorization{From: t.From, Nonce: t.Nonce}) == p.Nonce
		}) {
			others = append(others, p)
		}
	}
	for _, p := range others {
		match(p, func(t Transfer) bool { return t.Value == p.Value })
	}
	return back
}

// before reports whether a transfer is before another one in the chain.
func (t Transfer) before(u Transfer) bool {
	return t.Block < u.Block || t.Block == u.Block && t.LogIndex < u.LogIndex
}
