package checkout

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/roamcard/roamcard/internal/payment"
)

// minSecretKey is the least length of an idempotency key that cannot be guessed.
const minSecretKey = 16

// provenCaller reports whether a repeat comes from the payer and not from someone who reads the chain. The
// authorization of a settled payment is public there, so a header made of it proves the payer only while it is valid
// and together with a key that cannot be guessed. An authorization that nobody has seen proves the payer by itself; it
// is never sent.
func (c *Checkout) provenCaller(ctx context.Context, p Purchase, pay payment.Signed, paid PaidOrder) bool {
	now := c.Now()
	if pay.Authorization.Nonce == paid.Payment.Authorization.Nonce {
		return p.of == nil && now.Before(time.Unix(int64(pay.Authorization.ValidBefore), 0)) &&
			utf8.RuneCountInString(p.Key) >= minSecretKey
	}
	if c.Terms.Check(pay, paid.Order.Price.USDC(), now) != nil {
		return false
	}
	// While the chain does not answer, no secret is shown; the same request may be repeated.
	unseen, err := c.unseen(ctx, pay)
	return err == nil && unseen
}
