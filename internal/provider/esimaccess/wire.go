package esimaccess

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// wire calls the vendor: each call is signed, paced and bounded, and never repeated by itself.
type wire struct {
	base               *url.URL
	accessCode, secret secret.Text
	http               *http.Client
	timeout            time.Duration
	pace               *rate.Limiter
	now                func() time.Time
	tracer             trace.Tracer
	metrics            *telemetry.Metrics
}

// The sizes that no documented answer reaches. The catalogue lists every operator of every country of every package.
const (
	maxAnswer    = 1 << 20
	maxProfiles  = 4 << 20
	maxCatalogue = 32 << 20
)

// request is one call to the vendor, always a POST.
type request struct {
	op   string
	path string
	body any
	// most is the longest answer; maxAnswer if zero.
	most int64
	// confidential answers: nothing of what they say, not even an error text, goes into an error.
	confidential bool
	// known is our error for one of the vendor's codes, or nil when the code leaves the outcome unknown. May be nil.
	known func(code, message string) error
}

// errAllocating says that the vendor has the order and still allocates its profile.
var errAllocating = errors.New("the profile is being allocated")

// send sends once and decodes a success into an answer. Its error is what the request knows of the vendor's code; any
// other error leaves the outcome unknown.
func (w *wire) send(ctx context.Context, rq request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ctx, span := w.tracer.Start(ctx, "supplier "+rq.op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", http.MethodPost),
		attribute.String("url.template", "/api/v1/open/"+rq.path),
		attribute.String("server.address", w.base.Host),
	))
	defer span.End()
	asked, outcome := w.now(), "ok"
	defer func() { w.metrics.Asked(ctx, Name, rq.op, outcome, w.now().Sub(asked)) }()
	status, answer, err := w.exchange(ctx, rq)
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	settled := false
	if err == nil {
		settled, err = understand(status, answer, rq, into)
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		outcome = "refused"
		span.SetAttributes(attribute.String("supplier.refusal", no.Code))
	} else if !settled {
		outcome = "unknown"
		span.SetStatus(otelcodes.Error, err.Error())
	}
	return err
}

// exchange is one round trip.
func (w *wire) exchange(ctx context.Context, rq request) (status int, answer []byte, err error) {
	body, err := json.Marshal(rq.body)
	if err != nil {
		return 0, nil, fmt.Errorf("encode the request: %w", err)
	}
	if err := w.pace.Wait(ctx); err != nil {
		return 0, nil, fmt.Errorf("wait for the rate limit: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base.JoinPath(rq.path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, unclear("the request cannot be made")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	timestamp, id := strconv.FormatInt(w.now().UnixMilli(), 10), uuid.NewString()
	r.Header.Set("RT-AccessCode", w.accessCode.Reveal())
	r.Header.Set("RT-Timestamp", timestamp)
	r.Header.Set("RT-RequestID", id)
	r.Header.Set("RT-Signature", signature(w.secret, timestamp, id, w.accessCode, body))
	resp, err := w.http.Do(r)
	if err != nil {
		return 0, nil, fmt.Errorf("no answer: %w", cause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	most := rq.most
	if most == 0 {
		most = maxAnswer
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("half an answer: %w", cause(err))
	}
	if int64(len(answer)) > most {
		return resp.StatusCode, nil, unclear("the answer is too long")
	}
	return resp.StatusCode, answer, nil
}

// signature is the HMAC-SHA256 of all that the vendor signs, in lower-case hex.
func signature(key secret.Text, timestamp, id string, accessCode secret.Text, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	for _, part := range [][]byte{[]byte(timestamp), []byte(id), []byte(accessCode.Reveal()), body} {
		_, _ = mac.Write(part) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// cause is what broke a round trip, in words that cannot quote the answer.
func cause(err error) error {
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return known
		}
	}
	return unclear("the connection broke")
}
