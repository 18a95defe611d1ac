package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/mutant"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// A request that brings a payment is counted by where it comes from before its signature is looked at, because
// wallets cost nothing; by its payer once that is known; and as an unpaid one when the payment is not authentic.
// What asks for an order that is claimed is counted nowhere: an answer that is owed is given however often it is
// asked for.

// admit counts a payment that is presented by its address. When there were too many of them the error is a
// Refusal, unless the payment names a purchase that is claimed. In that case only excess is the Refusal, and the
// answer as long as the payment is not authentic.
func (c *Checkout) admit(ctx context.Context, p Purchase, payer x402.Address) (excess, err error) {
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

// isClaimed says that somebody, who names this payer, asks for an order that is claimed.
func (c *Checkout) isClaimed(ctx context.Context, p Purchase, payer x402.Address) (bool, error) {
	if p.of != nil {
		return p.of.Status != order.PaymentRequired && p.of.Owner == payer, nil
	}
	known, err := c.Store.FindByKey(ctx, p.Kind, payer, p.Key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look the purchase up: %w", err)
	}
	return known.Status != order.PaymentRequired, nil
}

// unproven is the answer to a payment that is not authentic, unless there were too many of them.
func (c *Checkout) unproven(ctx context.Context, excess error, answer func() error) error {
	if excess != nil {
		return excess
	}
	if err := c.Limits.Unproven(ctx); err != nil && !mutant.PaymentsUncounted {
		return err
	}
	return answer()
}

// throttle counts a payment that is to claim something, by its payer, who has signed it. created says that the
// order exists already.
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

// waiting is ctx for a repeat that waits for a settlement. Each looks at the order again and again, so only so
// many copies of it may; the others are soon told that the payment is on its way.
func (c *Checkout) waiting(ctx context.Context, id order.ID) (context.Context, context.CancelFunc) {
	leave, err := c.Limits.Enter(limit.Waiting, string(id))
	if err != nil {
		return context.WithTimeout(ctx, crowdedWait)
	}
	return ctx, leave
}
