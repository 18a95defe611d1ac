package checkout

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// throttle counts a payment that is about to claim something, by its payer. It is verified before: what a payer has
// signed and spent is public, and whoever repeats it must not use up the payer's own limits. The address it comes from
// was counted before the signature was looked at. created says that the order exists already.
func (c *Checkout) throttle(ctx context.Context, payer x402.Address, created bool) (leave func(), err error) {
	if _, _, err := c.Limits.Take(limit.Paid, payer.Lower()); err != nil {
		return nil, err
	}
	if !created {
		if _, _, err := c.Limits.Take(limit.Orders, payer.Lower()); err != nil {
			return nil, err
		}
	}
	return c.Limits.Enter(limit.InFlight, payer.Lower())
}

// undecided tells a payer to wait until the chain has decided an earlier payment.
func undecided() *fault.Fault {
	return fault.New(fault.PaymentsUndecided, "Wait until the earlier payments of this wallet are settled or void. Nothing was claimed; repeat the same request.").
		After(5 * time.Second)
}

// turns is what a claim counts where all processes meet.
func (c *Checkout) turns(pay payment.Signed, created bool) []limit.Turn {
	payer := pay.Authorization.From.Lower()
	turns := c.Limits.Turn(limit.Paid, payer)
	if !created {
		turns = append(turns, c.Limits.Turn(limit.Orders, payer)...)
	}
	return turns
}

// longestPause is how long a repeat is held back at most.
const longestPause = time.Second

// pace takes a repeat out of the count of payments, and holds it back when the same order was asked for very
// often: it costs as much to answer as it costs the caller to wait.
func (c *Checkout) pace(ctx context.Context, excess error, o order.Order) {
	address := limit.Address(ctx)
	if excess == nil {
		c.Limits.Give(limit.PaidAddress, address)
	}
	state, _, err := c.Limits.Take(limit.Repeat, address+"/"+string(o.ID))
	if err == nil {
		return
	}
	pause := time.NewTimer(min(state.RetryAfter, longestPause))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// crowdedWait is how long a repeat waits for a settlement that enough others wait for.
const crowdedWait = 500 * time.Millisecond

// waiting is how long a repeat may wait for its settlement. Each looks at the order again and again, so only so
// many copies of it may; the others are soon told that the payment is on its way.
func (c *Checkout) waiting(o order.Order) (most time.Duration, leave func()) {
	if o.Status != order.Settling {
		return c.Wait, func() {}
	}
	leave, err := c.Limits.Enter(limit.Waiting, string(o.ID))
	if err != nil {
		return min(c.Wait, crowdedWait), func() {}
	}
	return c.Wait, leave
}
