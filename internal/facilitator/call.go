package facilitator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
)

// maxAnswer bounds an answer in bytes. Documented answers are far shorter.
const maxAnswer = 256 << 10

// answer is one complete answer of the facilitator.
type answer struct {
	status int
	body   []byte
}

// begin opens the span of a call. end records its result; the span never contains what was sent.
func (f *Facilitator) begin(
	ctx context.Context, op, method string,
) (_ context.Context, end func(status int, o outcome, err error)) {
	ctx, span := f.config.Tracer.Start(ctx, "facilitator "+op, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("http.request.method", method),
			attribute.String("url.template", "/"+op),
			attribute.String("server.address", f.base.Host),
		))
	return ctx, func(status int, o outcome, err error) {
		if status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if o != (outcome{}) {
			span.SetAttributes(
				attribute.String("facilitator.outcome", o.String()), attribute.String("facilitator.reason", o.reason),
			)
		}
		if _, refused := errors.AsType[*Refusal](err); err != nil && !refused {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// call sends one request and reads a bounded answer. It does not retry.
func (f *Facilitator) call(ctx context.Context, method, op string, body []byte) (answer, error) {
	ctx, cancel := fault.Within(ctx, f.config.Timeout)
	defer cancel()
	target := f.base.JoinPath(op)
	token, err := f.token(ctx, method, target)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("make the request")
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if !token.IsZero() {
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	resp, err := f.http.Do(r)
	if err != nil {
		return answer{}, fmt.Errorf("no answer: %w", outward.Cause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	got := answer{status: resp.StatusCode}
	got.body, err = outward.Read(resp.Body, maxAnswer)
	switch {
	case errors.Is(err, outward.ErrTooLong):
		return got, got.unclear("the answer is too long")
	case err != nil:
		return got, fmt.Errorf("half an answer: %w", err)
	case resp.StatusCode == http.StatusTooManyRequests:
		return got, &busyError{
			unclearError: unclearError{status: got.status, why: "too many requests"},
			after:        retryAfter(resp.Header, f.config.Now()),
		}
	}
	return got, nil
}

func (f *Facilitator) token(ctx context.Context, method string, target *url.URL) (secret.Text, error) {
	if f.config.TokenSource == nil {
		return f.config.Token, nil
	}
	token, err := f.config.TokenSource(ctx, method, target.Host, target.Path)
	if err != nil {
		return secret.Text{}, fmt.Errorf("make a token: %w", err)
	}
	return token, nil
}

// busyError is HTTP 429 with its Retry-After, which may be zero.
type busyError struct {
	unclearError
	after time.Duration
}

func (e *busyError) Unwrap() error { return &e.unclearError }

// retryAfter reads the header, which has seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(seconds, int(maxBackoff/time.Second))) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxBackoff)
}
