package roamcard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect/v2"

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
	// OperatorToken is for the routes of operators, which Client.Admin calls.
	OperatorToken Secret
	// RPCURL is a node of the chain that the caller trusts; see Payer.RPCURL.
	RPCURL string
	// HTTP is the transport below the payer; nil means http.DefaultTransport.
	HTTP http.RoundTripper
	// Timeout bounds one answer; zero means 30 seconds, which is longer than the service waits for anything. What
	// bounds a call over all its replays is its context.
	Timeout time.Duration
	// MaxReplays bounds how often the same bytes are sent again after an unclear answer; nil means 4.
	MaxReplays *int
	// MaxRetries bounds how often a call that changes nothing is made again after a network error, 429, 502, 503 and
	// 504; nil means 2. Nothing else is ever made again: a payment is replayed, see MaxReplays.
	MaxRetries *int
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
	// Discovery is what the service says of itself, Quote what things cost, and Plans the catalogue of eSIMs.
	Discovery Discovery
	Quote     Quotes
	Plans     Plans
	Cards     Cards
	ESIM      ESIMs
	Orders    Orders
	// Auth is the wallet's session. Whatever needs one signs in by itself.
	Auth Auth
	// Services are those of the protocol as they are generated, with payment, sign-in and this package's errors
	// in place.
	Services Services

	// HTTP is a client for the REST routes of the same service, which pays like all the rest. As with every
	// http.Client without a timeout, what bounds a request is its context.
	HTTP *http.Client

	config  Config
	origin  string
	calls   *connect.Client
	session session

	// publishing is the turn to read and write published.
	publishing semaphore
	published  *roamcardv1.GetConfigResponse
}

// Services are the services of the protocol, but for that of operators; see Client.Admin.
type Services struct {
	Card     roamcardv1connect.CardServiceClient
	Esim     roamcardv1connect.EsimServiceClient
	Order    roamcardv1connect.OrderServiceClient
	Auth     roamcardv1connect.AuthServiceClient
	Runtime  roamcardv1connect.RuntimeServiceClient
	Activity roamcardv1connect.ActivityServiceClient
}

// New makes a client. It makes no call.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.BaseURL)
	if err == nil && u.User != nil {
		return nil, errors.New("the service's URL has a user or a password: no request can have them")
	}
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
		return nil, fmt.Errorf("%q is not an origin like https://api.example.com", c.BaseURL)
	}
	if c.Store == nil {
		c.Store = NewMemoryStore()
	}
	c.Timeout, c.Poll = cmp.Or(c.Timeout, defaultTimeout), cmp.Or(c.Poll, 2*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HTTP == nil {
		c.HTTP = network()
	}
	if c.Logger != nil {
		c.Events = LogEvents(c.Logger, c.Events)
	}
	client := &Client{config: c, origin: u.Scheme + "://" + u.Host, publishing: newSemaphore()}
	client.session.signing = newSemaphore()
	client.HTTP = &http.Client{
		Transport: recorder{limited{addressed{client.transport()}}},
		// A redirect would send the payment to an address that nobody checked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	client.calls = client.connected(client.retried, client.authorized, explain, bounded(c.Timeout))
	client.Services = Services{
		roamcardv1connect.NewCardServiceClient(client.calls),
		roamcardv1connect.NewEsimServiceClient(client.calls),
		roamcardv1connect.NewOrderServiceClient(client.calls),
		roamcardv1connect.NewAuthServiceClient(client.calls),
		roamcardv1connect.NewRuntimeServiceClient(client.calls),
		roamcardv1connect.NewActivityServiceClient(client.calls),
	}
	client.Discovery, client.Quote, client.Plans = Discovery{client}, Quotes{client}, Plans{client}
	client.Cards, client.ESIM, client.Orders, client.Auth = Cards{client}, ESIMs{client}, Orders{client}, Auth{client}
	return client, nil
}

func (c *Client) transport() http.RoundTripper {
	if c.config.Signer == nil {
		return c.config.HTTP
	}
	return &Payer{
		Next: c.config.HTTP, Signer: c.config.Signer, Policy: c.config.Policy, Store: c.config.Store,
		Timeout: c.config.Timeout, MaxReplays: c.config.MaxReplays, Events: c.config.Events, Now: c.config.Now,
		PayTo: func(ctx context.Context) (string, error) {
			published, err := c.settings(ctx)
			return published.GetNetwork().GetPayTo(), err
		},
		Plan: c.plan, Price: c.price, RPCURL: c.config.RPCURL,
	}
}

// price is what the service publishes for a card or a top-up of no named amount, or what an order of the wallet costs.
func (c *Client) price(ctx context.Context, operation, orderID string) (Cents, error) {
	if operation == OpOrder {
		order, err := c.Orders.Get(inner(ctx), orderID)
		if err != nil {
			return 0, fmt.Errorf("read the order's price: %w", err)
		}
		if order.GetOrderId() != orderID {
			return 0, denied(ErrTermsMismatch, "the service told the price of another order than %q", orderID)
		}
		return Cents(order.GetAmountUsdCents()), nil
	}
	published, err := c.settings(ctx)
	if err != nil {
		return 0, err
	}
	if operation == OpTopup {
		return Cents(published.GetCard().GetDefaultOrderUsdCents()), nil
	}
	return Cents(published.GetCard().GetWalletPaymentUsdCents()), nil
}

// network is the usual transport, with a bound to the headers of an answer.
func network() http.RoundTripper {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := usual.Clone()
	own.MaxResponseHeaderBytes = maxAnswerHeader
	return own
}

// explain gives errors the types of this package.
func explain(next unary) unary {
	return func(ctx context.Context, spec connect.Spec, request, answer any) error {
		var raw RawResponse
		if err := next(WithRawResponse(ctx, &raw), spec, request, answer); err != nil {
			return explained(err, raw)
		}
		return nil
	}
}

// bounded limits how long a call may take. The payer limits the answers to a payment one by one.
func bounded(timeout time.Duration) func(unary) unary {
	return func(next unary) unary {
		return func(ctx context.Context, spec connect.Spec, request, answer any) error {
			if access(spec) != roamcardv1.Access_ACCESS_PAYER {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeoutOf(ctx, timeout))
				defer cancel()
			}
			return next(ctx, spec, request, answer)
		}
	}
}

// settings are the service's public settings, asked for once.
func (c *Client) settings(ctx context.Context) (*roamcardv1.GetConfigResponse, error) {
	if err := c.publishing.take(ctx); err != nil {
		return nil, err
	}
	defer c.publishing.give()
	if c.published == nil {
		published, err := c.Services.Runtime.GetConfig(inner(ctx), &roamcardv1.GetConfigRequest{})
		if err != nil {
			return nil, fmt.Errorf("read the service's settings: %w", err)
		}
		c.published = published
	}
	return c.published, nil
}

// ErrNoSigner says that a call needs a wallet and the client has none.
var ErrNoSigner = errors.New("the client has no signer")

// Pending gives the purchases of this wallet in the store whose outcome is not known, oldest first: call again with
// their keys.
func (c *Client) Pending(ctx context.Context) ([]Entry, error) {
	all, err := c.Purchases(ctx)
	return slices.DeleteFunc(all, func(e Entry) bool { return e.State != Signed }), err
}

// Purchases gives the purchases of this wallet in the store, oldest first.
func (c *Client) Purchases(ctx context.Context) ([]Entry, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	b, err := c.config.Store.Read(ctx)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, e := range b.Purchases {
		if e.Origin == c.origin && strings.EqualFold(e.Payer, c.config.Signer.Address()) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	return all, nil
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
