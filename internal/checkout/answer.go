package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// repeat answers an existing purchase from its record, once its payment is decided.
func (c *Checkout) repeat(ctx context.Context, a attempt, o order.Order) (PaidOrder, error) {
	paid, err := c.recorded(ctx, a.Purchase, o)
	paid.ProvenCaller = err == nil && (c.signedIn(ctx, o.Owner) || c.provenCaller(ctx, a, paid))
	return paid, err
}

// recorded answers a purchase from the record of the order that it has claimed.
func (c *Checkout) recorded(ctx context.Context, p Purchase, o order.Order) (PaidOrder, error) {
	if o.Fingerprint != p.fingerprint() {
		return PaidOrder{}, keyReused(o.ID)
	}
	if o.Status != order.Settling {
		return c.decided(ctx, p, o, true)
	}
	timeout, leave := c.waiting(o.ID)
	defer leave()
	return c.await(ctx, p, o.ID, nil, timeout)
}

// await waits until the order's payment is decided, or for the timeout; the payment continues either way. here receives
// the decision when the order's job started in this process. It is nil for a repeat, which reads the order at once.
func (c *Checkout) await(
	ctx context.Context, p Purchase, id order.ID, here <-chan payment.Decided, wait time.Duration,
) (PaidOrder, error) {
	wake, stop := c.Store.Watch(id)
	defer stop()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	// A notification may be lost: the order is read again, less and less often.
	const often, seldom = 500 * time.Millisecond, 5 * time.Second
	pause := often
	if here != nil {
		pause = seldom // here reports what happens to the order
	}
	poll := time.NewTimer(pause)
	defer poll.Stop()
	replayed := here == nil
	for looking := replayed; ; looking = true {
		if looking {
			o, err := c.Store.Find(ctx, id)
			if err != nil {
				return PaidOrder{}, fmt.Errorf("read the order: %w", errors.Join(err, unknownYet(id)))
			}
			if o.Status != order.Settling {
				return c.decided(ctx, p, o, replayed)
			}
		}
		changed := wake
		if here != nil {
			changed = nil // here reports the change
		}
		select {
		case paid, told := <-here:
			if told {
				return c.answer(ctx, p, paid.Order, paid.Payment, false)
			}
			here, pause = nil, often
			poll.Reset(pause)
		case <-changed:
		case <-poll.C:
			pause = min(2*pause, seldom)
			poll.Reset(pause)
		case <-timeout.C:
			c.Metrics.Settled(ctx, string(p.Kind), "unknown")
			return PaidOrder{}, unknownYet(id)
		case <-ctx.Done():
			return PaidOrder{}, fmt.Errorf("wait for the settlement: %w", errors.Join(ctx.Err(), unknownYet(id)))
		}
	}
}

// decided answers for an order whose payment is decided.
func (c *Checkout) decided(ctx context.Context, p Purchase, o order.Order, replayed bool) (PaidOrder, error) {
	if o.ExpiresAt != nil {
		// The claim came too late, even if expiry is not recorded yet.
		return PaidOrder{}, expired(o.ID)
	}
	pay, err := c.payment(ctx, o.ID)
	if err != nil {
		return PaidOrder{}, fmt.Errorf("read the payment: %w", errors.Join(err, unknownYet(o.ID)))
	}
	return c.answer(ctx, p, o, pay, replayed)
}

// answer is the order of a decided payment, or a challenge when the payment is dead.
func (c *Checkout) answer(
	ctx context.Context, p Purchase, o order.Order, pay payment.Payment, replayed bool,
) (PaidOrder, error) {
	if o.RefundReason != "" {
		return PaidOrder{}, refunding(o)
	}
	if o.Status.Paid() {
		if replayed {
			c.Metrics.Replayed(ctx, string(p.Kind))
		}
		return c.paid(ctx, o, pay, replayed)
	}
	offer, err := c.offer(ctx, p, nil)
	if err != nil {
		return PaidOrder{}, err
	}
	return PaidOrder{}, c.deadChallenge(p, offer, pay)
}

// paid is an order whose payment has arrived, with its refund if there is one.
func (c *Checkout) paid(ctx context.Context, o order.Order, pay payment.Payment, replayed bool) (PaidOrder, error) {
	paid := PaidOrder{Order: o, Payment: pay, Replayed: replayed, ProvenCaller: !replayed}
	refunds, err := c.refunds(ctx, []order.Order{o})
	if err != nil {
		return PaidOrder{}, errors.Join(err, unknownYet(o.ID))
	}
	if r, ok := refunds[o.ID]; ok {
		paid.Refund = &r
	}
	return paid, nil
}

func unknownYet(id order.ID) *fault.Fault {
	return fault.New(fault.SettlementUnknown, "The payment is on its way.").About(string(id)).After(2 * time.Second)
}

func authorizationReused() *fault.Fault {
	return fault.New(fault.AuthorizationAlreadyUsed,
		"This authorization pays for another request. Sign a new one for this key.")
}

func keyReused(id order.ID) *fault.Fault {
	return fault.New(fault.IdempotencyKeyReused, "This idempotencyKey was used with another body.").About(string(id))
}
