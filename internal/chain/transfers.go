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

// Safe implements reconcile.Chain.
func (c *Chain) Safe(ctx context.Context) (uint64, error) {
	head, err := c.witnessedHead(ctx, c.config.Finality.Dead)
	return head.Number, err
}

// Head implements reconcile.Head.
func (c *Chain) Head(ctx context.Context) (uint64, error) {
	head, err := c.witnessedHead(ctx, "latest")
	return head.Number, err
}

// BlockTime is when a block was made.
func (c *Chain) BlockTime(ctx context.Context, number uint64) (time.Time, error) {
	block, err := c.headerAt(ctx, number)
	return block.time(), err
}

// maxSenders bounds the senders in one log query.
const maxSenders = 50

// Transfers implements reconcile.Chain.
func (c *Chain) Transfers(ctx context.Context, payTo x402.Address, from, to uint64) ([]reconcile.Transfer, error) {
	var all []reconcile.Transfer
	for ; from <= to; from += c.config.LogRange {
		found, err := c.transfers(ctx, payTo, from, min(from+c.config.LogRange-1, to))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// transfers reads one range of blocks. The token logs the use of an authorization directly before its transfer, so the
// senders' uses tell which authorization a transfer executed.
func (c *Chain) transfers(ctx context.Context, payTo x402.Address, from, to uint64) ([]reconcile.Transfer, error) {
	received := func(l logEntry) bool { return l.isTransfer() && l.topic(2) == payTo.Word() }
	logs, err := c.logsIn(ctx, from, to, received, x402.TopicTransfer.String(), nil, payTo.Word().String())
	if err != nil {
		return nil, err
	}
	var found []reconcile.Transfer
	var senders []string
	for _, l := range logs {
		value := new(big.Int).SetBytes(l.Data)
		if value.Sign() == 0 { // anybody can emit these; they move nothing
			continue
		}
		sender := l.topic(1)
		if !slices.Contains(senders, sender.String()) {
			senders = append(senders, sender.String())
		}
		found = append(found, reconcile.Transfer{
			Transaction: x402.Hash(l.TransactionHash), LogIndex: uint(l.LogIndex), Block: uint64(l.BlockNumber),
			From: x402.Address(sender[12:]), Value: money.USDC(value.Int64()),
		})
	}
	for group := range slices.Chunk(senders, maxSenders) {
		used := func(l logEntry) bool {
			return l.topic(0) == x402.TopicUsed && slices.Contains(group, l.topic(1).String())
		}
		uses, err := c.logsIn(ctx, from, to, used, x402.TopicUsed.String(), group)
		if err != nil {
			return nil, err
		}
		nameAuthorizations(found, uses)
	}
	return found, nil
}

// isTransfer reports that the event is a transfer of an amount that fits 63 bits.
func (l logEntry) isTransfer() bool {
	return l.topic(0) == x402.TopicTransfer && new(big.Int).SetBytes(l.Data).IsInt64()
}

func nameAuthorizations(transfers []reconcile.Transfer, uses []logEntry) {
	type place struct {
		transaction x402.Hash
		index       uint
	}
	used := map[place]logEntry{}
	for _, u := range uses {
		used[place{x402.Hash(u.TransactionHash), uint(u.LogIndex)}] = u
	}
	for i := range transfers {
		t := &transfers[i]
		u, ok := used[place{t.Transaction, t.LogIndex - 1}]
		if ok && t.LogIndex > 0 && u.topic(0) == x402.TopicUsed && u.topic(1) == t.From.Word() {
			t.Nonce = u.topic(2)
		}
	}
}
