package roamcard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// NewKey makes an idempotency key, where none is at hand: call it once for a purchase, and keep what it gives until the
// purchase is known to have ended. An empty key is no key: it is ErrEmpty.
func NewKey() string { return "go-" + rand.Text() }

// Purchase is a paid order. Keep the key: the same call with it returns the same order.
type Purchase struct {
	// Order says how far it has come, see StatusOf.
	Order *roamcardv1.Order `json:"order"`
	// Replayed says that an earlier request paid, and this one paid nothing.
	Replayed       bool   `json:"replayed"`
	IdempotencyKey string `json:"idempotencyKey"`
	// Transaction is the transfer of the payment on chain.
	Transaction string `json:"transaction,omitempty"`
	// RequestID is what the service's operators ask for.
	RequestID string `json:"requestId,omitempty"`
}

func (c *Client) buy(
	ctx context.Context, key string, call func(ctx context.Context, key string) (*roamcardv1.Order, error),
) (*Purchase, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	if err := notEmpty("the idempotency key", key); err != nil {
		return nil, err
	}
	var raw RawResponse
	order, err := call(WithRawResponse(ctx, &raw), key)
	if err != nil {
		return nil, c.keyed(ctx, key, err)
	}
	bought := &Purchase{Order: order, Replayed: order.GetReplayed(), IdempotencyKey: key,
		Transaction: order.GetPayment().GetTransaction(), RequestID: raw.RequestID()}
	return bought, nil
}

// kindNotAccepted is the refusal of a payer by what kind of account it is.
const kindNotAccepted = "payer_kind_not_accepted"

// keyed gives an error what to call again with, when a payment was signed under the key.
func (c *Client) keyed(ctx context.Context, key string, err error) error {
	b, unread := c.config.Store.Read(context.WithoutCancel(ctx))
	for _, e := range b.Purchases {
		if e.Key == key && e.Origin == c.origin && len(e.Authorizations) > 0 &&
			strings.EqualFold(e.Payer, c.config.Signer.Address()) {
			return keyed(err, key, e, c.config.Now())
		}
	}
	if unread != nil { // then nobody knows
		return keyed(err, key, Entry{}, c.config.Now())
	}
	return err
}

// keyed gives an error what to call again with after a payment was signed, and e is what the journal has of it.
func keyed(err error, key string, e Entry, now time.Time) error {
	_, hasKey := errors.AsType[*AmbiguousPaymentError](err)
	if told, ok := errors.AsType[*APIError](err); ok {
		told.IdempotencyKey = key
		// Another signature of an account of a kind that is not accepted is none, too.
		if told.Code != kindNotAccepted {
			told.RetryAt = e.liveUntil(now)
		}
		told.Retryable = told.Retryable || !told.RetryAt.IsZero()
		hasKey = true
	}
	if told, ok := errors.AsType[*PaymentError](err); ok {
		told.IdempotencyKey = key
		hasKey = true
	}
	if told, ok := errors.AsType[*JournalError](err); ok {
		told.IdempotencyKey = key
		hasKey = true
	}
	if !hasKey {
		return &AmbiguousPaymentError{IdempotencyKey: key, OrderID: e.OrderID, Err: err}
	}
	return err
}

// wire is an amount as the service reads it.
func wire(amount Cents) (uint32, error) {
	if amount < 0 || amount > math.MaxUint32 {
		return 0, fmt.Errorf("%s is not an amount of US dollars that can be paid", amount)
	}
	return uint32(amount), nil
}
