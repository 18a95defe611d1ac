package chain

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// preconfirmFor is how long an answer of the node about its pending block is kept for all who ask: a Flashblocks node
// adds to that block five times a second.
const preconfirmFor = 200 * time.Millisecond

// Preconfirmations tells whether a node that shows blocks while they are built, such as one with Flashblocks, has a
// payment's transaction in the next block. Such a block can still be replaced, so this is for display only: nothing is
// settled, posted or delivered by it. It reads the receipts of our own transactions, never those of others.
type Preconfirmations struct {
	config PreconfirmationsConfig
	flight singleflight.Group

	mu sync.Mutex
	// asked are the receipts that were read less than preconfirmFor ago.
	asked map[x402.Hash]pendingReceipt
}

// PreconfirmationsConfig has what Preconfirmations need.
type PreconfirmationsConfig struct {
	Chain        *Chain
	Transactions payment.Transactions
	Now          func() time.Time
}

// pendingReceipt is the receipt of a transaction that is in the next block or in one that is there; nil when in
// neither.
type pendingReceipt struct {
	*receipt
	at time.Time
}

// NewPreconfirmations makes them.
func NewPreconfirmations(c PreconfirmationsConfig) *Preconfirmations {
	return &Preconfirmations{config: c, asked: map[x402.Hash]pendingReceipt{}}
}

// Preconfirmed reports whether one of a payment's transactions is in the block that follows the latest, or in a block,
// and makes the payment's transfer there. An error of the node or of the store is no preconfirmation, and neither is a
// node whose pending block does not follow its latest one.
func (p *Preconfirmations) Preconfirmed(ctx context.Context, of payment.Payment) bool {
	if of.Status != payment.Claimed {
		return false
	}
	t, ok, err := p.config.Transactions.ByPayment(ctx, of.ID)
	if err != nil || !ok {
		return false
	}
	// The newest variant replaces the others.
	for _, v := range slices.Backward(t.Variants) {
		if r := p.receipt(ctx, v.Hash); r != nil && r.transfers(of.Authorization, p.config.Chain.config.Domain.Contract) {
			return true
		}
	}
	return false
}

// receipt is that of a transaction, read once for all who ask within preconfirmFor.
func (p *Preconfirmations) receipt(ctx context.Context, transaction x402.Hash) *receipt {
	p.mu.Lock()
	cached, ok := p.asked[transaction]
	p.mu.Unlock()
	if since := p.config.Now().Sub(cached.at); ok && since >= 0 && since < preconfirmFor {
		return cached.receipt
	}
	answer := p.flight.DoChan(transaction.String(), func() (any, error) {
		// Those who wait for the answer do not end with the first who asked; the pool bounds each call.
		read := pendingReceipt{receipt: p.config.Chain.pendingReceipt(context.WithoutCancel(ctx), transaction)}
		read.at = p.config.Now()
		p.keep(transaction, read)
		return read, nil
	})
	select {
	case got := <-answer:
		return got.Val.(pendingReceipt).receipt
	case <-ctx.Done():
		return nil
	}
}

// keep stores an answer and deletes those that have expired.
func (p *Preconfirmations) keep(transaction x402.Hash, read pendingReceipt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for hash, r := range p.asked {
		if read.at.Sub(r.at) >= preconfirmFor {
			delete(p.asked, hash)
		}
	}
	p.asked[transaction] = read
}

// pendingReceipt is the receipt of a transaction that succeeded in the node's pending block or before, or nil. A
// pending block that does not follow the latest one is old, and tells nothing.
func (c *Chain) pendingReceipt(ctx context.Context, transaction x402.Hash) *receipt {
	latest, err := c.head(ctx, "latest")
	if err != nil {
		return nil
	}
	pending, err := c.header(ctx, "pending")
	if err != nil || pending.Number <= latest.Number {
		return nil
	}
	var found receipt
	if err := c.pool.call(ctx, &found, "eth_getTransactionReceipt", transaction.String()); err != nil {
		return nil
	}
	if x402.Hash(found.Hash) != transaction || found.Status != 1 || uint64(found.BlockNumber) > pending.Number {
		return nil
	}
	return &found
}

// transfers reports whether a receipt has the token's two events of a payment.
func (r *receipt) transfers(a x402.Authorization, token x402.Address) bool {
	ours := slices.DeleteFunc(slices.Clone(r.Logs), func(l logEntry) bool {
		return x402.Address(l.Address) != token || l.Removed
	})
	at := slices.IndexFunc(ours, func(l logEntry) bool { return l.takes(a) && l.topic(0) == x402.TopicUsed })
	return at >= 0 && slices.ContainsFunc(ours, func(l logEntry) bool { return directlyAfter(ours[at])(l) && l.moves(a) })
}
