package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrHistoryLost says that the database at hand is not the one that was caught up: another server or timeline, or an
// older state of the same database. What was committed last may be gone.
var ErrHistoryLost = errors.New("the database does not have the mark as it was left")

// CatchUpConfig is what a CatchUp is made of.
type CatchUpConfig struct {
	// Reader reads the safe blocks of the chain.
	Reader   Reader
	Chain    Chain
	Head     Head
	Arrivals Arrivals
	Early    Early
	Marks    Marks
	// Asset is the token. PayTo is the payee. Senders are the accounts that money is sent back from: the treasury and the
	// payee.
	Asset, PayTo x402.Address
	Senders      []x402.Address
	// Pending finds the transactions of ours that no block has, and returns what says whether blocks have them all: what a
	// lost history has sent lands first. Nil does not wait.
	Pending func(context.Context) (landed func(context.Context) (bool, error), err error)
	// Validity is how long an authorization may be carried out after it was signed.
	Validity time.Duration
	Log      *slog.Logger
	Now      func() time.Time
}

// CatchUp keeps sales waiting until all transfers to the payee have been read: after a start, and whenever the database
// is not the one that was. Until then nobody can say that money has not moved already.
//
//	Begin ─ mark ─► read safe blocks ─► read to the head ─► what went back ─► Keep ─► sales open
//	   ▲                                                                        │ every second: Keep
//	   └──────────────── the mark is not there as it was left ◄─────────────────┘
type CatchUp struct {
	CatchUpConfig
	state atomic.Pointer[caughtUp]
	// why is what has kept the last look from catching up.
	why  atomic.Pointer[error]
	wake chan struct{}
}

// caughtUp is how far a catch-up came. It is not changed.
type caughtUp struct {
	mark Mark
	// head is the last block that was read, at a time.
	head uint64
	at   time.Time
}

// NewCatchUp makes a CatchUp, which is not caught up before Run.
func NewCatchUp(c CatchUpConfig) *CatchUp {
	return &CatchUp{CatchUpConfig: c, wake: make(chan struct{}, 1)}
}

const (
	// beatEvery is how often a process looks for its mark. A claim looks by itself.
	beatEvery = time.Second
	// pendingFor is how long transactions on their way are waited for.
	pendingFor = 20 * time.Second
	// beatTimeout bounds one look for the mark.
	beatTimeout = 5 * time.Second
)

// errNotCaughtUp is what readiness says.
var errNotCaughtUp = errors.New("the transfers to the payee have not been read up to the chain's head")

// Ready is nil once the transfers have been read, as far as is known. A *fault.Fault in the error says whose fault it
// is that they are not, where that is known.
func (c *CatchUp) Ready(context.Context) error {
	if c.state.Load() != nil {
		return nil
	}
	if why := c.why.Load(); why != nil && *why != nil {
		return fmt.Errorf("%w: %w", errNotCaughtUp, *why)
	}
	return errNotCaughtUp
}

// Lost says that a claim has not found the mark. It is looked for at once.
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

// Once catches up a single time, for what runs beside the service.
func (c *CatchUp) Once(ctx context.Context) error { return c.catchUp(ctx) }

// step looks for the mark, and catches up when it is not there.
func (c *CatchUp) step(ctx context.Context) error {
	if now := c.state.Load(); now != nil {
		asking, cancel := context.WithTimeout(ctx, beatTimeout)
		defer cancel()
		mark, err := c.Marks.Keep(asking, now.mark, now.head)
		switch {
		case err == nil:
			c.state.Store(&caughtUp{mark: mark, head: now.head, at: now.at})
			return nil
		case !errors.Is(err, ErrHistoryLost):
			return fmt.Errorf("look for the mark: %w", err) // a database that does not answer takes no claim either
		}
		c.state.Store(nil)
		c.Log.ErrorContext(ctx, "the database has changed: sales wait until the transfers to the payee have been read")
	}
	err := blamed(c.catchUp(ctx))
	c.why.Store(&err)
	return err
}

// blamed says whose fault it is when nodes of the chain are missing.
func blamed(err error) error {
	if !errors.Is(err, ErrUnwitnessed) {
		return err
	}
	return errors.Join(fault.New(fault.DependencyDown, "Too few nodes of the chain show what has been paid."), err)
}

