// Package facilitator settles payments through a remote x402 facilitator, whose answers count only once the chain
// confirms them.
//
//	stored payment ─► would it move? ─► POST /verify ─► POST /settle, the same bytes each time
//	                     │ no             any answer      ├─► claimed   success, with a transaction
//	                     ▼                                ├─► pending   settlement_pending, whatever the HTTP status
//	               nothing is sent                        ├─► refused   success: false; it may be wrong
//	                                                      └─► unknown   no answer, or none that can be read
//
// None of the four decides a payment. Sending it again is always safe: the stored payment is the durable record, and
// the token executes its authorization once. While the call is open, the chain is looked at all the same.
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
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
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
	// Simulate checks whether a payment would move now; a *payment.Rejection says why not. What would not move is not
	// submitted, and is not counted against the facilitator. Nil takes every payment for one that would move.
	Simulate func(ctx context.Context, p payment.Payment) error
	// Reverted reports whether the chain has a transaction that reverted. Nil says that it has none.
	Reverted func(ctx context.Context, transaction x402.Hash) (bool, error)
	// HeadTime is the time of the chain's latest block; nil takes Now, as for a chain with a block at each moment.
	HeadTime func(ctx context.Context) (time.Time, error)
	// Alone says that no other settler of ours submits these payments: what moves was moved by the facilitator.
	Alone bool
	// SkipVerify leaves out /verify before /settle. Some facilitators insist on it, and list what they have verified.
	SkipVerify bool
	// Reverts is how many calls for one payment may move nothing by its payer's doing before no more are made: 2.
	Reverts int
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one call: 10 s.
	Timeout time.Duration
	// SubmitTimeout is how long Submit waits for a call, which goes on after that: 500 ms.
	SubmitTimeout time.Duration
	// Pause is the least time between two calls of this process for one payment: 2 s. It doubles with each failure.
	Pause time.Duration
	// Window is how long a settlement that is claimed or pending may take on the chain: 6 s, three blocks of Base.
	Window time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	Log *slog.Logger
	// Tracer is the process's own if nil.
	Tracer  trace.Tracer
	Metrics *telemetry.Metrics
}

// Facilitator settles by asking another service to. It is payment.Settler, and safe for concurrent use.
type Facilitator struct {
	config Config
	base   *url.URL
	http   *http.Client
	sent   submissions
	health health
	// supported caches the result of Supported: anyone can trigger readiness checks.
	supported *availability.Memo[struct{}]
}

