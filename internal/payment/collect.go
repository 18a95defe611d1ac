package payment

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// CollectorConfig is what a Collector needs.
type CollectorConfig struct {
	Chain   Chain
	Settler Settler
	// Timeout bounds one look at the chain, with the submission that follows from it.
	Timeout time.Duration
	Log     *slog.Logger
}

// Collector brings claimed payments to a decision.
type Collector struct{ config CollectorConfig }

// NewCollector makes a collector.
func NewCollector(config CollectorConfig) *Collector { return &Collector{config: config} }

// Collect looks at the chain once, and submits the payment while it is unused; it waits for nothing. While the
// verdict is Unknown or Unused the payment is undecided: call again after LookAgain. It never fails: an error of the
// chain or of the settler decides nothing, because what was sent before it may still move the money. It may be
// called at once by several processes.
//
// The chain is asked first, so that money which has already moved is never sent for again. Submitting each time is
// what re-sends a lost transaction; the settler makes no second one while the first can land.
func (c *Collector) Collect(ctx context.Context, p Payment) Verdict {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	verdict, err := c.config.Chain.Verdict(ctx, p.Authorization, p.Since())
	if err != nil {
		err = fmt.Errorf("read authorization status: %w", err)
		verdict = Verdict{}
	} else if verdict.State == Unused && p.Signed() {
		// A payment without a signature cannot be submitted: its sender's transaction is included, or it expires.
		if err = c.config.Settler.Submit(ctx, p); err != nil {
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

// The pauses between two looks at an undecided payment grow with its age. longestPause is shorter than a buyer's wait
// for an answer, so that each wait includes a look.
const (
	firstPause   = 150 * time.Millisecond
	longestPause = 12 * time.Second
)

// LookAgain is how long to wait before the next look at an undecided payment of an age.
func LookAgain(age time.Duration) time.Duration {
	return min(max(firstPause, age/6), longestPause)
}
