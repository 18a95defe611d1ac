package roamcard

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// OpenCardOrder opens an order for a card that is paid later, by the same wallet, at its payable_url. The same
// key gives the same order; without one, the wallet's open order comes back.
func (c *Client) OpenCardOrder(ctx context.Context, key string) (*roamcardv1.Order, error) {
	if key != "" {
		ctx = WithIdempotencyKey(ctx, key)
	}
	res, err := c.Card.CreateCardOrder(ctx, &roamcardv1.CreateCardOrderRequest{})
	return res.GetOrder(), err
}

// OpenTopUpOrder opens an order that funds the wallet's card and is paid later.
func (c *Client) OpenTopUpOrder(ctx context.Context, amount Cents, key string) (*roamcardv1.Order, error) {
	if key != "" {
		ctx = WithIdempotencyKey(ctx, key)
	}
	cents, err := wire(amount)
	if err != nil {
		return nil, err
	}
	res, err := c.Order.CreateOrder(ctx, &roamcardv1.CreateOrderRequest{AmountUsdCents: &cents})
	return res.GetOrder(), err
}

// Pay pays an order that exists, named by its id or its payable_url. It is safe to repeat.
func (c *Client) Pay(ctx context.Context, order string) (*roamcardv1.Order, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	if strings.Contains(order, "/") {
		u, err := url.Parse(order)
		if err != nil || u.Scheme+"://"+u.Host != c.origin || !isPayPath(u.Path) {
			return nil, denied(ErrTermsMismatch, "%q is no payable_url of %s", order, c.origin)
		}
		order = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.origin+"/pay/"+url.PathEscape(order), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, unwrapped(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, poor(problemOf(res), res.Header)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	o := &roamcardv1.Order{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, o); err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	return o, nil
}
