package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/x402"
)

// maxUnknown is how many transactions of a key, beyond those in our store, are believed of the only node: more than a
// restored backup has forgotten, and less than what would block the key for good.
const maxUnknown = 1 << 20

// believed is how many transactions of an account are included, as far as that is sure, of what the nodes say. A number
// that is too large would leave a gap that nothing fills, so it is what two nodes say at least. What one node alone says
// is believed up to limit, which comes from our own store. sure is false when that cut it.
func (c *Chain) believed(said []uint64, limit uint64) (n uint64, sure bool) {
	slices.Sort(said)
	switch {
	case len(said) >= witnesses:
		return said[len(said)-witnesses], true
	case len(c.pool.endpoints) == 1:
		limit += maxUnknown
	}
	return min(said[0], limit), said[0] <= limit
}

// accountNonces asks every node at once, until two say the same: no third can then make what two say at least another
// number. It fails when none answers.
func (c *Chain) accountNonces(ctx context.Context, account x402.Address, block any) ([]uint64, error) {
	type answer struct {
		n   hexutil.Uint64
		err error
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(c.pool.endpoints))
	for _, e := range c.pool.endpoints {
		go func() {
			var a answer
			a.err = c.pool.alone(e).call(asking, &a.n, "eth_getTransactionCount", account.String(), block)
			answers <- a
		}()
	}
	var all []uint64
	var errs error
	for range c.pool.endpoints {
		a := <-answers
		if a.err != nil {
			errs = errors.Join(errs, a.err)
			continue
		}
		agreed := len(c.pool.endpoints) <= witnesses+1 && slices.Contains(all, uint64(a.n))
		if all = append(all, uint64(a.n)); agreed {
			break
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read account nonce: %w", errs)
	}
	return all, nil
}

// floor is the chain's count of an account's included transactions, below which no new one may be numbered. Those in
// flight are in the store, and a node's "pending" does not know them all.
func (r *Relayer) floor(ctx context.Context, account x402.Address) (uint64, error) {
	said, err := r.config.Chain.accountNonces(ctx, account, "latest")
	if err != nil {
		return 0, err
	}
	// After the chain, or what another process sends meanwhile would be more than is known.
	last, known, err := r.config.Attempts.Last(ctx, account)
	if err != nil {
		return 0, fmt.Errorf("read the last account nonce: %w", err)
	}
	next := uint64(0)
	if known {
		next = last + 1
	}
	n, sure := r.config.Chain.believed(said, next)
	if !sure {
		return 0, fmt.Errorf("one node counts more transactions of relayer %s than are known, and no other confirms it", account)
	}
	return n, nil
}

// used is how many of an account's nonces are used at a block; next follows the last one stored. doubted is the answer
// when one node alone says more than that.
func (r *Relayer) used(ctx context.Context, account x402.Address, block any, next, doubted uint64) (uint64, error) {
	said, err := r.config.Chain.accountNonces(ctx, account, block)
	if err != nil {
		return 0, err
	}
	if n, sure := r.config.Chain.believed(said, next); sure {
		return n, nil
	}
	return doubted, nil
}
