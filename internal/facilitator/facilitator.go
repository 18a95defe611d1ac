// Package facilitator settles payments through a remote x402 facilitator, whose answers count only once the chain
// confirms them.
//
//	stored payment ──► POST /settle, the same bytes each time ──► claimed   success, with a transaction
//	                                                          ├─► pending   settlement_pending, whatever the HTTP status
//	                                                          ├─► refused   success: false; it may be wrong
//	                                                          └─► unknown   no answer, or none that can be read
//
// None of the four decides a payment. Sending it again is always safe: the stored payment is the durable record, and
// the token executes its authorization once.
package facilitator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what a Facilitator needs. What is zero takes the default named.
type Config struct {
	// URL is where /settle and /supported lie below.
	URL  string
	Rule outward.Rule
	// Token is sent as a bearer token with every call, when it is set.
	Token secret.Text
	// TokenSource makes a token for one call instead. Some facilitators bind tokens to method, host and
	// path, and let them live for minutes.
	TokenSource func(ctx context.Context, method, host, path string) (secret.Text, error)
	// Requirements are the terms a payment was made under, without anything that changes between calls.
	Requirements func(payment.Payment) x402.Requirements
	// Resource are the resource and extensions of a payment, by which the facilitator can list the product. They must
	// not change between calls. Nil sends neither.
	Resource func(ctx context.Context, p payment.Payment) (x402.Resource, map[string]any, error)
	// Simulate checks whether a payment would move now; a *payment.Rejection says why not. What is refused and would not
	// move is the payer's fault: it is not counted against the facilitator. Nil counts every refusal.
	Simulate func(ctx context.Context, p payment.Payment) error
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one call: 10 s.
	Timeout time.Duration
	// Pause is the least time between two calls of this process for one payment: 2 s.
	Pause time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	Log *slog.Logger
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
}

// Facilitator settles by asking another service to. It is payment.Settler, and safe for concurrent use.
type Facilitator struct {
	config   Config
	base     *url.URL
	http     *http.Client
	backoffs backoffs
	// supported caches the result of Supported: anyone can trigger readiness checks.
	supported *availability.Memo[struct{}]
}

const (
	readyFor    = 5 * time.Second
	notReadyFor = 2 * time.Second
)

// New makes a Facilitator. It sends nothing yet.
func New(c Config) (*Facilitator, error) {
	base, err := c.Rule.Origin(c.URL)
	if err != nil {
		return nil, fmt.Errorf("where the facilitator is: %w", err)
	}
	if c.Requirements == nil {
		return nil, errors.New("the facilitator has no requirements")
	}
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Pause = cmp.Or(c.Pause, 2*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tracer == nil {
		c.Tracer = otel.Tracer("github.com/roamcard/roamcard/internal/facilitator")
	}
	f := &Facilitator{
		config: c, base: base, http: outward.New(outward.Config{Rule: c.Rule, Timeout: c.Timeout, Through: c.HTTP}),
	}
	f.supported = availability.NewMemo(availability.MemoConfig[struct{}]{
		Read: func(ctx context.Context) (struct{}, error) { return struct{}{}, f.Supported(ctx) },
		TTL:  readyFor, ErrorTTL: notReadyFor, Timeout: c.Timeout, Now: c.Now,
	})
	return f, nil
}

// Submit implements payment.Settler. Nil means that the facilitator claims success, or that the settlement is pending;
// a *Refusal is its negative answer; after any other error the result is unknown. A payment that was sent less than
// Config.Pause ago is not sent again, and gets the cached answer.
func (f *Facilitator) Submit(ctx context.Context, p payment.Payment) error {
	if last, backedOff := f.backoffs.of(p.ID, f.config.Now()); backedOff {
		return last
	}
	body, err := f.request(ctx, p)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	err = f.settle(ctx, p, body)
	// A caller who disconnects is not a failure of the facilitator.
	if !fault.Gone(ctx) {
		f.backoffs.after(p.ID, f.config.Now(), f.config.Pause, err, f.isPayersFault(ctx, p, err))
	}
	return err
}

// isPayersFault reports whether a payment was refused that would not move. Payers who claim and move their money away
// would otherwise make the facilitator look down, and close the sale for others.
func (f *Facilitator) isPayersFault(ctx context.Context, p payment.Payment, err error) bool {
	if _, refused := errors.AsType[*Refusal](err); !refused || f.config.Simulate == nil {
		return false
	}
	_, rejected := errors.AsType[*payment.Rejection](f.config.Simulate(ctx, p))
	return rejected
}

// request is the body of a settlement. An error here is ours, not the facilitator's.
func (f *Facilitator) request(ctx context.Context, p payment.Payment) (body []byte, err error) {
	sent := x402.Payment{Accepted: f.config.Requirements(p), Authorization: p.Authorization, Signature: p.Signature}
	if f.config.Resource != nil {
		if sent.Resource, sent.Extensions, err = f.config.Resource(ctx, p); err != nil {
			return nil, fmt.Errorf("find the resource of the payment: %w", err)
		}
	}
	return x402.EncodeFacilitatorRequest(sent)
}

func (f *Facilitator) settle(ctx context.Context, p payment.Payment, body []byte) error {
	ctx, end := f.begin(ctx, "settle", http.MethodPost)
	start := f.config.Now()
	var found outcome
	faultpoint.Reach("facilitator.before_settle")
	got, err := f.call(ctx, http.MethodPost, "settle", body)
	faultpoint.Reach("facilitator.after_settle")
	if err == nil {
		found, err = settled(got, p)
	}
	end(got.status, found, err)
	level := slog.LevelInfo
	if err != nil && !fault.Gone(ctx) {
		level = slog.LevelWarn
	}
	f.config.Log.LogAttrs(ctx, level, "facilitator asked to settle", slog.String("payment", p.ID.String()),
		slog.String("outcome", found.String()), slog.String("reason", found.reason),
		slog.String("transaction", found.transaction), slog.Int("status", got.status),
		slog.Duration("took", f.config.Now().Sub(start)), slog.Any("cause", err))
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// Supported checks that the facilitator settles what we sell for: the scheme exact on our network.
func (f *Facilitator) Supported(ctx context.Context) error {
	ctx, end := f.begin(ctx, "supported", http.MethodGet)
	got, err := f.call(ctx, http.MethodGet, "supported", nil)
	if err == nil {
		err = supports(got)
	}
	end(got.status, outcome{}, err)
	if err != nil {
		return fmt.Errorf("facilitator not ready: %w", err)
	}
	return nil
}

// Ready is Supported with a cached result. A facilitator that lists our kind and settles nothing is not ready either.
// The error contains a *fault.Fault for the payer.
func (f *Facilitator) Ready(ctx context.Context) error {
	_, err := f.supported.Get(ctx)
	if failing := f.backoffs.failing(f.config.Now()); err == nil && failing != nil {
		err = fmt.Errorf("facilitator not ready: %w", failing)
	}
	if err != nil {
		err = errors.Join(fault.New(fault.FacilitatorDown, "The facilitator that settles payments fails."), err)
	}
	return err
}
