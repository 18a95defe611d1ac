package chain

import (
	"context"
	"math/big"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

var _ reconcile.Head = (*Chain)(nil)

// Block implements reconcile.Head.
func (c *Chain) Block(ctx context.Context, number uint64) (x402.Hash, time.Time, error) {
	block, err := c.witnessedBlock(ctx, number)
	if err != nil {
		return x402.Hash{}, time.Time{}, err
	}
	return block.Hash, block.time(), nil
}

// TransfersFrom implements reconcile.Head.
func (c *Chain) TransfersFrom(
	ctx context.Context, sender, payTo x402.Address, from, to uint64,
) ([]reconcile.Transfer, error) {
	moves, err := c.movesOf(ctx, sender, []any{payTo.Word().String()}, from, to)
	found := make([]reconcile.Transfer, len(moves))
	for i, m := range moves {
		found[i] = m.Transfer
	}
	return found, err
}

// Payouts implements reconcile.Head.
func (c *Chain) Payouts(ctx context.Context, sender x402.Address, from, to uint64) ([]reconcile.Payout, error) {
	return c.movesOf(ctx, sender, nil, from, to)
}

// movesOf are the transfers of one sender, with the authorizations that they executed: to the receivers, or to anyone
// when receivers is nil.
func (c *Chain) movesOf(
	ctx context.Context, sender x402.Address, receivers []any, from, to uint64,
) ([]reconcile.Payout, error) {
	var all []reconcile.Payout
	for ; from <= to; from += c.config.LogRange {
		found, err := c.movesIn(ctx, sender, receivers, from, min(from+c.config.LogRange-1, to))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *Chain) movesIn(
	ctx context.Context, sender x402.Address, receivers []any, from, to uint64,
) ([]reconcile.Payout, error) {
	sent := func(l logEntry) bool {
		return l.isTransfer() && l.topic(1) == sender.Word() &&
			(receivers == nil || slices.Contains(receivers, any(l.topic(2).String())))
	}
	logs, err := c.logsIn(
		ctx, from, to, sent, append([]any{x402.TopicTransfer.String(), sender.Word().String()}, receivers...)...,
	)
	if err != nil || len(logs) == 0 {
		return nil, err
	}
	var moves []reconcile.Transfer
	var to20 []x402.Address
	for _, l := range logs {
		value := new(big.Int).SetBytes(l.Data)
		if value.Sign() == 0 {
			continue
		}
		moves = append(moves, reconcile.Transfer{
			Transaction: x402.Hash(l.TransactionHash), LogIndex: uint(l.LogIndex), Block: uint64(l.BlockNumber),
			From: sender, Value: money.USDC(value.Int64()),
		})
		receiver := l.topic(2)
		to20 = append(to20, x402.Address(receiver[12:]))
	}
	used := func(l logEntry) bool { return l.topic(0) == x402.TopicUsed && l.topic(1) == sender.Word() }
	uses, err := c.logsIn(ctx, from, to, used, x402.TopicUsed.String(), sender.Word().String())
	if err != nil {
		return nil, err
	}
	nameAuthorizations(moves, uses)
	payouts := make([]reconcile.Payout, len(moves))
	for i := range moves {
		payouts[i] = reconcile.Payout{Transfer: moves[i], To: to20[i]}
	}
	return payouts, nil
}

// Pending counts the transactions of the relayer's accounts that are in the nodes' pools. landed reports whether all of
// them are included in blocks.
func (r *Relayer) Pending(ctx context.Context) (landed func(context.Context) (bool, error), err error) {
	all := r.all()
	known := make([]uint64, len(all))
	for i, a := range all {
		if known[i], err = r.counted(ctx, a.address, "pending"); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) (bool, error) {
		for i, a := range all {
			included, err := r.counted(ctx, a.address, "latest")
			if err != nil || included < known[i] {
				return false, err
			}
		}
		return true, nil
	}, nil
}

// counted is how many transactions an account has at a block. It only decides how long to wait, so it has no limit.
func (r *Relayer) counted(ctx context.Context, account x402.Address, block any) (uint64, error) {
	n, _, err := r.config.Chain.accountNonce(ctx, account, block, func() (uint64, error) { return 1 << 62, nil })
	return n, err
}
