package availability

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// Standings says how the books stand, from columns of their own and not from a report.
type Standings interface {
	// Compared is when the last comparison ended, zero before there was one, and whether a finding is open that closes
	// the gate to everybody.
	Compared(ctx context.Context) (at time.Time, blocked bool, err error)
	// Blocked reports whether one is open that closes it to one wallet.
	Blocked(ctx context.Context, owner x402.Address) (bool, error)
	// Read is when the books of a provider were read last, or when they were asked for first if they never were; zero
	// before that.
	Read(ctx context.Context, provider string) (time.Time, error)
}

// BooksConfig is what Books is made of.
type BooksConfig struct {
	Standings Standings
	// MaxAge is how old the last comparison, and the last reading of a provider's books, may be.
	MaxAge time.Duration
	Now    func() time.Time
}

// Books is a gate: closed while it is not known that the treasury's books agree. A nil one is always open.
type Books struct {
	config   BooksConfig
	compared *Memo[comparison]
}

// comparison is how the last one ended.
type comparison struct {
	at      time.Time
	blocked bool
}

// booksTTL is how old a reading of the standings may be, so that unpaid requests cost no query each.
const booksTTL = time.Second

// NewBooks makes Books.
func NewBooks(c BooksConfig) *Books {
	read := func(ctx context.Context) (comparison, error) {
		at, blocked, err := c.Standings.Compared(ctx)
		if err != nil {
			return comparison{}, fmt.Errorf("read how the books stand: %w", err)
		}
		return comparison{at, blocked}, nil
	}
	return &Books{c, NewMemo(MemoConfig[comparison]{Read: read, TTL: booksTTL, Now: c.Now})}
}

// Open is treasury_unreconciled while the last comparison is too old, or something was found that concerns everybody.
// Before the first comparison the gate is open: a fresh installation has nothing to compare.
func (b *Books) Open(ctx context.Context) error {
	if b == nil {
		return nil
	}
	last, err := b.compared.Get(ctx)
	switch {
	case err != nil:
		return err
	case last.blocked:
		return fault.New(fault.TreasuryUnreconciled, "The treasury's books differ; an operator looks at it.")
	case !last.at.IsZero() && b.config.Now().Sub(last.at) > b.config.MaxAge:
		return fault.New(fault.TreasuryUnreconciled, "The treasury's books have not been compared for too long.")
	}
	return nil
}

// OpenTo is treasury_unreconciled while something was found that concerns one wallet. It is asked before each claim.
func (b *Books) OpenTo(ctx context.Context, owner x402.Address) error {
	if b == nil {
		return nil
	}
	blocked, err := b.config.Standings.Blocked(ctx, owner)
	if err != nil {
		return fmt.Errorf("read how the books of a wallet stand: %w", err)
	}
	if blocked {
		return fault.New(fault.TreasuryUnreconciled, "The books of this wallet differ; an operator looks at it.")
	}
	return nil
}

// OpenFor is treasury_unreconciled while the books of one provider have not been read for too long. It is asked before
// each claim.
func (b *Books) OpenFor(ctx context.Context, provider string) error {
	if b == nil {
		return nil
	}
	read, err := b.config.Standings.Read(ctx, provider)
	switch {
	case err != nil:
		return fmt.Errorf("find when the books of a provider were read: %w", err)
	case !read.IsZero() && b.config.Now().Sub(read) > b.config.MaxAge:
		return fault.New(fault.TreasuryUnreconciled, "The books of the card's issuer have not been compared for too long.")
	}
	return nil
}
