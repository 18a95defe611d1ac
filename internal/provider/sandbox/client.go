package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// maxAnswer is more than any documented answer takes.
const maxAnswer = 1 << 20

// ClientConfig is how the issuer is reached. Zero values mean what the comments say.
type ClientConfig struct {
	// URL is where the server is, without the /v1.
	URL string
	// APIKey is DevKey if empty.
	APIKey telemetry.Secret
	// HTTP may be nil. Only its transport is used: redirects, cookies and deadlines are ours.
	HTTP *http.Client
	// Timeout is the budget of one call; 10 s if zero.
	Timeout time.Duration
	// Horizon is how long after a send its reference may still appear; 30 s if zero.
	Horizon time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Issuer is the sandbox issuer as the card domain sees it: a card.Issuer, card.Vault and card.Stock.
// It is safe for concurrent use.
type Issuer struct {
	base    *url.URL
	apiKey  telemetry.Secret
	http    *http.Client
	timeout time.Duration
	horizon time.Duration
	now     func() time.Time
	tracer  trace.Tracer
	metrics *telemetry.Metrics
}

var (
	_ card.Issuer = (*Issuer)(nil)
	_ card.Vault  = (*Issuer)(nil)
	_ card.Stock  = (*Issuer)(nil)
)

// Dial makes an Issuer. It sends nothing yet.
func Dial(cfg ClientConfig) (*Issuer, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("dial the sandbox issuer: %q is not an http URL", cfg.URL)
	}
	i := &Issuer{
		base: base, apiKey: cfg.APIKey, now: cfg.Now, tracer: cfg.Tracer, metrics: cfg.Metrics,
		timeout: cmp.Or(cfg.Timeout, 10*time.Second), horizon: cmp.Or(cfg.Horizon, 30*time.Second),
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if cfg.HTTP != nil {
		i.http.Transport = cfg.HTTP.Transport
	}
	if i.apiKey.IsZero() {
		i.apiKey = telemetry.NewSecret(DevKey)
	}
	if i.now == nil {
		i.now = time.Now
	}
	if i.tracer == nil {
		i.tracer = otel.Tracer("roamcard/provider/sandbox")
	}
	return i, nil
}

// Traits says what may be done after an unknown outcome: the server takes a reference once only.
func (i *Issuer) Traits() card.Traits { return card.Traits{Deduplicates: true, Horizon: i.horizon} }

// Open implements card.Issuer.
func (i *Issuer) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	var got cardAnswer
	err := i.call(ctx, request{
		op: "open", method: http.MethodPost, path: []string{"cards"}, route: "/v1/cards",
		body: map[string]any{
			"reference": o.Ref.String(), "loadCents": int64(o.Load), "currency": currencyUSD, "scenario": o.Scenario,
		},
	}, &got)
	if err != nil {
		return card.Account{}, fmt.Errorf("open a card: %w", err)
	}
	account, err := got.account(o.Ref)
	if err == nil && account.Loaded != o.Load {
		err = unclear("the answer is about another amount")
	}
	if err != nil {
		return card.Account{}, fmt.Errorf("open a card: %w", err)
	}
	return account, nil
}

// Account implements card.Issuer.
func (i *Issuer) Account(ctx context.Context, ref card.Ref) (card.Account, error) {
	var got listAnswer[cardAnswer]
	err := i.call(ctx, request{
		op: "account", method: http.MethodGet, path: []string{"cards"}, route: "/v1/cards", ref: ref,
	}, &got)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	account, err := only(got, func(one cardAnswer) (card.Account, error) { return one.account(ref) }, sameAccount)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	return account, nil
}

// Move implements card.Issuer.
func (i *Issuer) Move(ctx context.Context, m card.Movement) (card.Moved, error) {
	direction := intoCard
	if m.Direction == card.Withdrawal {
		direction = outOfCard
	}
	var got movementAnswer
	err := i.call(ctx, request{
		op: "move", method: http.MethodPost, path: []string{"cards", m.Account, "movements"},
		route: "/v1/cards/{id}/movements",
		body: map[string]any{
			"reference": m.Ref.String(), "direction": direction, "amountCents": int64(m.Amount),
			"currency": currencyUSD, "scenario": m.Scenario,
		},
	}, &got)
	if err != nil {
		return card.Moved{}, fmt.Errorf("ask for a %s: %w", m.Direction, err)
	}
	moved, err := got.moved(m.Ref)
	if err == nil && (moved.Amount != m.Amount || moved.Account != m.Account || moved.Direction != m.Direction) {
		err = unclear("the answer is about another movement")
	}
	if err != nil {
		return card.Moved{}, fmt.Errorf("ask for a %s: %w", m.Direction, err)
	}
	return moved, nil
}

