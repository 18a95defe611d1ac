package roamcard

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/roamcard/roamcard/internal/x402"
)

// Verdict is a price whose terms were checked, and what the policy says to it. Nothing is signed.
type Verdict struct {
	Quote Quote
	// Denied says why the policy refuses it whatever anybody approves; nil when it does not.
	Denied error
	// Asks says that the policy asks for approval.
	Asks bool
}

// MarshalJSON implements json.Marshaler.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Quote  Quote        `json:"quote"`
		Denied *ErrorReport `json:"denied"`
		Asks   bool         `json:"asks"`
	}{v.Quote, reported(v.Denied), v.Asks})
}

// Quotes asks for prices, checks their terms, and signs nothing.
type Quotes struct{ client *Client }

// Card asks what a card costs.
func (q Quotes) Card(ctx context.Context) (Verdict, error) {
	return quoted(ctx, func(ctx context.Context) error {
		_, err := q.client.Cards.Purchase(ctx, NewKey())
		return err
	})
}

// TopUp asks what a top-up costs.
func (q Quotes) TopUp(ctx context.Context, amount Cents) (Verdict, error) {
	return quoted(ctx, func(ctx context.Context) error {
		_, err := q.client.Cards.TopUp(ctx, amount, NewKey())
		return err
	})
}

// ESIM asks what a plan costs, the cheapest that can be had when planID is empty.
func (q Quotes) ESIM(ctx context.Context, planID string) (Verdict, error) {
	return quoted(ctx, func(ctx context.Context) error {
		_, err := q.client.ESIM.Purchase(ctx, planID, NewKey())
		return err
	})
}

// ESIMTopUp asks what more data for the eSIM of an order costs: a plan that it takes.
func (q Quotes) ESIMTopUp(ctx context.Context, orderID, planID string) (Verdict, error) {
	return quoted(ctx, func(ctx context.Context) error {
		_, err := q.client.ESIM.TopUp(ctx, orderID, planID, NewKey())
		return err
	})
}

type quoteKey struct{}

// errQuoted ends a call that was to get no further than its price.
var errQuoted = errors.New("quoted")

func quoted(ctx context.Context, buy func(context.Context) error) (v Verdict, err error) {
	err = buy(context.WithValue(ctx, quoteKey{}, &v))
	switch {
	case errors.Is(err, errQuoted):
		return v, nil
	case err == nil:
		err = denied(ErrTermsMismatch, "the service gave the purchase away unpaid")
	}
	return Verdict{}, err
}

// quote gets no further than the price.
func (p *Payer) quote(c call, to *Verdict) error {
	res, err := p.ask(c)
	if err != nil {
		return err
	}
	if !priced(res) {
		return poor(problemOf(res), res.Header)
	}
	if err := p.compareClocks(res); err != nil {
		return err
	}
	q, _, err := p.check(c, res.Header.Get(x402.HeaderRequired))
	if err != nil {
		return err
	}
	*to = Verdict{Quote: q, Denied: p.Policy.cap(q), Asks: p.Policy.asks(q)}
	return errQuoted
}
