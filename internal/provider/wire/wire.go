// Package wire calls the HTTP API of a vendor for its adapter: each call is bounded and never repeated by itself, and
// what goes wrong is told in words that quote neither a credential nor a card.
//
//	Request ──▶ Client.Send ──▶ one round trip ──▶ Reader      what the vendor's answer means
//	                                  │
//	                                  └──▶ an error that leaves the outcome unknown
//
// An adapter says how its requests are authorized and how its vendor's answers are read. That an answer is a definite
// refusal is its Reader's to say: all that goes wrong here leaves the outcome unknown.
package wire

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
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/telemetry"
)

const (
	defaultTimeout = 10 * time.Second
	// defaultMost is larger than most documented answers.
	defaultMost = 1 << 20
)

// Config is how a vendor is called. Zero values mean what the comments say.
type Config struct {
	// Provider names the adapter in metrics, Role says in spans what it is to us: "issuer" or "supplier".
	Provider, Role string
	// Base is the address that paths are joined to, and Rule what it was checked with.
	Base *url.URL
	Rule outward.Rule
	// Authorize puts credentials on a request, whose body is given. May be nil.
	Authorize func(h http.Header, body []byte)
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one call; 10 s if zero.
	Timeout time.Duration
	// Quota shares out the calls of the vendor; nil sends all of them at once.
	Quota *limit.Quota
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Client calls a vendor. It is safe for concurrent use.
type Client struct {
	cfg  Config // complete
	http *http.Client
}

// New makes a Client. It sends nothing yet.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg}
	c.cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	c.http = outward.New(outward.Config{Rule: cfg.Rule, Timeout: c.cfg.Timeout, Through: cfg.HTTP})
	if cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	if cfg.Tracer == nil {
		c.cfg.Tracer = otel.Tracer("roamcard/provider/" + cfg.Provider)
	}
	return c
}

// Now is the time by the Client's clock.
func (c *Client) Now() time.Time { return c.cfg.Now() }

// AddressMistakes are those of an address that a setting has, none when it is not set: that is told by the settings.
func AddressMistakes(setting, address string) []error {
	if address == "" {
		return nil
	}
	if _, err := (outward.Rule{}).Origin(address); err != nil {
		return []error{fmt.Errorf("%s: %w", setting, err)}
	}
	return nil
}

// Request is one call to a vendor.
type Request struct {
	// Op names the call in metrics and spans.
	Op     string
	Method string
	// Path are the segments below the base. Each is escaped: a vendor's name cannot change the path.
	Path []string
	// Route is the path without names in it, for traces.
	Route string
	Query url.Values
	// Header is what this request has in addition to every other. May be nil.
	Header http.Header
	// Body is sent as JSON; nil sends none.
	Body any
	// Most is the longest answer; 1 MiB if zero.
	Most int64
	// Confidential answers: nothing of what they say, not even an error's text, goes into an error.
	Confidential bool
}

// Answer is what a vendor has answered, as it is.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Reader says what an answer means. settled is whether the outcome of the call is known: a success, or an error that
// the vendor documents. A definite refusal is a *fulfilment.Refusal.
type Reader func(Answer) (settled bool, err error)

// Send sends once and has the answer read. Its error is the Reader's, or leaves the outcome unknown.
func (c *Client) Send(ctx context.Context, rq Request, read Reader) error {
	ctx, cancel := fault.Within(ctx, c.cfg.Timeout)
	defer cancel()
	ctx, span := c.cfg.Tracer.Start(ctx, c.cfg.Role+" "+rq.Op, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("http.request.method", rq.Method),
			attribute.String("url.template", rq.Route),
			attribute.String("server.address", c.cfg.Base.Host),
		))
	defer span.End()
	asked, outcome := c.Now(), "ok"
	defer func() { c.cfg.Metrics.Asked(ctx, c.cfg.Provider, rq.Op, outcome, c.Now().Sub(asked)) }()
	answer, err := c.exchange(ctx, rq)
	if answer.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", answer.Status))
	}
	settled := false
	if err == nil {
		settled, err = read(answer)
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		outcome = "refused"
		span.SetAttributes(attribute.String(c.cfg.Role+".refusal", no.Code))
	} else if err != nil && !settled && fault.Gone(ctx) {
		outcome, err = "abandoned", fault.Ended(ctx, err)
	} else if err != nil && !settled {
		outcome = "unknown"
		span.SetStatus(otelcodes.Error, err.Error())
	}
	return err
}

// exchange is one round trip. It is never repeated here: only the caller knows whether that is safe.
func (c *Client) exchange(ctx context.Context, rq Request) (answer Answer, err error) {
	var body []byte
	if rq.Body != nil {
		if body, err = json.Marshal(rq.Body); err != nil {
			return Answer{}, fmt.Errorf("encode the request: %w", err)
		}
	}
	if err := c.cfg.Quota.Wait(ctx); err != nil {
		return Answer{}, fmt.Errorf("wait for the rate limit: %w", err)
	}
	r, err := c.request(ctx, rq, body)
	if err != nil {
		return Answer{}, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return Answer{}, fmt.Errorf("no answer: %w", cause(err, rq.Confidential))
	}
	defer func() { _ = resp.Body.Close() }()
	answer = Answer{Status: resp.StatusCode, Header: resp.Header}
	answer.Body, err = outward.Read(resp.Body, cmp.Or(rq.Most, defaultMost))
	if err != nil {
		return answer, fmt.Errorf("half an answer: %w", cause(err, rq.Confidential))
	}
	return answer, nil
}

func (c *Client) request(ctx context.Context, rq Request, body []byte) (*http.Request, error) {
	target := c.cfg.Base.JoinPath()
	for _, segment := range rq.Path {
		target = target.JoinPath(url.PathEscape(segment))
	}
	target.RawQuery = rq.Query.Encode()
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, rq.Method, target.String(), content)
	if err != nil {
		return nil, Unclear("the request cannot be made")
	}
	for name, values := range rq.Header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Authorize != nil {
		c.cfg.Authorize(r.Header, body)
	}
	return r, nil
}

// cause is what broke a round trip, without the address, which names the card at the issuer. Of a confidential one it
// says only what cannot quote the answer.
func cause(err error, confidential bool) error {
	if !confidential {
		return outward.Cause(err)
	}
	for _, known := range []error{
		context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, outward.ErrTooLong,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return Unclear("the connection broke")
}
