package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrHistoryLost says that the database is not the one that was caught up: it is another server or timeline, or an
// older state of the same database. The last commits may be lost.
var ErrHistoryLost = errors.New("the database does not have the watermark as it was stored")

// CatchUpConfig is what a CatchUp is made of.
type CatchUpConfig struct {
	// Reader reads the safe blocks of the chain.
	Reader     Reader
	Chain      Chain
	Head       Head
	Arrivals   Arrivals
	Unread     Unread
	Early      Early
	Watermarks Watermarks
	Sent       Sent
	// Asset is the token. PayTo is the payee. Senders are the accounts that send refunds: the treasury and the payee.
	Asset, PayTo x402.Address
	Senders      []x402.Address
	// Pending counts our transactions that are not included yet; landed reports whether all of them are included.
	// Catching up waits for them, because data that was lost may have sent them. Nil does not wait.
	Pending func(context.Context) (landed func(context.Context) (bool, error), err error)
	// Validity is how long an authorization can be executed after it was signed.
	Validity time.Duration
	Log      *slog.Logger
	Now      func() time.Time
}

// CatchUp closes sales until all transfers to the payee have been read: after a start, and whenever the database is not
// the one it was. Until then a payment may have been transferred without a record of it.
//
//	Begin ─ watermark ─► read safe blocks ─► read to the head ─► find refunds ─► Keep ─► sales open
//	   ▲                                                                           │ every second: Keep
//	   └──────────────────── the watermark is not as it was stored ◄───────────────┘
type CatchUp struct {
	CatchUpConfig
	state atomic.Pointer[caughtUp]
	// lastErr is the error of the last attempt to catch up.
	lastErr atomic.Pointer[error]
	wake    chan struct{}
}

// caughtUp is the result of catching up. It is immutable.
type caughtUp struct {
	mark ProcessWatermark
	// head is the last block that was read, and at when.
	head uint64
	at   time.Time
	// gaps are the blocks before it that no node has shown yet.
	gaps []span
}

// span is a range of blocks, both included.
type span struct{ first, last uint64 }

// NewCatchUp makes a CatchUp, which is not ready before Run or Once.
func NewCatchUp(c CatchUpConfig) *CatchUp {
	return &CatchUp{CatchUpConfig: c, wake: make(chan struct{}, 1)}
}

const (
	// beatEvery is how often a process checks its watermark. Each claim checks it, too.
	beatEvery = time.Second
	// pendingFor bounds the wait for pending transactions.
	pendingFor = 20 * time.Second
	// beatTimeout bounds one check of the watermark.
	beatTimeout = 5 * time.Second
)

// errNotCaughtUp is the error of readiness.
var errNotCaughtUp = errors.New("the transfers to the payee have not been read up to the chain's head")

// Ready is nil once the transfers have been read. The error contains a *fault.Fault when the cause is a dependency.
func (c *CatchUp) Ready(context.Context) error {
	if c.state.Load() != nil {
		return nil
	}
	if why := c.lastErr.Load(); why != nil && *why != nil {
		return fmt.Errorf("%w: %w", errNotCaughtUp, *why)
	}
	return errNotCaughtUp
}

// Lost reports that a claim did not find the watermark, which is then checked at once.
func (c *CatchUp) Lost() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run catches up, and again whenever the database changes, until ctx ends.
func (c *CatchUp) Run(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "sales wait: reading the transfers to the payee", slog.Any("cause", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.wake:
		}
	}
}

// Once catches up a single time, for commands that run next to the service.
func (c *CatchUp) Once(ctx context.Context) error { return c.catchUp(ctx) }

