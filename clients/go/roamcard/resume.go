package roamcard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Resumed is a purchase that was taken up again from the journal.
type Resumed struct {
	// Operation is OpCard, OpTopup, OpESIM, OpESIMTopup or OpOrder, and Key its idempotency key.
	Operation, Key string
	// Order is the order; an eSIM's secrets are in ESIM.
	Order *roamcardv1.Order
	// Replayed says that an earlier request paid, and this one paid nothing.
	Replayed bool
	// ESIM is set for OpESIM.
	ESIM *BoughtESIM
	// Err is why its outcome is still not known, or that no money moved.
	Err error
}

// MarshalJSON implements json.Marshaler.
func (r Resumed) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Operation      string            `json:"operation"`
		IdempotencyKey string            `json:"idempotencyKey"`
		Order          *roamcardv1.Order `json:"order"`
		ESIM           *BoughtESIM       `json:"esim,omitempty"`
		Error          *ErrorReport      `json:"error"`
	}{r.Operation, r.Key, r.Order, r.ESIM, reported(r.Err)})
}

// Resume takes up a purchase with the request that the journal has and the same bytes. It is one whose outcome is not
// known, or that was paid and whose caller may not have heard of it: its order comes again. ErrNotFound when the
// journal has none of this wallet and origin under the key.
func (c *Client) Resume(ctx context.Context, key string) (Resumed, error) {
	all, err := c.Purchases(ctx)
	if err != nil {
		return Resumed{}, err
	}
	for _, state := range []EntryState{Signed, Settled} {
		for _, e := range all {
			if e.Key == key && e.State == state {
				r := c.resume(ctx, e)
				return r, r.Err
			}
		}
	}
	return Resumed{}, fmt.Errorf("a payment under %q that could be sent again: %w", key, ErrNotFound)
}

// ResumeAll takes up all purchases of the wallet whose outcome is not known, oldest first.
func (c *Client) ResumeAll(ctx context.Context) ([]Resumed, error) {
	open, err := c.Pending(ctx)
	if err != nil {
		return nil, err
	}
	var all []Resumed
	for _, e := range open {
		all = append(all, c.resume(ctx, e))
	}
	return all, ctx.Err()
}

func (c *Client) resume(ctx context.Context, e Entry) Resumed {
	r := Resumed{Operation: e.Operation, Key: e.Key}
	var asked struct {
		PlanID         string  `json:"planId"`
		OrderID        string  `json:"orderId"`
		AmountUSDCents *uint32 `json:"amountUsdCents"`
	}
	if err := json.Unmarshal(e.Request, &asked); err != nil {
		r.Err = c.keyed(ctx, e.Key, fmt.Errorf("read the request in the journal: %w", err))
		return r
	}
	var bought *Purchase
	switch {
	case e.Operation == OpCard:
		bought, r.Err = c.Cards.Purchase(ctx, e.Key)
	case e.Operation == OpTopup:
		bought, r.Err = c.Cards.topUp(ctx, asked.AmountUSDCents, e.Key)
	case e.Operation == OpESIM:
		if r.ESIM, r.Err = c.ESIM.Purchase(ctx, asked.PlanID, e.Key); r.Err == nil {
			bought = &r.ESIM.Purchase
		}
	case e.Operation == OpESIMTopup:
		bought, r.Err = c.ESIM.TopUp(ctx, asked.OrderID, asked.PlanID, e.Key)
	case strings.HasPrefix(e.Operation, OpOrder):
		r.Order, r.Err = c.Orders.Pay(ctx, e.Key)
	default:
		r.Err = fmt.Errorf("the journal has a purchase of %s, which this client does not know", e.Operation)
	}
	if bought != nil {
		r.Order = bought.Order
	}
	if r.Err != nil {
		r.Err = c.keyed(ctx, e.Key, r.Err)
	}
	r.Replayed = r.Order.GetReplayed()
	return r
}
