package roamcardtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What a When.On may say in addition to a path.
const (
	// Paid are the requests that bring a payment, Unpaid those that ask a price.
	Paid, Unpaid = "paid", "unpaid"
)

// When names the requests that a fault is for.
type When struct {
	// On is Paid, Unpaid, or how the path begins; empty is every request.
	On string
	// Nth is the first of these requests that it hits, counted from when the fault was made without those that a
	// fault before it hits; zero is the first.
	Nth int
	// Times is how many it hits one after the other; zero is one, and a negative number all that follow.
	Times int
	// Before says that it hits before the service has the request, which the service then never gets.
	Before bool
}

// Answer is what is answered instead of what the service says.
type Answer struct {
	Status      int
	ContentType string
	Body        string
}

// Faults is what goes wrong between a client and a service. The first fault that fits a request hits it, alone.
// It is safe for concurrent use.
type Faults struct {
	mu       sync.Mutex
	faults   []*fault
	requests []Request
}

// Request is one that came.
type Request struct {
	Path string
	// Payment is its PAYMENT-SIGNATURE header.
	Payment string
	// Fault is the one that hit it, by its method, as in "LoseAnswer".
	Fault string
}

type fault struct {
	When
	kind   string
	seen   int
	cut    int
	hold   time.Duration
	answer *Answer
	twice  bool
	lose   bool
}

// LoseAnswer ends the connection in place of the answer.
func (f *Faults) LoseAnswer(w When) { f.add(fault{When: w, kind: "LoseAnswer", lose: true}) }

// CutAnswer ends the connection after so many bytes of the answer's body; a negative number counts from its end.
func (f *Faults) CutAnswer(w When, bytes int) {
	f.add(fault{When: w, kind: "CutAnswer", lose: true, cut: bytes})
}

// Delay holds the answer, or the request with When.Before, which the service gets then.
func (f *Faults) Delay(w When, d time.Duration) { f.add(fault{When: w, kind: "Delay", hold: d}) }

// Answer answers so.
func (f *Faults) Answer(w When, a Answer) { f.add(fault{When: w, kind: "Answer", answer: &a}) }

// Unavailable answers 503, as the service does when something it needs is down.
func (f *Faults) Unavailable(w When) {
	body := encode(problemOf("dependency_down", "The fault says so.", "fault"))
	f.add(fault{When: w, kind: "Unavailable",
		answer: &Answer{http.StatusServiceUnavailable, "application/problem+json", body}})
}

// Page answers 200 with a page of HTML, as a proxy does.
func (f *Faults) Page(w When) {
	f.add(fault{When: w, kind: "Page", answer: &Answer{http.StatusOK, "text/html", "<html>Thank you</html>"}})
}

// Repeat lets the request come to the service twice, as by a proxy that tries again; the second answer is given.
func (f *Faults) Repeat(w When) { f.add(fault{When: w, kind: "Repeat", twice: true}) }

// Clear forgets all faults and requests.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults, f.requests = nil, nil
}

// Requests are those that came, oldest first.
func (f *Faults) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *Faults) add(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.Nth, one.Times = max(one.Nth, 1), max(one.Times, -1)
	if one.Times == 0 {
		one.Times = 1
	}
	f.faults = append(f.faults, &one)
}

var priced = regexp.MustCompile(`/api/card/(purchase|topup)$|/api/esim/(purchase|orders/[^/]+/topup)$|/pay/[^/]+$|` +
	`Service/(PurchaseCard|TopUpCard|PurchaseEsim|TopUpEsim|PayOrder)$`)

// next is the fault that hits a request.
func (f *Faults) next(req *http.Request) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := Request{Path: req.URL.Path, Payment: req.Header.Get("Payment-Signature")}
	var hit *fault
	for _, one := range f.faults {
		if !one.fits(seen) {
			continue
		}
		one.seen++
		if one.seen >= one.Nth && (one.Times < 0 || one.seen < one.Nth+one.Times) {
			hit, seen.Fault = one, one.kind
			break
		}
	}
	f.requests = append(f.requests, seen)
	return hit
}

func (w When) fits(r Request) bool {
	switch w.On {
	case "":
		return true
	case Paid:
		return r.Payment != ""
	case Unpaid:
		return r.Payment == "" && priced.MatchString(r.Path)
	}
	return strings.HasPrefix(r.Path, w.On)
}

var errLost = errors.New("the fault ended the connection")

// Transport puts the faults before a network; nil is http.DefaultTransport. It is a fault proxy before a real
// service, for clients of this process.
func (f *Faults) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return faultyTransport{f, next}
}

type faultyTransport struct {
	faults *Faults
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t faultyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	hit := t.faults.next(req)
	if hit == nil {
		return t.next.RoundTrip(req)
	}
	body, err := readAll(req.Body)
	if err != nil {
		return nil, err
	}
	again := func() (*http.Response, []byte, error) {
		one := req.Clone(req.Context())
		one.Body = io.NopCloser(bytes.NewReader(body))
		res, err := t.next.RoundTrip(one)
		if err != nil {
			return nil, nil, err
		}
		answer, err := readAll(res.Body)
		return res, answer, err
	}
	return hit.apply(req, again)
}

// apply makes the exchange as the fault will have it.
func (f *fault) apply(req *http.Request, ask func() (*http.Response, []byte, error)) (*http.Response, error) {
	if f.hold > 0 && f.Before {
		if err := wait(req, f.hold); err != nil {
			return nil, err
		}
	}
	res, body := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req},
		[]byte(nil)
	if !f.Before || f.hold > 0 {
		times := 1
		if f.twice {
			times = 2
		}
		for range times {
			var err error
			if res, body, err = ask(); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case f.hold > 0 && !f.Before:
		if err := wait(req, f.hold); err != nil {
			return nil, err
		}
	case f.answer != nil:
		body, res.StatusCode = []byte(f.answer.Body), f.answer.Status
		res.Status = strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
		res.Header = http.Header{"Content-Type": {f.answer.ContentType}}
	case f.lose && (f.cut == 0 || f.Before):
		return nil, errLost
	}
	res.ContentLength = int64(len(body))
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	if f.lose {
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:f.passing(len(body))]), broken{}))
		return res, nil
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// passing is how many bytes of a body pass before the connection ends.
func (f *fault) passing(all int) int {
	if f.cut < 0 {
		return max(0, all+f.cut)
	}
	return min(f.cut, all)
}

type broken struct{}

// Read implements io.Reader.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func wait(req *http.Request, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-req.Context().Done():
		return req.Context().Err()
	}
}

func readAll(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(body)
	return data, errors.Join(err, body.Close())
}
