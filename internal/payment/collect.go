package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
)

// CollectorConfig is what a Collector needs.
type CollectorConfig struct {
	Chain   Chain
	Settler Settler
	// Timeout bounds one look at the chain, with the submission that follows from it.
	Timeout time.Duration
	Log     *slog.Logger
}

// Collector submits claimed payments until the chain decides them.
type Collector struct{ config CollectorConfig }

// NewCollector makes a collector.
func NewCollector(config CollectorConfig) *Collector { return &Collector{config: config} }

// Collect asks the chain once, and submits the payment while it is unused. It does not wait. While the verdict is
// Unknown or Unused the payment is undecided: call again after LookAgain. It never fails: an error of the chain or of
// the settler decides nothing, because a transaction that was sent earlier may still be included. Several processes may
// call it concurrently.
//
// The chain is asked first, so that a settled payment is never submitted again. Submitting on each call rebroadcasts a
// lost transaction; the settler makes no second transaction while the first can be included.
func (c *Collector) Collect(ctx context.Context, p Payment) Verdict {
	ctx, cancel := fault.Within(ctx, c.config.Timeout)
	defer cancel()
	verdict, err := c.config.Chain.Verdict(ctx, p.Authorization, p.Since())
	switch {
	case err != nil:
		err = fmt.Errorf("read authorization status: %w", err)
		verdict = Verdict{}
	case verdict.State == Settled:
		if w, ok := c.config.Settler.(Witness); ok {
			w.Moved(p, *verdict.Receipt)
		}
	case verdict.State == Unused && p.Signed():
		// A payment without a signature cannot be submitted: its sender's transaction is included, or it expires.
		if err = c.config.Settler.Submit(ctx, p); err != nil {
			verdict.Missed, verdict.Held = errors.Is(err, ErrMissed), err.Error()
			err = fmt.Errorf("submit payment: %w", err)
		}
	}
	if err != nil {
		c.config.Log.WarnContext(
			ctx, "payment not decided yet", slog.String("payment", p.ID.String()), slog.Any("cause", err),
		)
	}
	return verdict
}

// The polling interval of an undecided payment grows with its age. longestPause is shorter than Buy waits for an
// answer, so that each wait includes a poll.
const (
	firstPause   = 150 * time.Millisecond
	longestPause = 12 * time.Second
)

// PollPause is the pause before the next Collect of an undecided payment, by the payment's age.
func PollPause(age time.Duration) time.Duration {
	return min(max(firstPause, age/6), longestPause)
}
