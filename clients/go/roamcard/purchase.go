package roamcard

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// NewKey makes an idempotency key. Keep it until the purchase is known to have ended.
func NewKey() string { return "go-" + rand.Text() }

// Purchase is a paid order. Keep the key: the same call with it returns the same order.
type Purchase struct {
	// Order says with GetReplayed whether an earlier request paid it.
	Order          *roamcardv1.Order
	IdempotencyKey string
	// Transaction is the transfer of the payment on chain.
	Transaction string
	// RequestID is what the service's operators ask for.
	RequestID string
}

func (c *Client) buy(ctx context.Context, key string, call func(ctx context.Context, key string) (*roamcardv1.Order, error)) (*Purchase, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	if key == "" {
		key = NewKey()
	}
	var raw RawResponse
	order, err := call(WithRawResponse(ctx, &raw), key)
	if err != nil {
		return nil, err
	}
	bought := &Purchase{Order: order, IdempotencyKey: key, Transaction: order.GetPayment().GetTransaction(), RequestID: raw.RequestID()}
	return bought, nil
}

// wire is an amount as the service reads it.
func wire(amount Cents) (uint32, error) {
	if amount < 0 || amount > math.MaxUint32 {
		return 0, fmt.Errorf("%s is not an amount of US dollars that can be paid", amount)
	}
	return uint32(amount), nil
}
