package roamcard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// Config is what a Client is made of.
type Config struct {
	// BaseURL is the service's origin.
	BaseURL string
	// Signer is the wallet that pays and owns. Nil makes a client that only reads what is public.
	Signer Signer
	// Policy decides what is paid; the zero policy pays nothing.
	Policy Policy
	// Journal remembers what was signed. Nil remembers for as long as the program runs, which does not
	// survive a crash: give a FileJournal to anything that matters.
	Journal Journal
	// OperatorToken is for the routes of operators.
	OperatorToken Secret
	// HTTP is the transport below the payer; nil means http.DefaultTransport.
	HTTP http.RoundTripper
	// Timeout bounds one call, over all its replays; zero means two minutes.
	Timeout time.Duration
	// AnswerWithin bounds one answer to a payment; zero means 30 seconds.
	AnswerWithin time.Duration
	// MaxReplays bounds how often the same bytes are sent again; nil means 4.
	MaxReplays *int
	// Poll is how often something is looked at while it is waited for; zero means two seconds.
	Poll   time.Duration
	Events *Events
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Client buys, and serves what was bought. It is safe for concurrent use.
type Client struct {
	// The services as they are generated, with payment, sign-in and this package's errors in place.
	Card     roamcardv1connect.CardServiceClient
	Esim     roamcardv1connect.EsimServiceClient
	Order    roamcardv1connect.OrderServiceClient
	Auth     roamcardv1connect.AuthServiceClient
	Runtime  roamcardv1connect.RuntimeServiceClient
	Operator roamcardv1connect.OperatorServiceClient
	Activity roamcardv1connect.ActivityServiceClient

	// HTTP is a client for the REST routes of the same service, which pays like all the rest.
	HTTP *http.Client

	config  Config
	origin  string
	session session

	publishedMu sync.Mutex
	published   *roamcardv1.GetConfigResponse
}

// New makes a client. It makes no call.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
		return nil, fmt.Errorf("%q is not an origin like https://api.example.com", c.BaseURL)
	}
	if c.Journal == nil {
		c.Journal = NewMemoryJournal()
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	if c.Poll == 0 {
		c.Poll = 2 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	client := &Client{config: c, origin: u.Scheme + "://" + u.Host}
	client.HTTP = &http.Client{Transport: client.transport(), Timeout: c.Timeout}
	opts := []connect.ClientOption{connect.WithProtoJSON(), connect.WithInterceptors(client.authorized(), explain())}
	client.Card = roamcardv1connect.NewCardServiceClient(client.HTTP, client.origin, opts...)
	client.Esim = roamcardv1connect.NewEsimServiceClient(client.HTTP, client.origin, opts...)
	client.Order = roamcardv1connect.NewOrderServiceClient(client.HTTP, client.origin, opts...)
	client.Auth = roamcardv1connect.NewAuthServiceClient(client.HTTP, client.origin, opts...)
	client.Runtime = roamcardv1connect.NewRuntimeServiceClient(client.HTTP, client.origin, opts...)
	client.Operator = roamcardv1connect.NewOperatorServiceClient(client.HTTP, client.origin, opts...)
	client.Activity = roamcardv1connect.NewActivityServiceClient(client.HTTP, client.origin, opts...)
	return client, nil
}

func (c *Client) transport() http.RoundTripper {
	if c.config.Signer == nil {
		if c.config.HTTP != nil {
			return c.config.HTTP
		}
		return http.DefaultTransport
	}
	return &Payer{
		Next: c.config.HTTP, Signer: c.config.Signer, Policy: c.config.Policy, Journal: c.config.Journal,
		AnswerWithin: c.config.AnswerWithin, MaxReplays: c.config.MaxReplays, Events: c.config.Events, Now: c.config.Now,
		PayTo: func(ctx context.Context) (string, error) {
			published, err := c.Config(ctx)
			return published.GetNetwork().GetPayTo(), err
		},
	}
}

// explain gives errors the types of this package.
func explain() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			if err != nil {
				return res, explained(err)
			}
			return res, nil
		}
	}
}

// Config is the service's public settings, asked for once.
func (c *Client) Config(ctx context.Context) (*roamcardv1.GetConfigResponse, error) {
	c.publishedMu.Lock()
	defer c.publishedMu.Unlock()
	if c.published == nil {
		published, err := c.Runtime.GetConfig(ctx, &roamcardv1.GetConfigRequest{})
		if err != nil {
			return nil, fmt.Errorf("read the service's settings: %w", err)
		}
		c.published = published
	}
	return c.published, nil
}

