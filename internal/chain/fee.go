package chain

import (
	"context"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/x402"
)

// fee is what a transaction offers per unit of gas (EIP-1559), in wei. cap includes tip.
type fee struct{ tip, cap *big.Int }

// suggestFee survives a doubling of the base fee and keeps to the configured bound.
func (r *Relayer) suggestFee(ctx context.Context) (fee, error) {
	head, err := r.config.Chain.head(ctx, "latest")
	if err != nil {
		return fee{}, fmt.Errorf("suggest fee: %w", err)
	}
	if known, ok := r.fees.at(head.Hash); ok && r.config.Chain.shares() {
		return known, nil
	}
	suggested, err := r.suggestTip(ctx, head.Hash)
	if err != nil {
		return fee{}, fmt.Errorf("suggest fee: %w", err)
	}
	tip := larger(suggested.ToInt(), r.config.MinTip)
	offered := r.bounded(fee{tip: tip, cap: new(big.Int).Add(new(big.Int).Lsh(head.BaseFee, 1), tip)})
	r.keepFee(offered, head.Hash)
	return offered, nil
}

// suggestTip asks once for all that want a fee at a block.
func (r *Relayer) suggestTip(ctx context.Context, block x402.Hash) (*hexutil.Big, error) {
	on := r.config.Chain
	answer := on.recent.flight.DoChan("tip "+block.String(), func() (any, error) {
		var suggested hexutil.Big
		err := on.pool.call(context.WithoutCancel(ctx), &suggested, "eth_maxPriorityFeePerGas")
		return &suggested, err
	})
	select {
	case got := <-answer:
		return got.Val.(*hexutil.Big), got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// raised replaces an earlier offer: a quarter more on both parts, where nodes ask for a tenth, or
// what is usual now if that is more. ok is false when the bound does not leave room for that.
func (r *Relayer) raised(before, usual fee) (raised fee, ok bool) {
	least := fee{tip: quarterMore(before.tip), cap: quarterMore(before.cap)}
	raised = fee{tip: larger(least.tip, usual.tip), cap: larger(least.cap, usual.cap)}
	bounded := r.bounded(raised)
	return bounded, bounded.cap.Cmp(least.cap) >= 0 && bounded.tip.Cmp(least.tip) >= 0
}

func (r *Relayer) bounded(f fee) fee {
	limit := smaller(f.cap, r.config.MaxFeePerGas)
	return fee{tip: smaller(f.tip, limit), cap: limit}
}

func feeOf(tx *types.Transaction) fee { return fee{tip: tx.GasTipCap(), cap: tx.GasFeeCap()} }

// quarterMore is n * 5/4, rounded up, and always more than n.
func quarterMore(n *big.Int) *big.Int {
	more := new(big.Int).Rsh(n, 2)
	return more.Add(more, n).Add(more, big.NewInt(1))
}

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}
