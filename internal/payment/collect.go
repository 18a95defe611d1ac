package payment

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/mutant"
)

// CollectorConfig is what a Collector needs.
type CollectorConfig struct {
	Chain   Chain
	Settler Settler
	// Poll is the pause between two questions to the chain; Patience is how long to go on asking.
	Poll     time.Duration
	Patience time.Duration
	Log      *slog.Logger
}

// Collector brings claimed payments to a decision.
type Collector struct{ config CollectorConfig }

// NewCollector makes a collector.
func NewCollector(config CollectorConfig) *Collector { return &Collector{config: config} }

// Collect sees a stored payment through until the chain decides, the context ends, or patience is
// over; in the last two cases the verdict is Unknown, and calling again goes on where this left off.
// It never fails: an error of the chain or of the settler decides nothing, because what was sent
// before it may still move the money. It may be called at once by several processes.
func (c *Collector) Collect(ctx context.Context, p Payment) Verdict {
	asking, cancel := context.WithTimeout(ctx, c.config.Patience)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var last error
	for {
		select {
		case <-asking.Done():
			c.config.Log.WarnContext(ctx, "payment not decided yet", slog.String("payment", p.ID.String()), slog.Any("cause", last))
			return Verdict{}
		case <-pause.C:
		}
		verdict, err := c.step(asking, p)
		if verdict.State == Moved || verdict.State == Gone {
			return verdict
		}
		// A question cut off by the end of patience says less than the answer before it.
		if asking.Err() == nil {
			last = err
		}
		pause.Reset(c.config.Poll)
	}
}

// step asks the chain first, so that money which has already moved is never sent for again, and
// submits while the authorization is unused. Submitting each time is what re-sends a lost
// transaction; the settler makes no second one while the first can land.
func (c *Collector) step(ctx context.Context, p Payment) (Verdict, error) {
	verdict, err := c.config.Chain.Judge(ctx, p.Authorization, p.Since())
	if err != nil {
		return Verdict{}, fmt.Errorf("judge payment: %w", err)
	}
	if verdict.State != Unused {
		return verdict, nil
	}
	if !p.Signed() && !mutant.ArrivedSubmitted {
		// Nobody signed it for us: it comes back by whoever sent it, or it dies.
		return verdict, nil
	}
	if err := c.config.Settler.Submit(ctx, p); err != nil {
		return Verdict{}, fmt.Errorf("submit payment: %w", err)
	}
	return verdict, nil
}