// catchUp reads everything between two looks at one database.
func (c *CatchUp) catchUp(ctx context.Context) error {
	c.Marks.Prune()
	mark, err := c.Marks.Begin(ctx)
	if err != nil {
		return fmt.Errorf("leave a mark: %w", err)
	}
	if err := c.quiet(ctx); err != nil {
		return err
	}
	before, err := c.Arrivals.Scanned(ctx)
	if err != nil {
		return fmt.Errorf("find the last block read: %w", err)
	}
	if err := c.Reader.Scan(ctx); err != nil {
		return fmt.Errorf("read the chain: %w", err)
	}
	head, err := c.readHead(ctx)
	if err != nil {
		return fmt.Errorf("read the chain to its head: %w", err)
	}
	if err := c.sentBack(ctx, before, head); err != nil {
		return fmt.Errorf("read what was sent back: %w", err)
	}
	if err := faultpoint.Fail("catchup.read"); err != nil {
		return err
	}
	if mark, err = c.Marks.Keep(ctx, mark, head); err != nil {
		return fmt.Errorf("keep the mark: %w", err)
	}
	c.state.Store(&caughtUp{mark: mark, head: head, at: c.Now()})
	c.Log.InfoContext(ctx, "the transfers to the payee have been read", slog.Uint64("block", head))
	return nil
}

// quiet waits until our own transactions are in blocks. Those that stay out of them do not keep sales closed for good:
// what they carry is looked for at each claim.
func (c *CatchUp) quiet(ctx context.Context) error {
	if c.Pending == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, pendingFor)
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
	return fmt.Errorf("look for the transactions on their way: %w", err)
}

// readHead reads the blocks that are not safe yet, and says how far that was possible. What they show may be undone, so
// they are read again once they are safe; and whatever a node does not show at once, because somebody filled a block,
// each claim asks for its payer.
func (c *CatchUp) readHead(ctx context.Context) (uint64, error) {
	at, err := c.Arrivals.Scanned(ctx)
	if err != nil {
		return 0, fmt.Errorf("find the last block read: %w", err)
	}
	head, err := c.Head.Head(ctx)
	if err != nil {
		return 0, fmt.Errorf("find the head: %w", err)
	}
	for from := at.Next; from <= head; from += scanStep {
		found, err := c.Chain.Transfers(ctx, c.PayTo, from, min(from+scanStep-1, head))
		if err != nil {
			if _, down := c.Head.Head(ctx); down != nil || errors.Is(err, ErrUnwitnessed) {
				return 0, fmt.Errorf("read the transfers from block %d on: %w", from, errors.Join(err, down))
			}
			c.Log.WarnContext(ctx, "blocks that are not safe yet are read for each payer", slog.Uint64("from", from),
				slog.Any("cause", err))
			return from - 1, nil
		}
		if err := c.arrive(ctx, found); err != nil {
			return 0, err
		}
	}
	return max(head, at.Next-min(at.Next, 1)), nil // another process may have come further
}

// arrive stores transfers of blocks that are not safe, those that carry an authorization: only they may pay, and
// whoever uses one asks the chain again.
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

// Read stores what a payer has sent since the catch-up. An authorization that a lost history has taken can be carried
// out until its time is over, by anyone; so for that long each new purchase looks for its payer's. A *fault.Fault in
// the error says whose fault it is that it cannot, where that is known.
func (c *CatchUp) Read(ctx context.Context, payer x402.Address) error {
	now := c.state.Load()
	if now == nil {
		return errNotCaughtUp
	}
	if c.Now().Sub(now.at) > c.Validity {
		return nil
	}
	head, err := c.Head.Head(ctx)
	if err != nil {
		return blamed(fmt.Errorf("find the head: %w", err))
	}
	if head <= now.head {
		return nil
	}
	found, err := c.Head.TransfersFrom(ctx, payer, c.PayTo, now.head+1, head)
	if err != nil {
		return blamed(fmt.Errorf("read what the payer has sent: %w", err))
	}
	return blamed(c.arrive(ctx, found))
}
