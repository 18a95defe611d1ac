package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/x402"
)

// maxUnknown is how many transactions of a key, beyond those in our store, the only node may count: more than a
// restored backup lacks, and less than what would block the key forever.
const maxUnknown = 1 << 20

// trustedNonce is how many transactions of an account are included, of the counts that the nodes gave. A number that is
// too large would leave a gap that nothing fills, so two nodes must count at least as many. The count of one node alone
// is accepted up to limit, which comes from our own store; sure is false when it is larger.
func (c *Chain) trustedNonce(got []uint64, limit uint64) (n uint64, sure bool) {
	slices.Sort(got)
	switch {
	case len(got) >= witnesses:
		return got[len(got)-witnesses], true
	case len(c.pool.endpoints) == 1:
		limit += maxUnknown
	}
	return min(got[0], limit), got[0] <= limit
}

// accountNonces are the nodes' counts of an account's included transactions. Slow nodes are not asked where enough
// others answer. It fails when none answers.
func (c *Chain) accountNonces(ctx context.Context, account x402.Address, block any, enough int) ([]uint64, error) {
	ask := func(ctx context.Context, one *Chain) (uint64, error) {
		var n hexutil.Uint64
		err := one.pool.call(ctx, &n, "eth_getTransactionCount", account.String(), block)
		return uint64(n), err
	}
	delay := c.pool.hedgeDelay(nil)
	for nodes := c.pool.responsive(enough); ; nodes = c.pool.endpoints {
		var all []uint64
		var errs error
		for _, w := range poll(ctx, c, nodes, enough, delay, ask, agreed(c, equal[uint64])) {
			if errs = errors.Join(errs, w.err); w.err == nil {
				all = append(all, w.value)
			}
		}
		switch {
		case len(all) < enough && len(nodes) < len(c.pool.endpoints):
		case len(all) == 0:
			return nil, fmt.Errorf("read account nonce: %w", errs)
		default:
			return all, nil
		}
	}
}

// accountNonce is what believed makes of these counts. limit is called after the nodes have answered, so that it
// includes what another process sends meanwhile. When a single node counts more than limit, two nodes are asked.
func (c *Chain) accountNonce(
	ctx context.Context, account x402.Address, block any, limit func() (uint64, error),
) (n uint64, sure bool, err error) {
	for enough := c.quorum(); ; enough = witnesses {
		got, err := c.accountNonces(ctx, account, block, enough)
		if err != nil {
			return 0, false, err
		}
		known, err := limit()
		if err != nil {
			return 0, false, err
		}
		if n, sure = c.trustedNonce(got, known); sure || enough >= min(witnesses, len(c.pool.endpoints)) {
			return n, sure, nil
		}
	}
}

// floor is the chain's count of an account's included transactions, the least nonce for a new one. Transactions in
// flight are in the store; a node's "pending" does not include them all.
func (r *Relayer) floor(ctx context.Context, account x402.Address) (uint64, error) {
	n, sure, err := r.config.Chain.accountNonce(ctx, account, "latest", func() (uint64, error) {
		last, known, err := r.config.Transactions.Last(ctx, account)
		switch {
		case err != nil:
			return 0, fmt.Errorf("read the last account nonce: %w", err)
		case known:
			return last + 1, nil
		default:
			return 0, nil
		}
	})
	if err == nil && !sure {
		const unconfirmed = "one node counts more transactions of relayer %s than are known, and no other confirms it"
		return 0, fmt.Errorf(unconfirmed, account)
	}
	return n, err
}

// used is how many of an account's nonces are used at a block. next follows the last stored nonce; doubted is the
// result when a single node counts more than that.
func (r *Relayer) used(ctx context.Context, account x402.Address, block any, next, doubted uint64) (uint64, error) {
	n, sure, err := r.config.Chain.accountNonce(ctx, account, block, func() (uint64, error) { return next, nil })
	if err == nil && !sure {
		return doubted, nil
	}
	return n, err
}