// ErrNoSigner says that a call needs a wallet and the client has none.
var ErrNoSigner = errors.New("the client has no signer")

// NewKey makes an idempotency key. Keep it until the purchase is known to have ended.
func NewKey() string { return "go-" + rand.Text() }

// BuyCard buys a card at the published price. The same key gives the same order; an empty key is a new
// purchase, whose key is in the error when its outcome is unclear.
func (c *Client) BuyCard(ctx context.Context, key string) (*roamcardv1.Order, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	published, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	ctx = expecting(ctx, Cents(published.GetCard().GetWalletPaymentUsdCents()))
	res, err := c.Card.PurchaseCard(ctx, &roamcardv1.PurchaseCardRequest{IdempotencyKey: orNew(key)})
	return res.GetOrder(), err
}

// TopUp adds credit to the wallet's card: amount is what is paid, from which the service keeps its load fee.
func (c *Client) TopUp(ctx context.Context, amount Cents, key string) (*roamcardv1.Order, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	cents := uint32(amount)
	res, err := c.Card.TopUpCard(expecting(ctx, amount), &roamcardv1.TopUpCardRequest{IdempotencyKey: orNew(key), AmountUsdCents: &cents})
	return res.GetOrder(), err
}

// Orders lists the wallet's orders, newest first; active leaves out those that are final.
func (c *Client) Orders(ctx context.Context, active bool) ([]*roamcardv1.Order, error) {
	req := &roamcardv1.ListOrdersRequest{}
	if active {
		status := "active"
		req.Status = &status
	}
	var all []*roamcardv1.Order
	for {
		res, err := c.Order.ListOrders(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, res.GetOrders()...)
		if res.NextPageToken == nil {
			return all, nil
		}
		req.PageToken = res.NextPageToken
	}
}

// GetOrder reads one order of the wallet.
func (c *Client) GetOrder(ctx context.Context, id string) (*roamcardv1.Order, error) {
	res, err := c.Order.GetOrder(ctx, &roamcardv1.GetOrderRequest{OrderId: id})
	return res.GetOrder(), err
}

// Cards lists the wallet's cards.
func (c *Client) Cards(ctx context.Context) ([]*roamcardv1.Card, error) {
	res, err := c.Card.ListCards(ctx, &roamcardv1.ListCardsRequest{})
	return res.GetCards(), err
}

// Balance reads what is on a card, from the issuer.
func (c *Client) Balance(ctx context.Context, cardID string) (*roamcardv1.GetCardBalanceResponse, error) {
	return c.Card.GetCardBalance(ctx, &roamcardv1.GetCardBalanceRequest{Id: cardID})
}

// WaitUntilActive waits until the card of an order can be used, and returns its id.
func (c *Client) WaitUntilActive(ctx context.Context, orderID string) (cardID string, err error) {
	var at *roamcardv1.Order
	err = c.WatchOrder(ctx, orderID, func(o *roamcardv1.Order) bool {
		at = o
		return o.GetIssuance().GetStatus() != "active"
	})
	if err != nil {
		return "", fmt.Errorf("wait for the card: %w", err)
	}
	if id := at.GetIssuance().GetCardId(); id != "" && at.GetIssuance().GetStatus() == "active" {
		return id, nil
	}
	return "", fmt.Errorf("order %s is %s: no card comes of it by itself", orderID, at.GetStatus())
}

// stateOf is what may change about an order.
func stateOf(o *roamcardv1.Order) string {
	return strings.Join([]string{o.GetStatus(), o.GetIssuance().GetStatus(), o.GetTopup().GetStatus(), o.GetDelivery().GetStatus()}, " ")
}

func final(status string) bool {
	switch status {
	case "fulfilled", "refunded", "expired", "operator_review":
		return true
	}
	return false
}

// mayPass says that a failure to read may pass by itself.
func mayPass(err error) bool {
	if told, ok := errors.AsType[*APIError](err); ok {
		return told.Retryable
	}
	return connect.CodeOf(err) == connect.CodeUnavailable
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func orNew(key string) string {
	if key == "" {
		return NewKey()
	}
	return key
}
