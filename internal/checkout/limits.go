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

// A request that brings a payment is counted by where it comes from before its signature is looked at, because
// wallets cost nothing; by its payer once that is known; and as an unpaid one when the payment is not authentic.
// What asks for an order that is claimed is counted nowhere: an answer that is owed is given however often it is
// asked for.

// countPayment counts a payment that is presented by its address. When there were too many of them the error is a
// Refusal, unless the payment names a purchase that is claimed. In that case only excess is the Refusal, and the
// answer as long as the payment is not authentic.
func (c *Checkout) countPayment(ctx context.Context, p Purchase, payer x402.Address) (excess, err error) {
	if _, _, excess = c.Limits.Take(limit.PaidAddress, limit.Address(ctx)); excess == nil {
		return nil, nil
	}
	claimed, err := c.isClaimed(ctx, p, payer)
	if err == nil && !claimed {
		limit.NotUnpaid(ctx)
		err = excess
	}
	return excess, err
}

// unproven is the answer to a payment that is not authentic, unless there were too many of them.
func (c *Checkout) unproven(ctx context.Context, excess error, answer func() error) error {
	if excess != nil {
		return excess
	}
	if err := c.Limits.Unproven(ctx); err != nil {
		return err
	}
	return answer()
}

// countClaim counts a payment that is about to claim something, by its payer. It is verified before: what a payer has
// signed and spent is public, and whoever repeats it must not use up the payer's own limits. The address it comes from
// was counted before the signature was looked at. created says that the order exists already. leave ends the claim.
func (c *Checkout) countClaim(payer x402.Address, created bool) (leave func(), err error) {
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
	return fault.New(fault.PaymentsUndecided, "Wait until the earlier payments of this wallet are settled or void. "+
		"Nothing was claimed; repeat the same request.").
		After(5 * time.Second)
}

// claimTurns is what a claim counts where all processes meet.
func (c *Checkout) claimTurns(pay payment.Signed, created bool) []limit.Turn {
	payer := pay.Authorization.From.Lower()
	turns := c.Limits.Turn(limit.Paid, payer)
	if !created {
		turns = append(turns, c.Limits.Turn(limit.Orders, payer)...)
	}
	return turns
}

// mostUndecided is how many payments of a payer may be undecided; zero is any number.
func (c *Checkout) mostUndecided() int { return c.Limits.Most(limit.Undecided) }

// countOrder counts an order that is about to be created, by the address that asks for it. uncount takes it out of the
// count again, when the order existed.
func (c *Checkout) countOrder(ctx context.Context) (uncount func(), err error) {
	address := limit.Address(ctx)
	if _, _, err := c.Limits.Take(limit.OrdersAddress, address); err != nil {
		return nil, err
	}
	return func() { c.Limits.Give(limit.OrdersAddress, address) }, nil
}

// bounds are what an owner's new order has to fit into.
func (c *Checkout) bounds(owner x402.Address, alone bool) Bounds {
	return Bounds{Alone: alone, MostUnpaid: c.MostUnpaid, Turns: c.Limits.Turn(limit.Orders, owner.Lower())}
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
