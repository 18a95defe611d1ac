package checkout

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/roamcard/roamcard/internal/payment"
)

// hardKey is the length from which nobody guesses an idempotency key.
const hardKey = 16

// provenCaller says whether a repeat comes from the payer and not from someone who reads the chain. Once a
// payment is settled, its whole authorization is public there: a header made of it proves the payer only
// together with a key that nobody guesses, while it is valid. An authorization that nobody has seen
// proves the payer by itself; it is never sent.
func (c *Checkout) provenCaller(ctx context.Context, p Purchase, pay payment.Signed, sold PaidOrder) bool {
	now := c.Now()
	if pay.Authorization.Nonce == sold.Payment.Authorization.Nonce {
		return p.of == nil && now.Before(time.Unix(int64(pay.Authorization.ValidBefore), 0)) &&
			utf8.RuneCountInString(p.Key) >= hardKey
	}
	if c.Terms.Check(pay, sold.Order.Price.USDC(), now) != nil {
		return false
	}
	// Whatever cannot be looked up is not shown; the same request may ask again.
	unseen, err := c.unseen(ctx, pay)
	return err == nil && unseen
}
