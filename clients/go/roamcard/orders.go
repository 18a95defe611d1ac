package roamcard

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Orders are what the wallet has bought, and what it has opened to pay later.
type Orders struct{ client *Client }

// List lists the wallet's orders, newest first, page by page as they are taken; active leaves out those that
// are final.
func (o Orders) List(ctx context.Context, active bool) iter.Seq2[*roamcardv1.Order, error] {
	return pages(func(token string) (*Page[*roamcardv1.Order], error) { return o.Page(ctx, active, token) })
}

// ListKind lists the wallet's orders of one kind, such as esim, newest first, page by page as they are taken.
func (o Orders) ListKind(ctx context.Context, kind string) iter.Seq2[*roamcardv1.Order, error] {
	return o.Find(ctx, OrderFilter{Kind: kind})
}

// OrderFilter selects orders of the wallet. The zero value selects all.
type OrderFilter struct {
	// Active leaves out those that are final.
	Active bool
	// Kind selects those of one kind, such as esim, unless it is empty.
	Kind string
}

// Find lists the wallet's orders that a filter selects, newest first, page by page as they are taken.
func (o Orders) Find(ctx context.Context, of OrderFilter) iter.Seq2[*roamcardv1.Order, error] {
	return pages(func(token string) (*Page[*roamcardv1.Order], error) { return o.page(ctx, of, token) })
}

// Page reads one page of what List lists: the first one, or the one that token names.
func (o Orders) Page(ctx context.Context, active bool, token string) (*Page[*roamcardv1.Order], error) {
	return o.page(ctx, OrderFilter{Active: active}, token)
}

func (o Orders) page(ctx context.Context, of OrderFilter, token string) (*Page[*roamcardv1.Order], error) {
	status := ""
	if of.Active {
		status = "active"
	}
	res, err := o.client.Services.Order.ListOrders(ctx, &roamcardv1.ListOrdersRequest{
		Status: given(status), Kind: given(of.Kind), PageToken: given(token),
	})
	if err != nil {
		return nil, err
	}
	return page(res.GetOrders(), res.NextPageToken), nil
}

// Receipts lists the signed receipts of the wallet's orders that were delivered or refunded, those of the newest orders
// first, page by page as they are taken. They are not verified.
func (o Orders) Receipts(ctx context.Context) iter.Seq2[*roamcardv1.SignedReceipt, error] {
	return pages(func(token string) (*Page[*roamcardv1.SignedReceipt], error) {
		res, err := o.client.Services.Order.ListReceipts(ctx, &roamcardv1.ListReceiptsRequest{PageToken: given(token)})
		if err != nil {
			return nil, err
		}
		return page(res.GetReceipts(), res.NextPageToken), nil
	})
}

// Get reads one order of the wallet.
func (o Orders) Get(ctx context.Context, id string) (*roamcardv1.Order, error) {
	res, err := o.client.Services.Order.GetOrder(ctx, &roamcardv1.GetOrderRequest{OrderId: id})
	return res.GetOrder(), err
}

// CreateCard creates an order for a card that is paid later, by the same wallet, at its payable_url. The same
// key gives the same order; with NoKey, the wallet's open order comes back.
func (o Orders) CreateCard(ctx context.Context, key string) (*roamcardv1.Order, error) {
	ctx, err := underKey(ctx, key)
	if err != nil {
		return nil, err
	}
	res, err := o.client.Services.Card.CreateCardOrder(ctx, &roamcardv1.CreateCardOrderRequest{})
	return res.GetOrder(), err
}

// underKey gives a call its key, unless it is NoKey.
func underKey(ctx context.Context, key string) (context.Context, error) {
	if key == NoKey {
		return ctx, nil
	}
	return WithIdempotencyKey(ctx, key), notEmpty("the idempotency key", key)
}

// CreateTopUp creates an order that funds the wallet's card and is paid later. The key is as in CreateCard.
func (o Orders) CreateTopUp(ctx context.Context, amount Cents, key string) (*roamcardv1.Order, error) {
	ctx, err := underKey(ctx, key)
	if err != nil {
		return nil, err
	}
	cents, err := wire(amount)
	if err != nil {
		return nil, err
	}
	res, err := o.client.Services.Order.CreateOrder(ctx, &roamcardv1.CreateOrderRequest{AmountUsdCents: &cents})
	return res.GetOrder(), err
}

// CreateESIM creates an order for an eSIM that is paid later: a plan, or the cheapest that can be had when planID is
// empty. The key is as in Cards.Purchase.
func (o Orders) CreateESIM(ctx context.Context, planID, key string) (*roamcardv1.Order, error) {
	ctx = WithIdempotencyKey(ctx, key)
	res, err := o.client.Services.Esim.CreateEsimOrder(ctx, &roamcardv1.CreateEsimOrderRequest{PlanId: given(planID)})
	return res.GetOrder(), err
}

// Pay pays an order of the wallet, named by its id or its payable_url, at the price that the order has. It is safe to
// repeat.
func (o Orders) Pay(ctx context.Context, order string) (*roamcardv1.Order, error) {
	if o.client.config.Signer == nil {
		return nil, ErrNoSigner
	}
	if strings.Contains(order, "/") {
		u, err := url.Parse(order)
		if err != nil || u.Scheme+"://"+u.Host != o.client.origin || !isPayPath(u.Path) {
			return nil, denied(ErrTermsMismatch, "%q is no payable_url of %s", order, o.client.origin)
		}
		order = u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	}
	if err := notEmpty("the order", order); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.client.origin+"/pay/"+url.PathEscape(order), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	res, err := o.client.HTTP.Do(req)
	if err != nil {
		return nil, o.client.keyed(ctx, order, unwrapped(err))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, o.client.keyed(ctx, order, poor(problemOf(res), res.Header))
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, o.client.keyed(ctx, order, fmt.Errorf("read the answer: %w", err))
	}
	paid, err := decodeOrder(req.URL.Path, body)
	if err != nil {
		return nil, o.client.keyed(ctx, order, fmt.Errorf("read the order: %w", err))
	}
	return paid, nil
}
