package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Prove looks for an authorization's transfer in a named transaction. The verdict is Settled when two nodes show it
// there, or the only one; else it is Unknown, which says nothing about other transactions.
func (c *Chain) Prove(ctx context.Context, a x402.Authorization, transaction x402.Hash) (payment.Verdict, error) {
	verdict, err := c.collectVerdicts(ctx, func(ctx context.Context, one *Chain) (payment.Verdict, error) {
		return one.prove(ctx, a, transaction)
	})
	if err != nil {
		return payment.Verdict{}, fmt.Errorf("look at transaction %s: %w", transaction, err)
	}
	return verdict, nil
}

// Reverted reports whether the chain has a transaction that reverted. One that no node has did not.
func (c *Chain) Reverted(ctx context.Context, transaction x402.Hash) (bool, error) {
	found, err := c.receiptOf(ctx, transaction)
	if errors.Is(err, errNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the receipt of transaction %s: %w", transaction, err)
	}
	return found.Status == 0, nil
}

func (c *Chain) prove(ctx context.Context, a x402.Authorization, transaction x402.Hash) (payment.Verdict, error) {
	logs, err := c.tokenLogs(ctx, transaction)
	if err != nil {
		return payment.Verdict{}, err
	}
	for _, used := range logs {
		if used.topic(0) != x402.TopicUsed || !used.takes(a) {
			continue
		}
		at := slices.IndexFunc(logs, func(l logEntry) bool { return l.LogIndex == used.LogIndex+1 && l.moves(a) })
		if at >= 0 {
			return c.settledBy(ctx, a, logs[at])
		}
	}
	return payment.Verdict{}, nil
}

// tokenLogs are the token's logs in a transaction that succeeded, in a block that counts as paid; none in any other.
func (c *Chain) tokenLogs(ctx context.Context, transaction x402.Hash) ([]logEntry, error) {
	head, err := c.header(ctx, c.config.Finality.Paid)
	if err != nil {
		return nil, err
	}
	var found struct {
		receipt
		Logs []logEntry `json:"logs"`
	}
	err = c.pool.call(ctx, &found, "eth_getTransactionReceipt", transaction.String())
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read receipt: %w", err)
	}
	if found.Status != 1 || uint64(found.BlockNumber) > head.Number {
		return nil, nil
	}
	// A receipt of a block that is not part of the chain counts for nothing.
	block, err := c.headerAt(ctx, uint64(found.BlockNumber))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.Logs, func(l logEntry) bool {
		return x402.Address(l.Address) != c.config.Domain.Contract || x402.Hash(l.TransactionHash) != transaction ||
			x402.Hash(l.BlockHash) != block.Hash || l.Removed
	}), nil
}
