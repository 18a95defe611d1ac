package esim

import (
	"context"
	"errors"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
)

// ErrSent says that an order was sent under a reference before, and ErrTaken that an order at the supplier belongs to
// another reference.
var (
	ErrSent  = errors.New("an order was sent under this reference")
	ErrTaken = errors.New("the supplier's order belongs to another reference")
)

// Journal keeps what was sent to a supplier that takes no reference of ours, so that an order of its list is given to
// the reference that made it, or to none. It survives the process, and every process that orders on the same account
// shares it: an order of a process that it does not know of could be taken for somebody else's.
type Journal interface {
	// Begin keeps an order from before it is sent. ErrSent when its reference was begun, by whatever order.
	Begin(ctx context.Context, s Sent) error
	// Name keeps the supplier's own name for what a reference made. ErrTaken when another reference has it, or this one
	// has another; the same again changes nothing.
	Name(ctx context.Context, ref fulfilment.Ref, account string) error
	// Sent finds what was sent under a reference. fulfilment.ErrNoRef when nothing was.
	Sent(ctx context.Context, ref fulfilment.Ref) (Sent, error)
	// SentBetween lists what was sent for a plan from one time to another, both included. What was begun before the call
	// is in it.
	SentBetween(ctx context.Context, code string, from, to time.Time) ([]Sent, error)
	// Named finds what was sent for orders, by the supplier's own names of them. What no reference has is left out.
	Named(ctx context.Context, accounts []string) (map[string]Sent, error)
}

// Sent is one order as it was sent.
type Sent struct {
	Ref  fulfilment.Ref
	Code string
	// Cost is the total that the supplier quoted for it.
	Cost money.USDC
	At   time.Time
	// Account is the supplier's own name for it; empty until that is known.
	Account string
	// Onto is the supplier's name for the order whose eSIM it adds a plan to; empty for an eSIM of its own.
	Onto string
}