// Moved implements card.Issuer.
func (i *Issuer) Moved(ctx context.Context, ref card.Ref) (card.Moved, error) {
	var got listAnswer[movementAnswer]
	err := i.call(ctx, request{
		op: "moved", method: http.MethodGet, path: []string{"movements"}, route: "/v1/movements", ref: ref,
	}, &got)
	if err != nil {
		return card.Moved{}, fmt.Errorf("read a movement: %w", err)
	}
	moved, err := only(got, func(one movementAnswer) (card.Moved, error) { return one.moved(ref) }, sameMoved)
	if err != nil {
		return card.Moved{}, fmt.Errorf("read a movement: %w", err)
	}
	return moved, nil
}

// Balance implements card.Vault.
func (i *Issuer) Balance(ctx context.Context, account string) (card.Balance, error) {
	var got balanceAnswer
	err := i.call(ctx, request{
		op: "balance", method: http.MethodGet, path: []string{"cards", account, "balance"},
		route: "/v1/cards/{id}/balance", confidential: true,
	}, &got)
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", err)
	}
	balance, err := got.balance(account)
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", err)
	}
	return balance, nil
}

// Credentials implements card.Vault.
func (i *Issuer) Credentials(ctx context.Context, account string) (card.Credentials, error) {
	var got sensitiveAnswer
	err := i.call(ctx, request{
		op: "sensitive", method: http.MethodPost, path: []string{"cards", account, "sensitive"},
		route: "/v1/cards/{id}/sensitive", confidential: true,
	}, &got)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", err)
	}
	credentials, err := got.credentials(account)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", err)
	}
	return credentials, nil
}

// Stock implements card.Stock.
func (i *Issuer) Stock(ctx context.Context) (card.Inventory, error) {
	asOf := i.now().UTC()
	var float accountAnswer
	err := i.call(ctx, request{op: "stock", method: http.MethodGet, path: []string{"account"}, route: "/v1/account"}, &float)
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the float: %w", err)
	}
	var bins listAnswer[binAnswer]
	err = i.call(ctx, request{op: "stock", method: http.MethodGet, path: []string{"bins"}, route: "/v1/bins"}, &bins)
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the card ranges: %w", err)
	}
	inventory, err := inventoryOf(float, bins)
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the stock: %w", err)
	}
	inventory.AsOf = asOf
	return inventory, nil
}

// request is one call to the vendor.
type request struct {
	op     string
	method string
	path   []string
	// route is the path without names in it, for traces.
	route string
	// ref is looked up, when it is set.
	ref card.Ref
	// query is what else is asked in the address.
	query url.Values
	body  any
	// confidential answers: nothing of what they say, not even an error text, goes into an error.
	confidential bool
}

// call sends once and decodes a success into an answer. Its error is a *card.Refusal for a definite
// no; any other error leaves the outcome unknown.
func (i *Issuer) call(ctx context.Context, rq request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	ctx, span := i.tracer.Start(ctx, "issuer "+rq.op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", rq.method),
		attribute.String("url.template", rq.route),
		attribute.String("server.address", i.base.Host),
	))
	defer span.End()
	asked, outcome := i.now(), "ok"
	defer func() { i.metrics.Asked(ctx, "sandbox", rq.op, outcome, i.now().Sub(asked)) }()
	status, answer, err := i.exchange(ctx, rq)
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err == nil {
		err = understand(status, answer, rq.confidential, into)
	}
	if refusal, no := errors.AsType[*card.Refusal](err); no {
		outcome = "refused"
		span.SetAttributes(attribute.String("issuer.refusal", refusal.Code))
	} else if err != nil {
		outcome = "unknown"
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// exchange is one round trip. It is never repeated here: whether that is safe is for the caller to
// know.
func (i *Issuer) exchange(ctx context.Context, rq request) (status int, answer []byte, err error) {
	var body io.Reader
	if rq.body != nil {
		encoded, err := json.Marshal(rq.body)
		if err != nil {
			return 0, nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	target := i.base.JoinPath("v1")
	for _, segment := range rq.path {
		target = target.JoinPath(url.PathEscape(segment))
	}
	target.RawQuery = rq.query.Encode()
	if rq.ref != (card.Ref{}) {
		target.RawQuery = url.Values{"reference": {rq.ref.String()}}.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, rq.method, target.String(), body)
	if err != nil {
		return 0, nil, unclear("the request cannot be made")
	}
	r.Header.Set("Authorization", "Bearer "+i.apiKey.Reveal())
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := i.http.Do(r)
	if err != nil {
		return 0, nil, fmt.Errorf("no answer: %w", cause(err, rq.confidential))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("half an answer: %w", cause(err, rq.confidential))
	}
	if len(answer) > maxAnswer {
		return resp.StatusCode, nil, unclear("the answer is too long")
	}
	return resp.StatusCode, answer, nil
}

// cause is what broke a round trip, without the address, which names the card at the issuer. Of a
// confidential one it says only what cannot quote the answer.
func cause(err error, confidential bool) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if !confidential {
		return err
	}
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return known
		}
	}
	return unclear("the connection broke")
}
