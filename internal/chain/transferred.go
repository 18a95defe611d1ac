package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Transferred reports whether a named transaction has transferred exactly an amount to an account, whoever sent it: two
// nodes show it, or the only one.
func (c *Chain) Transferred(
	ctx context.Context, to x402.Address, amount money.USDC, transaction x402.Hash,
) (bool, error) {
	verdict, err := c.collectVerdicts(ctx, func(ctx context.Context, one *Chain) (payment.Verdict, error) {
		return one.transferred(ctx, to, amount, transaction)
	})
	if err != nil {
		return false, fmt.Errorf("look at transaction %s: %w", transaction, err)
	}
	return verdict.State == payment.Settled, nil
}

func (c *Chain) transferred(
	ctx context.Context, to x402.Address, amount money.USDC, transaction x402.Hash,
) (payment.Verdict, error) {
	head, err := c.header(ctx, c.config.Finality.Paid)
	if err != nil {
		return payment.Verdict{}, err
	}
	var found struct {
		receipt
		Logs []logEntry `json:"logs"`
	}
	err = c.pool.call(ctx, &found, "eth_getTransactionReceipt", transaction.String())
	if errors.Is(err, errNotFound) {
		return payment.Verdict{}, nil
	}
	if err != nil {
		return payment.Verdict{}, fmt.Errorf("read receipt: %w", err)
	}
	if found.Status != 1 || uint64(found.BlockNumber) > head.Number {
		return payment.Verdict{}, nil
	}
	// A receipt of a block that is not part of the chain counts for nothing.
	block, err := c.headerAt(ctx, uint64(found.BlockNumber))
	if err != nil {
		return payment.Verdict{}, err
	}
	at := slices.IndexFunc(found.Logs, func(l logEntry) bool {
		return x402.Address(l.Address) == c.config.Domain.Contract && x402.Hash(l.TransactionHash) == transaction &&
			x402.Hash(l.BlockHash) == block.Hash && !l.Removed && l.isTransfer() && l.topic(2) == to.Word() &&
			new(big.Int).SetBytes(l.Data).Cmp(amount.Big()) == 0
	})
	if at < 0 {
		return payment.Verdict{}, nil
	}
	return c.settledBy(ctx, x402.Authorization{To: to, Value: amount}, found.Logs[at])
}
