package paymenttest

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/payment"
)

// Decide has a collector look at a payment as its job does, again and again, until the chain has decided or time is up.
func Decide(ctx context.Context, c *payment.Collector, p payment.Payment, pause, within time.Duration) payment.Verdict {
	for deadline := time.Now().Add(within); ; time.Sleep(pause) {
		verdict := c.Collect(ctx, p)
		if verdict.State == payment.Settled || verdict.State == payment.Void || !time.Now().Add(pause).Before(deadline) {
			return verdict
		}
	}
}