// step checks the watermark, and catches up when it is missing.
func (c *CatchUp) step(ctx context.Context) error {
	if now := c.state.Load(); now != nil {
		asking, cancel := fault.Within(ctx, beatTimeout)
		defer cancel()
		mark, err := c.Watermarks.Keep(asking, now.mark, now.head)
		switch {
		case err == nil:
			gaps, err := c.leftOut(asking)
			if err != nil {
				c.Log.WarnContext(ctx, "claims read the blocks that were left out before", slog.Any("cause", err))
				gaps = now.gaps
			}
			c.state.Store(&caughtUp{mark: mark, head: now.head, at: now.at, gaps: gaps})
			return nil
		case !errors.Is(err, ErrHistoryLost):
			return fmt.Errorf("check the watermark: %w", err) // a database that does not answer takes no claim either
		}
		c.state.Store(nil)
		c.Log.ErrorContext(ctx, "the database has changed: sales wait until the transfers to the payee have been read")
	}
	err := chainFault(c.catchUp(ctx))
	c.lastErr.Store(&err)
	return err
}

// chainFault adds a fault for the payer when too few nodes of the chain answer.
func chainFault(err error) error {
	if !errors.Is(err, ErrUnwitnessed) {
		return err
	}
	return errors.Join(fault.New(fault.DependencyDown, "Too few nodes of the chain show what has been paid."), err)
}

// catchUp reads all transfers between two checks of the same database.
func (c *CatchUp) catchUp(ctx context.Context) error {
	c.Watermarks.Revoke()
	mark, err := c.Watermarks.Begin(ctx)
	if err != nil {
		return fmt.Errorf("store a watermark: %w", err)
	}
	if err := c.awaitPending(ctx); err != nil {
		return err
	}
	before, err := c.Arrivals.Scanned(ctx)
	if err != nil {
		return fmt.Errorf("find the last block read: %w", err)
	}
	if err := c.Reader.Scan(ctx); err != nil {
		return fmt.Errorf("read the chain: %w", err)
	}
	read, head, err := c.readHead(ctx)
	if err != nil {
		return fmt.Errorf("read the chain to its head: %w", err)
	}
	gaps, err := c.leftOut(ctx)
	if err != nil {
		return err
	}
	if err := c.resolveRefunded(ctx, before, head, append(slices.Clone(gaps), span{read + 1, head})); err != nil {
		return fmt.Errorf("find refunds without a record: %w", err)
	}
	if err := faultpoint.Fail("catchup.read"); err != nil {
		return err
	}
	if mark, err = c.Watermarks.Keep(ctx, mark, read); err != nil {
		return fmt.Errorf("update the watermark: %w", err)
	}
	c.state.Store(&caughtUp{mark: mark, head: read, at: c.Now(), gaps: gaps})
	c.Log.InfoContext(ctx, "the transfers to the payee have been read", slog.Uint64("block", read))
	return nil
}

// maxLeftOutInAll is how many blocks may be left out while sales are open: each costs each claim a question at most.
const maxLeftOutInAll = 256

// leftOut are the blocks that no node has shown, as ranges that are read at once.
func (c *CatchUp) leftOut(ctx context.Context) ([]span, error) {
	blocks, err := c.Unread.Blocks(ctx, maxLeftOutInAll+1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the blocks left out: %w", err)
	case len(blocks) > maxLeftOutInAll:
		return nil, fmt.Errorf("more than %d blocks are left out: no node shows their transfers", maxLeftOutInAll)
	}
	var spans []span
	for _, b := range blocks {
		if n := len(spans); n > 0 && b < spans[n-1].first+scanStep {
			spans[n-1].last = b
			continue
		}
		spans = append(spans, span{b, b})
	}
	return spans, nil
}

