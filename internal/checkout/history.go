package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// History says whether our record of what was paid is whole.
type History interface {
	// Ready is nil once the transfers to the payee have been read up to the chain's head, as far as is known.
	Ready(ctx context.Context) error
	// Read reads what a payer has sent since then, as long as there may be anything that our record has lost.
	Read(ctx context.Context, payer x402.Address) error
	// Lost says that a claim has found another history than the one that was read.
	Lost()
}

// ErrHistoryLost says that nothing is claimed in a database that was not compared with the chain.
var ErrHistoryLost = errors.New("the database is not the one that was compared with the chain")

// whole keeps a payment from being claimed while the payer may have paid already, in a history that was lost.
func (c *Checkout) whole(ctx context.Context, payer x402.Address) error {
	if c.History == nil {
		return nil
	}
	err := c.History.Ready(ctx)
	if err == nil {
		err = c.History.Read(ctx, payer)
	}
	if err != nil {
		return fmt.Errorf("see whether the record of payments is whole: %w", errors.Join(err, catchingUp()))
	}
	return nil
}

// known keeps a payer from being asked for a payment that may have been made.
func (c *Checkout) known(ctx context.Context) error {
	if c.History == nil {
		return nil
	}
	if err := c.History.Ready(ctx); err != nil {
		return fmt.Errorf("see whether the record of payments is whole: %w", errors.Join(err,
			fault.New(fault.DependencyDown, "The service reads what has been paid. Pay nothing yet; repeat the request in a moment.").After(2*time.Second)))
	}
	return nil
}

// lost is the answer to a claim that found another history.
func (c *Checkout) lost(err error) error {
	if c.History != nil {
		c.History.Lost()
	}
	return fmt.Errorf("place the order: %w", errors.Join(err, catchingUp()))
}

func catchingUp() *fault.Fault {
	return fault.New(fault.SettlementUnknown, "The service reads what has been paid. Nothing was claimed; repeat the same request with the same payment.").
		After(2 * time.Second)
}
