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

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// wire calls a vendor: each call is bounded and never repeated by itself.
type wire struct {
	vendor  string
	base    *url.URL
	apiKey  secret.Text
	http    *http.Client
	timeout time.Duration
	now     func() time.Time
	tracer  trace.Tracer
	metrics *telemetry.Metrics
}

const (
	defaultTimeout         = 10 * time.Second
	defaultVisibilityDelay = 30 * time.Second
)

func dial(cfg ClientConfig, vendor string) (wire, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return wire{}, fmt.Errorf("%q is not an http URL", cfg.URL)
	}
	w := wire{
		vendor: vendor, base: base, apiKey: cfg.APIKey, now: cfg.Now, tracer: cfg.Tracer, metrics: cfg.Metrics,
		timeout: cmp.Or(cfg.Timeout, defaultTimeout),
		http:    &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if cfg.HTTP != nil {
		w.http.Transport = cfg.HTTP.Transport
	}
	if w.apiKey.IsZero() {
		w.apiKey = secret.New(DevKey)
	}
	if w.now == nil {
		w.now = time.Now
	}
	if w.tracer == nil {
		w.tracer = otel.Tracer("roamcard/provider/sandbox")
	}
	return w, nil
}

// request is one call to the vendor.
type request struct {
	op     string
	method string
	// under is the folder of the vendor's API; empty is the root.
	under string
	path  []string
	// route is the path without names in it, for traces.
	route string
	// ref is looked up, when it is set.
	ref uuid.UUID
	// query is what else is asked in the address.
	query url.Values
	body  any
	// confidential answers: nothing of what they say, not even an error text, goes into an error.
	confidential bool
}

// send sends once and decodes a success into an answer. Its error is a *fulfilment.Refusal for a definite
// no; any other error leaves the outcome unknown.
func (w *wire) send(ctx context.Context, rq request, definite codes, into any) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ctx, span := w.tracer.Start(ctx, w.vendor+" "+rq.op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", rq.method),
		attribute.String("url.template", rq.route),
		attribute.String("server.address", w.base.Host),
	))
	defer span.End()
	asked, outcome := w.now(), "ok"
	defer func() { w.metrics.Asked(ctx, "sandbox", rq.op, outcome, w.now().Sub(asked)) }()
	status, answer, err := w.exchange(ctx, rq)
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err == nil {
		err = understand(status, answer, rq.confidential, definite, into)
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		outcome = "refused"
		span.SetAttributes(attribute.String(w.vendor+".refusal", no.Code))
	} else if err != nil {
		outcome = "unknown"
		span.SetStatus(otelcodes.Error, err.Error())
	}
	return err
}

// exchange is one round trip. It is never repeated here: only the caller knows whether that is safe.
func (w *wire) exchange(ctx context.Context, rq request) (status int, answer []byte, err error) {
	var body io.Reader
	if rq.body != nil {
		encoded, err := json.Marshal(rq.body)
		if err != nil {
			return 0, nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	target := w.base.JoinPath(rq.under, "v1")
	for _, segment := range rq.path {
		target = target.JoinPath(url.PathEscape(segment))
	}
	target.RawQuery = rq.query.Encode()
	if rq.ref != uuid.Nil {
		target.RawQuery = url.Values{"reference": {rq.ref.String()}}.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, rq.method, target.String(), body)
	if err != nil {
		return 0, nil, unclear("the request cannot be made")
	}
	r.Header.Set("Authorization", "Bearer "+w.apiKey.Reveal())
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(r)
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
