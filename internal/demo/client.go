package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/telemetry"
)

const (
	// callTimeout is longer than a paid request waits for its settlement.
	callTimeout = 30 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
)

// client speaks the service's REST face.
type client struct {
	http *http.Client
	base string
}

// Problem is a failure as the service told it (RFC 9457).
type Problem struct {
	Status     int              `json:"status"`
	Code       fault.Code       `json:"code"`
	Title      string           `json:"title"`
	Detail     string           `json:"detail"`
	Retryable  bool             `json:"retryable"`
	NextAction fault.NextAction `json:"nextAction"`
	RequestID  string           `json:"requestId"`
	OrderID    string           `json:"orderId"`

	// Call is the method and path that were answered; Header is the answer's.
	Call   string      `json:"-"`
	Header http.Header `json:"-"`
}

// Error says what happened and what to do about it.
func (p *Problem) Error() string {
	text := fmt.Sprintf("%s answered %d %s: %s", p.Call, p.Status, p.Code, p.Detail)
	if p.OrderID != "" {
		text += " (order " + p.OrderID + ")"
	}
	text += " Next: " + p.next()
	if p.RequestID != "" {
		text += " Request id: " + p.RequestID + "."
	}
	return text
}

// next is the next action as a sentence.
func (p *Problem) next() string {
	if p.Code == fault.CardAlreadyExists {
		return "use another wallet; one wallet owns one card."
	}
	switch p.NextAction {
	case fault.RetrySameRequest:
		return "repeat the same request with the same payment; never sign another one for it."
	case fault.WaitAndRetry:
		return "wait and run it again."
	case fault.PollOrder:
		return "look at the order until it changes."
	case fault.SignNewPayment:
		return "run it again; no money moved and a new payment is safe."
	case fault.FixRequest:
		return "correct the request; repeating it unchanged will not help."
	case fault.SignIn:
		return "sign in again."
	case fault.ContactSupport:
		return "ask the service's operators."
	}
	return "see the service's log."
}

// again says whether the same bytes may get another answer, and how long to wait before sending them.
func (p *Problem) again(standard time.Duration) (time.Duration, bool) {
	switch {
	case p.Retryable, p.Status >= 500, p.Status == http.StatusTooManyRequests,
		p.Status == http.StatusRequestTimeout, p.Status == http.StatusTooEarly:
	default:
		return 0, false
	}
	if s, err := strconv.Atoi(p.Header.Get("Retry-After")); err == nil && s >= 0 {
		return time.Duration(s) * time.Second, true
	}
	return standard, true
}

// get reads a document.
func (c client) get(ctx context.Context, path string, token telemetry.Secret, out any) error {
	_, err := c.call(ctx, http.MethodGet, path, bearer(token), nil, out)
	return err
}

// post sends a document, or nothing when in is nil, and reads the answer.
func (c client) post(ctx context.Context, path string, token telemetry.Secret, in, out any) (err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	_, err = c.call(ctx, http.MethodPost, path, bearer(token), body, out)
	return err
}

// call makes one request. An answer that is no success is a *Problem.
func (c client) call(ctx context.Context, method, path string, header http.Header, body []byte, out any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := c.request(ctx, method, path, header, body)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return nil, problemOf(method+" "+path, res, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return res.Header, nil
}

func (c client) request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request %s %s: %w", method, path, err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// problemOf reads a failure. What is not a problem document keeps its status.
func problemOf(call string, res *http.Response, data []byte) *Problem {
	p := &Problem{}
	if err := json.Unmarshal(data, p); err != nil || p.Code == "" {
		p = &Problem{Code: fault.Code("http_" + strconv.Itoa(res.StatusCode)), Detail: http.StatusText(res.StatusCode) + "."}
	}
	p.Status, p.Call, p.Header = res.StatusCode, call, res.Header
	return p
}

func bearer(token telemetry.Secret) http.Header {
	if token.IsZero() {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + token.Reveal()}}
}
