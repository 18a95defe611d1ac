package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// Standings says how the books stand, from columns of their own and not from a report.
type Standings interface {
	// Compared is when the last comparison ended, zero before there was one, and whether a finding is open that keeps top-ups from
	// being sold to everybody.
	Compared(ctx context.Context) (at time.Time, blocked bool, err error)
	// Blocked reports whether one is open that keeps them from being sold to one wallet.
	Blocked(ctx context.Context, owner x402.Address) (bool, error)
}

// Gate keeps top-ups from being sold while it is not known that the treasury's books agree.
type Gate struct {
	Standings Standings
	// MaxAge is how old the last comparison may be.
	MaxAge time.Duration
	Now    func() time.Time

	mu      sync.Mutex
	asked   time.Time
	blocked bool
	at      time.Time
}

// gateTTL is how long a reading of the standings is believed, so that unpaid requests cost no query each.
const gateTTL = time.Second

// Open is treasury_unreconciled while the last comparison is too old, or something was found that concerns everybody. Before the
// first comparison the gate is open: a fresh installation has nothing to compare.
func (g *Gate) Open(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Now()
	if g.asked.IsZero() || now.Sub(g.asked) >= gateTTL || now.Before(g.asked) {
		at, blocked, err := g.Standings.Compared(ctx)
		if err != nil {
			return fmt.Errorf("read how the books stand: %w", err)
		}
		g.asked, g.blocked, g.at = now, blocked, at
	}
	switch {
	case g.blocked:
		return fault.New(fault.TreasuryUnreconciled, "The treasury's books differ; an operator looks at it.")
	case !g.at.IsZero() && now.Sub(g.at) > g.MaxAge:
		return fault.New(fault.TreasuryUnreconciled, "The treasury's books have not been compared for too long.")
	}
	return nil
}

// OpenTo is treasury_unreconciled while something was found that concerns one wallet. It is asked before each claim.
func (g *Gate) OpenTo(ctx context.Context, owner x402.Address) error {
	blocked, err := g.Standings.Blocked(ctx, owner)
	if err != nil {
		return fmt.Errorf("read how the books of a wallet stand: %w", err)
	}
	if blocked {
		return fault.New(fault.TreasuryUnreconciled, "The books of this wallet differ; an operator looks at it.")
	}
	return nil
}
