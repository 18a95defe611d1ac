package esimgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// maxAnswer is larger than a page of the catalogue.
const maxAnswer = 4 << 20

// wire calls the vendor: each call is bounded and never repeated by itself.
type wire struct {
	base    *url.URL
	apiKey  secret.Text
	http    *http.Client
	timeout time.Duration
	now     func() time.Time
	tracer  trace.Tracer
	metrics *telemetry.Metrics
}

// request is one call to the vendor.
type request struct {
	op     string
	method string
	path   []string
	// route is the path without names in it, for traces.
	route string
	query url.Values
	body  any
}

// unclear is an answer that settles nothing. Its text is ours: any answer may quote activation data.
type unclear string

func (u unclear) Error() string { return string(u) }

// failure is an answer other than 200.
type failure struct {
	status int
	// stated says that the body is the vendor's own, and not a proxy's page.
	stated bool
	// processing says that the vendor asks to come again.
	processing bool
}

func (f *failure) Error() string { return fmt.Sprintf("status %d", f.status) }

// declined is a documented no: 400, or 404 for a name, in the vendor's own form. 403 is none, as it stands for a bad
// key, too, nor is anything else.
func declined(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.stated && (f.status == http.StatusBadRequest || f.status == http.StatusNotFound)
}

// call sends once and decodes a success into an answer.
func (w *wire) call(ctx context.Context, rq request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ctx, span := w.tracer.Start(ctx, "esim-go "+rq.op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", rq.method),
		attribute.String("url.template", rq.route),
		attribute.String("server.address", w.base.Host),
	))
	defer span.End()
	asked, outcome := w.now(), "ok"
	defer func() { w.metrics.Asked(ctx, Name, rq.op, outcome, w.now().Sub(asked)) }()
	err := w.exchange(ctx, rq, into)
	switch {
	case declined(err):
		outcome = "refused"
	case err != nil:
		outcome = "unknown"
		span.SetStatus(otelcodes.Error, err.Error())
	}
	return err
}

// exchange is one round trip. It is never repeated here: only the caller knows whether that is safe.
func (w *wire) exchange(ctx context.Context, rq request, into any) error {
	var body io.Reader
	if rq.body != nil {
		encoded, err := json.Marshal(rq.body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	target := w.base.JoinPath()
	for _, segment := range rq.path {
		target = target.JoinPath(url.PathEscape(segment))
	}
	target.RawQuery = rq.query.Encode()
	r, err := http.NewRequestWithContext(ctx, rq.method, target.String(), body)
	if err != nil {
		return unclear("the request cannot be made")
	}
	r.Header.Set("X-API-Key", w.apiKey.Reveal())
	// Without it, installation details come as CSV.
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.http.Do(r)
	if err != nil {
		return fmt.Errorf("no answer: %w", cause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("half an answer: %w", cause(err))
	case len(answer) > maxAnswer:
		return unclear("the answer is too long")
	case resp.StatusCode != http.StatusOK:
		return &failure{
			status: resp.StatusCode, stated: stated(answer),
			processing: resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "",
		}
	case decode(answer, into) != nil:
		return unclear("the answer does not match the documentation")
	}
	return nil
}

// stated recognises the vendor's own form of a failure: an object with a message, and nothing that was made.
func stated(answer []byte) bool {
	var said struct {
		Message   *string `json:"message"`
		Reference string  `json:"orderReference"`
	}
	return decode(answer, &said) == nil && said.Message != nil && said.Reference == ""
}

// decode reads one whole JSON value. The vendor may add members, which are ignored.
func decode(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return unclear("there is something behind the answer")
	}
	return nil
}

// cause is what broke a round trip, in words that quote neither an address nor an answer.
func cause(err error) error {
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, io.EOF} {
		if errors.Is(err, known) {
			return known
		}
	}
	return unclear("the connection broke")
}
