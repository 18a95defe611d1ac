package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/form"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// maxAnswer is larger than any answer: a hundred cards with all their metadata have some 4 MiB.
const maxAnswer = 8 << 20

// wire calls the vendor: each request is bounded and never repeated by itself.
type wire struct {
	backend stripego.Backend
	host    string
	origin  string
	key     secret.Text
	timeout time.Duration
	now     func() time.Time
	tracer  trace.Tracer
	metrics *telemetry.Metrics
	quota   *limit.Quota
}

// request is one request to the vendor.
type request struct {
	op, method, path string
	// route is the path without names in it, for traces.
	route  string
	params stripego.ParamsContainer
	// bind gives the parameters the context of the request.
	bind func(context.Context)
	// refusable is what Stripe can refuse for good: a change, or a cursor that is not ours.
	refusable bool
}

// unclear is an answer that leaves the outcome unknown. Its text is ours: the library's errors quote answers.
type unclear string

func (u unclear) Error() string { return string(u) }

// answer is what a request is answered with. The library decodes into it, so that a missing member shows.
type answer interface {
	stripego.LastResponseSetter
	// whole refuses what the documentation does not allow.
	whole() error
}

// send sends once. Its error is a *fulfilment.Refusal for a definite no; any other error leaves the outcome unknown.
func (w *wire) send(ctx context.Context, rq request, into answer) error {
	ctx, cancel := fault.Within(ctx, w.timeout)
	defer cancel()
	ctx, span := w.tracer.Start(ctx, "issuer "+rq.op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", rq.method),
		attribute.String("url.template", rq.route),
		attribute.String("server.address", w.host),
	))
	defer span.End()
	asked, outcome := w.now(), "ok"
	defer func() { w.metrics.Asked(ctx, Name, rq.op, outcome, w.now().Sub(asked)) }()
	rq.bind(ctx)
	// As the library sends lists; its Call does not take their parameters.
	encoded := &form.Values{}
	form.AppendTo(encoded, rq.params)
	err := w.quota.Wait(ctx)
	if err == nil {
		err = w.backend.CallRaw(
			rq.method, rq.path, w.key.Reveal(), []byte(encoded.Encode()), rq.params.GetParams(), into)
	}
	if err == nil {
		err = into.whole()
	} else {
		err = understand(ctx, err, rq.refusable)
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		outcome = "refused"
		span.SetAttributes(attribute.String("issuer.refusal", no.Code))
	} else if err != nil && fault.Gone(ctx) {
		outcome, err = "abandoned", fault.Ended(ctx, err)
	} else if err != nil {
		outcome = "unknown"
		span.SetStatus(otelcodes.Error, err.Error())
	}
	return err
}

// definite are the codes of requests that Stripe has checked and not run. A request without a code is one of them.
var definite = map[stripego.ErrorCode]bool{
	"":                                            true,
	stripego.ErrorCodeAmountTooLarge:              true,
	stripego.ErrorCodeAmountTooSmall:              true,
	stripego.ErrorCodeParameterInvalidEmpty:       true,
	stripego.ErrorCodeParameterInvalidInteger:     true,
	stripego.ErrorCodeParameterInvalidStringBlank: true,
	stripego.ErrorCodeParameterMissing:            true,
	stripego.ErrorCodeParameterUnknown:            true,
	stripego.ErrorCodeParametersExclusive:         true,
	stripego.ErrorCodeResourceMissing:             true,
	stripego.ErrorCodeParameterInvalidStringEmpty: true,
}

// understand sorts an error into refused and unknown. Only what Stripe calls an invalid request is a refusal: above
// all, idempotency_error says that something did happen under this key.
func understand(ctx context.Context, err error, refusable bool) error {
	said, ok := errors.AsType[*stripego.Error](err)
	if !ok {
		for _, known := range []error{
			context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, outward.ErrTooLong,
		} {
			if errors.Is(err, known) || errors.Is(ctx.Err(), known) {
				return fmt.Errorf("no answer: %w", known)
			}
		}
		if u, ok := errors.AsType[unclear](err); ok {
			return u
		}
		if errors.Is(err, limit.ErrQuota) {
			return limit.ErrQuota
		}
		return unclear("the connection broke, or the answer does not match the documentation")
	}
	if !refusable || said.HTTPStatusCode != http.StatusBadRequest || said.Type != stripego.ErrorTypeInvalidRequest ||
		!definite[said.Code] {
		return unclear(fmt.Sprintf("status %d: %s %s", said.HTTPStatusCode, quote(string(said.Type)),
			quote(string(said.Code))))
	}
	code := fulfilment.RefusedRequest
	if said.Param == "cardholder" {
		code = card.RefusedHolder
	}
	return &fulfilment.Refusal{Code: code, Message: quote(said.Msg)}
}

// quote makes a vendor's text fit for an error and a log: short, on one line, without long numbers.
func quote(s string) string {
	digits := 0
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			if digits++; digits > 6 {
				return '*'
			}
			return r
		}
		if r != ' ' && r != '-' {
			digits = 0
		}
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	const most = 160
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// guard is what the library does not do: it takes no status for a success but 200, and calls an API that is below a
// path.
type guard struct {
	next  http.RoundTripper
	under string
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	// It says what the program runs on.
	r = r.Clone(r.Context())
	r.Header.Del("X-Stripe-Client-User-Agent")
	r.URL.Path = g.under + r.URL.Path
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode < http.StatusBadRequest {
		_ = resp.Body.Close()
		return nil, unclear(fmt.Sprintf("status %d", resp.StatusCode))
	}
	return resp, nil
}
