package chain

import (
	"context"
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
	logs, err := c.tokenLogs(ctx, transaction)
	at := slices.IndexFunc(logs, func(l logEntry) bool {
		return l.isTransfer() && l.topic(2) == to.Word() && new(big.Int).SetBytes(l.Data).Cmp(amount.Big()) == 0
	})
	if err != nil || at < 0 {
		return payment.Verdict{}, err
	}
	return c.settledBy(ctx, x402.Authorization{To: to, Value: amount}, logs[at])
}