const (
	readyFor    = 5 * time.Second
	notReadyFor = 2 * time.Second
	// supportedWithin is how long Ready waits for a new answer to /supported while it knows one of supportedFor ago.
	supportedWithin = time.Second
	supportedFor    = time.Minute
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
	c.SubmitTimeout = cmp.Or(c.SubmitTimeout, 500*time.Millisecond)
	c.Pause, c.Window = cmp.Or(c.Pause, 2*time.Second), cmp.Or(c.Window, 6*time.Second)
	c.Reverts = cmp.Or(c.Reverts, 2)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Simulate == nil {
		c.Simulate = func(context.Context, payment.Payment) error { return nil }
	}
	if c.Reverted == nil {
		c.Reverted = func(context.Context, x402.Hash) (bool, error) { return false, nil }
	}
	if c.HeadTime == nil {
		c.HeadTime = func(context.Context) (time.Time, error) { return c.Now(), nil }
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

// errWatched is the error of a payment for which no more calls are made. It settles by somebody else's transaction, or
// it expires.
var errWatched = fmt.Errorf("the facilitator is asked no more for this payment: %w", payment.ErrMissed)

// Submit implements payment.Settler. A *payment.Rejection says that the payment would not move now, and is not sent.
// Nil means that the facilitator claims success, that the settlement is pending, or that the call goes on after
// Config.SubmitTimeout; a *Refusal is a negative answer; after any other error the result is unknown. A payment that
// was sent less than Config.Pause ago is not sent again, and gets the cached answer.
func (f *Facilitator) Submit(ctx context.Context, p payment.Payment) error {
	if !p.Signature.IsOfKey() {
		return fmt.Errorf("settle for a smart account: %w", payment.ErrNotForThis)
	}
	now := f.config.Now()
	if last, waits := f.sent.of(p.ID).last(now); waits {
		return last
	}
	if err := f.health.backedOff(now); err != nil {
		return err
	}
	would := f.config.Simulate(ctx, p)
	f.judge(ctx, p, would)
	if would != nil {
		return fmt.Errorf("settle: %w", would)
	}
	switch c := f.sent.of(p.ID); {
	case c.found.state == claimed && !c.since.IsZero():
		return nil // the blocks for what it claims are not there yet
	case c.wasted+c.reverted >= f.config.Reverts:
		f.config.Metrics.Unaffordable(ctx, "reverts")
		return fmt.Errorf("%w: %d calls moved nothing", errWatched, c.wasted+c.reverted)
	}
	body, err := f.request(ctx, p)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	call, done, mine := f.sent.begin(p)
	if mine {
		go f.ask(context.WithoutCancel(ctx), p, body, call)
	}
	late := time.NewTimer(f.config.SubmitTimeout)
	defer late.Stop()
	select {
	case <-done:
		return f.sent.of(p.ID).err
	case <-ctx.Done():
		return fault.Ended(ctx, ctx.Err())
	case <-late.C:
		return nil
	}
}

// ask makes the calls for one payment, and judges what can be judged at once.
func (f *Facilitator) ask(ctx context.Context, p payment.Payment, body []byte, call *submission) {
	if !f.config.SkipVerify {
		f.verify(ctx, p, body)
	}
	found, err := f.settle(ctx, p, body)
	now := f.config.Now()
	f.health.asksForPause(now, err)
	var moved x402.Hash
	var movedAt time.Time
	f.sent.change(call, func(c *submission) {
		c.found, c.err, moved, movedAt = found, err, c.moved, c.movedAt
		switch {
		case err != nil:
			c.until = now.Add(min(f.config.Pause<<min(c.calls-1, 4), maxBackoff))
		case found.state == claimed:
			c.until = now.Add(f.config.Window)
		default:
			c.until = now.Add(f.config.Pause)
		}
		if err == nil && c.since.IsZero() {
			c.since = now
		}
	})
	switch {
	case moved != x402.Hash{}:
		f.seen(p, found, moved, movedAt)
	case err != nil:
		f.judgeFailure(ctx, p, call, found, err)
	}
	f.sent.end(call)
}

// Moved implements payment.Witness: the chain shows the transfer of a payment.
func (f *Facilitator) Moved(p payment.Payment, r payment.Receipt) {
	call := f.sent.find(p.ID)
	if call == nil {
		return
	}
	var found outcome
	now := f.config.Now()
	f.sent.change(call, func(c *submission) { c.moved, c.movedAt, found = r.Transaction, now, c.found })
	f.seen(p, found, r.Transaction, now)
}

// seen records a transfer that the chain has shown since a time. Where others submit as well, it is the facilitator's
// if that named it, which it may do later.
func (f *Facilitator) seen(p payment.Payment, found outcome, moved x402.Hash, at time.Time) {
	if f.config.Alone || found.transaction == moved.String() {
		if f.health.works(p.Authorization.From, at) {
			f.sent.forgive()
		}
	}
}

// judge judges an earlier answer that promised a transfer, once the chain has had the blocks for it; would says whether
// the payment would still move.
func (f *Facilitator) judge(ctx context.Context, p payment.Payment, would error) {
	call, before := f.sent.find(p.ID), f.sent.of(p.ID)
	if call == nil || before.since.IsZero() {
		return
	}
	head, err := f.config.HeadTime(ctx)
	if err != nil || head.Before(before.since.Add(f.config.Window)) {
		return
	}
	broken := errNeverMade
	if before.found.state == claimed {
		broken = errLie
	}
	f.judgeFailureOf(ctx, p, call, before.found, broken, would)
}

var (
	errNeverMade = errors.New("the facilitator has answered that a settlement is pending, and the chain does not get it")
	errReverted  = errors.New("the transaction of the facilitator has reverted, and the payment would move")
	errLie       = errors.New("the facilitator claims a settlement that the chain does not have")
)

// judgeFailure judges an answer that is no promise.
func (f *Facilitator) judgeFailure(
	ctx context.Context, p payment.Payment, call *submission, found outcome, err error,
) {
	ctx, cancel := fault.Within(ctx, f.config.Timeout)
	defer cancel()
	f.judgeFailureOf(ctx, p, call, found, err, f.config.Simulate(ctx, p))
}

// tooLate is the time before the end of an authorization in which a facilitator may refuse it for that.
const tooLate = 30 * time.Second

// judgeFailureOf finds out whose fault it is that a payment was not moved. Nobody's, as long as nodes do not answer.
func (f *Facilitator) judgeFailureOf(
	ctx context.Context, p payment.Payment, call *submission, found outcome, err, would error,
) {
	now := f.config.Now()
	rejection, rejected := errors.AsType[*payment.Rejection](would)
	wasted, reverted := false, false
	switch {
	case rejected:
		// One that is used has moved, or its payer has cancelled it: the chain tells.
		wasted = rejection.Reason != x402.ReasonNonceUsed
	case would != nil:
		return
	case screenedOut(err):
	default:
		if hash, parsed := x402.ParseHash(found.transaction); parsed == nil {
			if reverted, parsed = f.config.Reverted(ctx, hash); parsed != nil {
				return
			}
		}
		if reverted {
			err = errReverted
		}
		if now.Add(tooLate).Before(time.Unix(int64(p.Authorization.ValidBefore), 0)) {
			f.health.fails(now, p.Authorization.From, err)
		}
	}
	f.sent.change(call, func(c *submission) {
		c.since = time.Time{}
		if wasted {
			c.wasted++
		}
		if reverted {
			c.reverted++
		}
	})
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

// verifyWithin bounds a call of /verify, which nothing depends on.
const verifyWithin = 3 * time.Second

// verify asks for a verification, as some facilitators insist on before they settle. What it says decides nothing: the
// payment would move, as our own node has just found.
func (f *Facilitator) verify(ctx context.Context, p payment.Payment, body []byte) {
	ctx, cancel := fault.Within(ctx, verifyWithin)
	defer cancel()
	ctx, end := f.begin(ctx, "verify", http.MethodPost)
	start := f.config.Now()
	got, err := f.call(ctx, http.MethodPost, "verify", body)
	if err == nil {
		err = verified(got)
	}
	end(got.status, outcome{}, err)
	level := slog.LevelDebug
	if err != nil {
		level = slog.LevelWarn
	}
	f.config.Log.LogAttrs(ctx, level, "facilitator asked to verify", slog.String("payment", p.ID.String()),
		slog.Int("status", got.status), slog.Duration("took", f.config.Now().Sub(start)), slog.Any("cause", err))
}

func (f *Facilitator) settle(ctx context.Context, p payment.Payment, body []byte) (found outcome, err error) {
	ctx, end := f.begin(ctx, "settle", http.MethodPost)
	start := f.config.Now()
	faultpoint.Reach("facilitator.before_settle")
	got, err := f.call(ctx, http.MethodPost, "settle", body)
	faultpoint.Reach("facilitator.after_settle")
	if err == nil {
		found, err = settled(got, p)
	}
	end(got.status, found, err)
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
	}
	f.config.Log.LogAttrs(ctx, level, "facilitator asked to settle", slog.String("payment", p.ID.String()),
		slog.String("outcome", found.String()), slog.String("reason", found.reason),
		slog.String("transaction", found.transaction), slog.Int("status", got.status),
		slog.Duration("took", f.config.Now().Sub(start)), slog.Any("cause", err))
	if err != nil {
		return found, fmt.Errorf("settle: %w", err)
	}
	return found, nil
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

// supports is Supported with a cached result. What a facilitator settles changes seldom: one that takes long to say it
// is as good as it was, until it has answered or failed.
func (f *Facilitator) supports(ctx context.Context) error {
	soon, cancel := fault.Within(ctx, supportedWithin)
	defer cancel()
	_, err := f.supported.Get(soon)
	if soon.Err() == nil {
		return err
	}
	if _, known, last := f.supported.Cached(supportedFor); known && last == nil {
		return nil
	}
	_, err = f.supported.Get(ctx)
	return err
}

// Ready is Supported with a cached result. A facilitator that lists our kind and settles nothing is not ready either.
// The error contains a *fault.Fault for the payer.
func (f *Facilitator) Ready(ctx context.Context) error {
	err := f.supports(ctx)
	if failing := f.health.failing(f.config.Now()); err == nil && failing != nil {
		err = fmt.Errorf("facilitator not ready: %w", failing)
	}
	if err != nil {
		err = errors.Join(fault.New(fault.FacilitatorDown, "The facilitator that settles payments fails."), err)
	}
	return err
}
