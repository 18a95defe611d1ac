package checkout

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

// throttle counts a purchase that is not known yet, by its payer, who has signed it, and by where it comes
// from. Repeats never get here: an answer that is owed is given however often it is asked for.
func (c *Checkout) throttle(ctx context.Context, payer x402.Address) (leave func(), err error) {
	for _, count := range []struct {
		class limit.Class
		name  string
	}{
		{limit.PaidAddress, limit.Address(ctx)},
		{limit.Paid, payer.Lower()},
		{limit.Orders, payer.Lower()},
	} {
		if _, _, err := c.Limits.Take(count.class, count.name); err != nil {
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
