package endtoend_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// request is one call by a client.
type request struct {
	at     *instance // the first one when nil
	method string    // POST when empty
	path   string
	body   string
	header map[string]string
}

// get is a GET request.
func get(path string) request { return request{method: http.MethodGet, path: path} }

// post is a POST request; an empty body is none.
func post(path, body string) request {
	return request{method: http.MethodPost, path: path, body: body}
}

// on is the request as it is sent to one of several instances.
func (r request) on(i *instance) request {
	r.at = i
	return r
}

// with is the request with more headers.
func (r request) with(header map[string]string) request {
	all := map[string]string{}
	maps.Copy(all, r.header)
	maps.Copy(all, header)
	r.header = all
	return r
}

// withHeader is the request with one more header.
func (r request) withHeader(name, value string) request {
	return r.with(map[string]string{name: value})
}

// paying is the request with a payment header; an empty one is none.
func (r request) paying(payment string) request {
	if payment == "" {
		return r
	}
	return r.withHeader(x402.HeaderSignature, payment)
}

// as is the request in a buyer's session, from where the buyer is.
func (r request) as(b *buyer) request { return r.with(b.bearer()) }

// answer is what came back. problem is set for every answer of 400 and more that holds one.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem problem
	// err is set when nothing came back.
	err error
	// again sends the same request once more, for the test t.
	again func() answer
	t     *testing.T
}

// problem is a problem document of the service's.
type problem struct {
	Type           string `json:"type"`
	Title          string `json:"title"`
	Status         int    `json:"status"`
	Detail         string `json:"detail"`
	Code           string `json:"code"`
	Retryable      *bool  `json:"retryable"`
	SafeToPayAgain *bool  `json:"safeToPayAgain"`
	NextAction     string `json:"nextAction"`
	RequestID      string `json:"requestId"`
	OrderID        string `json:"orderId"`
}

var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       60 * time.Second,
}

// send makes a call and reads its answer to the end.
func (w *world) send(r request) answer {
	if r.at == nil {
		r.at = w.instances[0]
	}
	if r.method == "" {
		r.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, r.at.url+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{err: err}
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	sent := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	a := read(res)
	a.again, a.t = func() answer { return w.send(r) }, w.t
	w.recordAnswer(r, a, sent)
	return a
}

// settled is the answer once the outcome of the payment that the request claimed is known: the request is repeated as
// its answers advise. On a busy machine a block takes longer than a request waits.
func (a answer) settled() answer {
	if !a.unsettled() {
		return a
	}
	return untilClear(a.t, answer.unsettled, func(int) answer {
		a = a.again()
		return a
	})
}

// unsettled says that the request claimed a payment whose outcome is not known yet.
func (a answer) unsettled() bool {
	return a.again != nil && a.is(fault.SettlementUnknown) && a.problem.OrderID != ""
}

// worthRepeating says that the same request may have another answer: there was none, or it says so, and that the
// payment must not be replaced.
func (a answer) worthRepeating() bool {
	return a.err != nil || a.status == http.StatusServiceUnavailable &&
		a.problem.Retryable != nil && *a.problem.Retryable && !*a.problem.SafeToPayAgain
}

// untilClear is the answer to the nth try to send something: the first that is clear, or the last one of a test whose
// wait is over.
func untilClear(t *testing.T, unclear func(answer) bool, send func(n int) answer) answer {
	ctx, cancel := waitContext(t)
	defer cancel()
	for n := 0; ; n++ {
		if a := send(n); !unclear(a) || ctx.Err() != nil {
			return a
		}
		pause(100 * time.Millisecond) // clock: spaces out the tries
	}
}

// pause spaces out the tries of a client; no test waits for anything by it.
func pause(d time.Duration) { <-time.After(d) }

// awaited is the answer to compare with a wanted status. What must succeed is repeated for as long as its answers say
// that the same request may do so later and that nothing must be paid anew, as every client of the service's does.
func (a answer) awaited(status int) answer {
	unclear := func(a answer) bool { return a.err == nil && a.again != nil && a.worthRepeating() }
	if status != http.StatusOK || !unclear(a) {
		return a
	}
	return untilClear(a.t, unclear, func(int) answer {
		a = a.again()
		return a
	})
}

func read(res *http.Response) answer {
	a := answer{status: res.StatusCode, header: res.Header}
	a.body, a.err = io.ReadAll(res.Body)
	if a.status >= http.StatusBadRequest && json.Unmarshal(a.body, &a.problem) != nil {
		a.problem = problem{}
	}
	return a
}

// into decodes the answer, which must have the status, at the latest once its payment's outcome is known.
func (a answer) into(t *testing.T, status int, v any) {
	t.Helper()
	a = a.awaited(status)
	if a.err != nil || a.status != status {
		t.Fatalf("status %d (%v), want %d: %s", a.status, a.err, status, a.body)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// wantStatus checks an answer's status, as into does.
func wantStatus(t *testing.T, what string, a answer, status int) {
	t.Helper()
	a = a.awaited(status)
	if a.err != nil || a.status != status {
		t.Errorf("%s: %d %s %v, want %d", what, a.status, clipped(a.body), a.err, status)
	}
}

// wantProblem checks an answer's status and the code of its problem document.
func wantProblem(t *testing.T, what string, a answer, status int, code fault.Code) {
	t.Helper()
	if a.status != status || !a.is(code) {
		t.Errorf("%s: %d %s %v, want %d %s", what, a.status, clipped(a.body), a.err, status, code)
	}
}

// is reports whether the answer is a problem with this code.
func (a answer) is(code fault.Code) bool { return a.problem.Code == string(code) }
