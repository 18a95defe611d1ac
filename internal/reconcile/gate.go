package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
)

// Gate keeps top-ups from being sold while it is not known that the treasury's books agree.
type Gate struct {
	Reports Reports
	// MaxAge is how old the last report may be.
	MaxAge time.Duration
	Now    func() time.Time

	mu     sync.Mutex
	asked  time.Time
	known  bool
	blocks bool
	at     time.Time
}

// gateTTL is how long a reading of the last report is believed, so that unpaid requests cost no query each.
const gateTTL = time.Second

// Open is treasury_unreconciled while the last report is too old, or found what blocks. Before the first report the gate is open:
// a fresh installation has nothing to compare.
func (g *Gate) Open(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Now()
	if g.asked.IsZero() || now.Sub(g.asked) >= gateTTL || now.Before(g.asked) {
		last, ok, err := g.Reports.Last(ctx)
		if err != nil {
			return fmt.Errorf("read the last reconciliation: %w", err)
		}
		g.asked, g.known, g.blocks, g.at = now, ok, last.Blocks(), last.At
	}
	switch {
	case !g.known:
		return nil
	case g.blocks:
		return fault.New(fault.TreasuryUnreconciled, "The treasury's books differ; an operator looks at it.")
	case now.Sub(g.at) > g.MaxAge:
		return fault.New(fault.TreasuryUnreconciled, "The treasury's books have not been compared for too long.")
	}
	return nil
}
