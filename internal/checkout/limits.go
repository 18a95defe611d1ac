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

// A request with a payment is counted by its address before its signature is checked, because wallets cost nothing; by
// its payer once the signature is verified; and as an unpaid request when the payment is not authentic. A repeat of a
// claimed purchase is not counted: the buyer may ask for the answer any number of times.

// countPayment counts a presented payment by its address. Above the limit, err is the Refusal, unless the payment names
// a claimed purchase. Then only excess is the Refusal; it becomes the answer if the payment is not authentic.
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

// unproven is the answer to a payment that is not authentic, within the limit of such payments.
func (c *Checkout) unproven(ctx context.Context, excess error, answer func() error) error {
	if excess != nil {
		return excess
	}
	if err := c.Limits.Unproven(ctx); err != nil {
		return err
	}
	return answer()
}

// countClaim counts a verified payment by its payer, before it claims anything. Only verified payments count: a spent
// payment is public, and replaying it must not use up the payer's limits. created says that the order exists. leave
// ends the claim.
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

// mostUndecided is how many payments of a payer may be undecided at once: of a smart account one, because its owner can
// make all of them void.
func (c *Checkout) mostUndecided(pay payment.Signed) int {
	if pay.BySmartAccount {
		return 1
	}
	return c.Limits.Most(limit.Undecided)
}

// undecided is the answer to a payer with too many undecided payments.
func undecided() *fault.Fault {
	return fault.New(fault.PaymentsUndecided, "Wait until the earlier payments of this wallet are settled or void. "+
		"Nothing was claimed; repeat the same request.").
		After(5 * time.Second)
}

// uncovered is the answer to a payer whose money is promised to its undecided payments. Once those are decided, this
// one either moves, or is refused for the balance.
func uncovered() *fault.Fault {
	return fault.New(fault.PaymentsUndecided, "The wallet's balance does not cover this payment and its earlier ones, "+
		"which are not settled yet. Wait until they are settled or void. Nothing was claimed; repeat the same request.").
		After(2 * time.Second)
}

// claimHits are the limits that a claim counts in the database, over all processes.
func (c *Checkout) claimHits(pay payment.Signed, created bool) []limit.Hit {
	payer := pay.Authorization.From.Lower()
	hits := c.Limits.Hit(limit.Paid, payer)
	if !created {
		hits = append(hits, c.Limits.Hit(limit.Orders, payer)...)
	}
	return hits
}

// countOrder counts an order before it is created, by the caller's address. uncount reverts the count when the order
// existed.
func (c *Checkout) countOrder(ctx context.Context) (uncount func(), err error) {
	address := limit.Address(ctx)
	if _, _, err := c.Limits.Take(limit.OrdersAddress, address); err != nil {
		return nil, err
	}
	return func() { c.Limits.Give(limit.OrdersAddress, address) }, nil
}

// bounds limit an owner's new order.
func (c *Checkout) bounds(owner x402.Address, alone bool) Bounds {
	return Bounds{ReuseUnpaid: alone, MaxUnpaid: c.MaxUnpaid, Hits: c.Limits.Hit(limit.Orders, owner.Lower())}
}

// longestPause is the longest delay of a repeat.
const longestPause = time.Second

// pace reverts the count of a repeat, and delays it when the same order is requested very often, so that repeats cost
// the caller time.
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

// crowdedWait is how long a repeat waits for a settlement that many copies of it wait for.
const crowdedWait = 500 * time.Millisecond

// waiting is how long a repeat may wait for its settlement. Each waiting request polls the order, so only some copies
// of it may wait for long; the others soon get settlement_unknown.
func (c *Checkout) waiting(id order.ID) (wait time.Duration, leave func()) {
	leave, err := c.Limits.Enter(limit.Waiting, string(id))
	if err != nil {
		return min(c.Wait, crowdedWait), func() {}
	}
	return c.Wait, leave
}
