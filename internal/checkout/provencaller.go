package checkout

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/roamcard/roamcard/internal/x402"
)

// minSecretKey is the least length of an idempotency key that cannot be guessed.
const minSecretKey = 16

// signedIn reports whether a session of a wallet came with the call.
func (c *Checkout) signedIn(ctx context.Context, wallet x402.Address) bool {
	return c.Session != nil && c.Session(ctx, wallet)
}

// provenCaller reports whether a repeat comes from the payer and not from someone who reads the chain. The
// authorization of a settled payment is public there, so a header made of it proves the payer only while it is valid
// and together with a key that cannot be guessed. An authorization that nobody has seen proves the payer by itself; it
// is never sent. What a smart account signed can be signed again by an owner that was removed and came back, and in
// other bytes, so its settled payment proves nobody; a session does.
func (c *Checkout) provenCaller(ctx context.Context, a attempt, paid PaidOrder) bool {
	now := c.Now()
	if a.signed.Authorization.Nonce == paid.Payment.Authorization.Nonce {
		return a.of == nil && !a.signed.BySmartAccount &&
			now.Before(time.Unix(int64(a.signed.Authorization.ValidBefore), 0)) && utf8.RuneCountInString(a.Key) >= minSecretKey
	}
	if c.Terms.Check(a.signed, paid.Order.Price.USDC(), now) != nil {
		return false
	}
	// While the chain does not answer, no secret is shown; the same request may be repeated.
	unseen, err := c.unseen(ctx, a.signed.Authorization)
	return err == nil && unseen
}