// awaitPending waits until our own pending transactions are included, at most pendingFor. Transfers that are included
// later are found at each claim.
func (c *CatchUp) awaitPending(ctx context.Context) error {
	if c.Pending == nil {
		return nil
	}
	waiting, cancel := fault.Within(ctx, pendingFor)
	defer cancel()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	landed, err := c.Pending(waiting)
	for err == nil {
		var all bool
		if all, err = landed(waiting); all {
			return nil
		}
		select {
		case <-waiting.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return fmt.Errorf("count the pending transactions: %w", err)
}

// readHead reads the blocks that are not safe yet, and returns the last one that it could read, and the head. They may
// be reorganised, so they are read again once they are safe. When the nodes refuse a full block, each claim reads its
// payer's transfers instead.
func (c *CatchUp) readHead(ctx context.Context) (read, head uint64, err error) {
	at, err := c.Arrivals.Scanned(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("find the last block read: %w", err)
	}
	head, err = c.Head.Head(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("find the head: %w", err)
	}
	for from := at.Next; from <= head; from += scanStep {
		found, err := c.Chain.Transfers(ctx, c.PayTo, from, min(from+scanStep-1, head))
		if err != nil {
			if _, down := c.Head.Head(ctx); down != nil || errors.Is(err, ErrUnwitnessed) {
				return 0, 0, fmt.Errorf("read the transfers from block %d on: %w", from, errors.Join(err, down))
			}
			c.Log.WarnContext(ctx, "blocks that are not safe yet are read for each payer", slog.Uint64("from", from),
				slog.Any("cause", err))
			return from - 1, head, nil
		}
		if err := c.arrive(ctx, found); err != nil {
			return 0, 0, err
		}
	}
	head = max(head, at.Next-min(at.Next, 1)) // another process may have come further
	return head, head, nil
}

// arrive stores the transfers of blocks that are not safe, if they executed an authorization: only those can pay for an
// order, and using one asks the chain again.
func (c *CatchUp) arrive(ctx context.Context, found []Transfer) error {
	for _, t := range found {
		if t.Nonce.IsZero() {
			continue
		}
		hash, at, err := c.Head.Block(ctx, t.Block)
		if err != nil {
			return fmt.Errorf("read block %d: %w", t.Block, err)
		}
		err = c.Early.Arrive(ctx, payment.Arrived{
			Network: x402.NetworkID, Asset: c.Asset,
			Authorization: x402.Authorization{From: t.From, To: c.PayTo, Value: t.Value, Nonce: t.Nonce},
			Receipt: payment.Receipt{
				Transaction: t.Transaction, Block: t.Block, BlockHash: hash, LogIndex: t.LogIndex,
				Payer: t.From, PayTo: c.PayTo, Amount: t.Value, SettledAt: at,
			},
		})
		if err != nil {
			return fmt.Errorf("store the transfer %s: %w", t.Place(), err)
		}
	}
	return nil
}

// Read stores the transfers of a payer in blocks that were left out, and since the catch-up. An authorization that was
// claimed in lost data can be executed by anyone while it is valid, so for Validity each new purchase reads its payer's
// transfers. The error contains a *fault.Fault when the cause is a dependency.
func (c *CatchUp) Read(ctx context.Context, payer x402.Address) error {
	now := c.state.Load()
	if now == nil {
		return errNotCaughtUp
	}
	if err := c.readOf(ctx, payer, now.gaps); err != nil {
		return chainFault(err)
	}
	if c.Now().Sub(now.at) > c.Validity {
		return nil
	}
	head, err := c.Head.Head(ctx)
	if err != nil {
		return chainFault(fmt.Errorf("find the head: %w", err))
	}
	return chainFault(c.readOf(ctx, payer, []span{{now.head + 1, head}}))
}

// readOf stores the transfers of one payer, which are few where those of all are too many to be shown.
func (c *CatchUp) readOf(ctx context.Context, payer x402.Address, spans []span) error {
	for _, s := range spans {
		if s.last < s.first {
			continue
		}
		found, err := c.Head.TransfersFrom(ctx, payer, c.PayTo, s.first, s.last)
		if err != nil {
			return fmt.Errorf("read what %s has sent: %w", payer, err)
		}
		if err := c.arrive(ctx, found); err != nil {
			return err
		}
	}
	return nil
}
