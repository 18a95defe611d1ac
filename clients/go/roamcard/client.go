package roamcard

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
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
	// Store keeps what was signed. Nil keeps it for as long as the program runs, which does not survive a
	// crash: give a FileStore to anything that matters.
	Store Store
	// OperatorToken is for the routes of operators, which are in Client.Admin.
	OperatorToken Secret
	// HTTP is the transport below the payer; nil means http.DefaultTransport.
	HTTP http.RoundTripper
	// Timeout bounds one answer; zero means 30 seconds, which is longer than the service waits for anything. What
	// bounds a call over all its replays is its context.
	Timeout time.Duration
	// MaxReplays bounds how often the same bytes are sent again after an unclear answer; nil means 4.
	MaxReplays *int
	// Poll is how often something is looked at while it is waited for, where streams do not get through; zero
	// means two seconds.
	Poll   time.Duration
	Events *Events
	// Logger gets a line for each event of a payment; nil is nobody.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Client buys, and serves what was bought. It is safe for concurrent use.
type Client struct {
	// The services as they are generated, with payment, sign-in and this package's errors in place.
	Card    roamcardv1connect.CardServiceClient
	Esim    roamcardv1connect.EsimServiceClient
	Order   roamcardv1connect.OrderServiceClient
	Auth    roamcardv1connect.AuthServiceClient
	Runtime roamcardv1connect.RuntimeServiceClient
	// Discovery is what the service publishes, Quote its prices, Admin what its operators do.
	Discovery Discovery
	Quote     Quotes
	Admin     Admin

	// HTTP is a client for the REST routes of the same service, which pays like all the rest. As with every
	// http.Client without a timeout, what bounds a request is its context.
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
	if c.Store == nil {
		c.Store = NewMemoryStore()
	}
	c.Timeout, c.Poll = cmp.Or(c.Timeout, standardTimeout), cmp.Or(c.Poll, 2*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger != nil {
		c.Events = LogEvents(c.Logger, c.Events)
	}
	client := &Client{config: c, origin: u.Scheme + "://" + u.Host}
	client.HTTP = &http.Client{
		Transport: recorder{client.transport()},
		// A redirect would carry the payment to an address that nobody checked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	opts := []connect.ClientOption{connect.WithProtoJSON(), connect.WithInterceptors(client.authorized(), explain(), bounded(c.Timeout))}
	client.Card = roamcardv1connect.NewCardServiceClient(client.HTTP, client.origin, opts...)
	client.Esim = roamcardv1connect.NewEsimServiceClient(client.HTTP, client.origin, opts...)
	client.Order = roamcardv1connect.NewOrderServiceClient(client.HTTP, client.origin, opts...)
	client.Auth = roamcardv1connect.NewAuthServiceClient(client.HTTP, client.origin, opts...)
	client.Runtime = roamcardv1connect.NewRuntimeServiceClient(client.HTTP, client.origin, opts...)
	client.Discovery, client.Quote = Discovery{client}, Quotes{client}
	client.Admin = Admin{
		roamcardv1connect.NewOperatorServiceClient(client.HTTP, client.origin, opts...),
		roamcardv1connect.NewActivityServiceClient(client.HTTP, client.origin, opts...),
	}
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
		Next: c.config.HTTP, Signer: c.config.Signer, Policy: c.config.Policy, Store: c.config.Store,
		Timeout: c.config.Timeout, MaxReplays: c.config.MaxReplays, Events: c.config.Events, Now: c.config.Now,
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
			var raw RawResponse
			res, err := next(WithRawResponse(ctx, &raw), req)
			if err != nil {
				return res, explained(err, raw)
			}
			return res, nil
		}
	}
}

// bounded limits how long a call may take. The payer limits the answers to a payment one by one.
func bounded(timeout time.Duration) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if access(req.Spec()) != roamcardv1.Access_ACCESS_PAYER {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return next(ctx, req)
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

// BuyCard buys a card at the published price. It is issued meanwhile: see WaitUntilActive. The same key gives the
// same order; an empty one is made, and comes back with the purchase and in an AmbiguousPaymentError.
func (c *Client) BuyCard(ctx context.Context, key string) (*Purchase, error) {
	ctx = expectingOf(ctx, func(ctx context.Context) (Cents, error) {
		published, err := c.Config(ctx)
		return Cents(published.GetCard().GetWalletPaymentUsdCents()), err
	})
	return c.buy(ctx, key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		res, err := c.Card.PurchaseCard(ctx, &roamcardv1.PurchaseCardRequest{IdempotencyKey: key})
		return res.GetOrder(), err
	})
}

// TopUp adds credit to the wallet's card: amount is what is paid, from which the service keeps its load fee. The
// key is as in BuyCard.
func (c *Client) TopUp(ctx context.Context, amount Cents, key string) (*Purchase, error) {
	cents, err := wire(amount)
	if err != nil {
		return nil, err
	}
	return c.buy(expecting(ctx, amount), key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		res, err := c.Card.TopUpCard(ctx, &roamcardv1.TopUpCardRequest{IdempotencyKey: key, AmountUsdCents: &cents})
		return res.GetOrder(), err
	})
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

// Pending gives the purchases of this wallet in the store whose outcome is not known: call again with their keys.
func (c *Client) Pending(ctx context.Context) ([]Entry, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	b, err := c.config.Store.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("look into the journal: %w", err)
	}
	var open []Entry
	for _, e := range b.Entries {
		if e.State == Signed && strings.EqualFold(e.Payer, c.config.Signer.Address()) {
			open = append(open, e)
		}
	}
	slices.SortFunc(open, func(a, b Entry) int { return a.At.Compare(b.At) })
	return open, nil
}

// Orders lists the wallet's orders, newest first, page by page as they are taken; active leaves out those that
// are final.
func (c *Client) Orders(ctx context.Context, active bool) iter.Seq2[*roamcardv1.Order, error] {
	status := ""
	if active {
		status = "active"
	}
	return pages(func(token *string) ([]*roamcardv1.Order, *string, error) {
		res, err := c.Order.ListOrders(ctx, &roamcardv1.ListOrdersRequest{Status: given(status), PageToken: token})
		if err != nil {
			return nil, nil, err
		}
		return res.GetOrders(), res.NextPageToken, nil
	})
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
