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
	// Ready is nil once the transfers to the payee have been read up to the chain's head, as far as is known. A
	// *fault.Fault in its error, and in that of Read, says whose fault it is that they cannot be read.
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
	told := catchingUp
	err := c.History.Ready(ctx)
	if err == nil {
		err = c.History.Read(ctx, payer)
		if _, known := fault.As(err); known {
			told = heldUp
		}
	}
	if err != nil {
		return fmt.Errorf("see whether the record of payments is whole: %w", errors.Join(told(err), err))
	}
	return nil
}

// known keeps a payer from being asked for a payment that may have been made.
func (c *Checkout) known(ctx context.Context) error {
	if c.History == nil {
		return nil
	}
	if err := c.History.Ready(ctx); err != nil {
		detail := unread(err) + " Pay nothing yet; repeat the request in a moment."
		told := fault.New(fault.DependencyDown, detail).After(2 * time.Second)
		return fmt.Errorf("see whether the record of payments is whole: %w", errors.Join(told, err))
	}
	return nil
}

// lost is the answer to a claim that found another history.
func (c *Checkout) lost(err error) error {
	if c.History != nil {
		c.History.Lost()
	}
	return fmt.Errorf("place the order: %w", errors.Join(catchingUp(err), err))
}

func catchingUp(err error) *fault.Fault {
	detail := unread(err) + " Nothing was claimed; repeat the same request with the same payment."
	return fault.New(fault.SettlementUnknown, detail).After(2 * time.Second)
}

// unread says why the record of payments is not whole yet.
func unread(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Detail
	}
	return "The service reads what has been paid."
}
