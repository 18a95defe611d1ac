// Package vendorfake is what the servers that play vendors have in common: the way of a request, and the control API.
//
//	client ─ HTTP ─▶ Front.Serve: count, authenticate, wait, then a fault or the fake's own books
//	tests ── HTTP ─▶ Front.Control: the books, and the faults that are still to come; for this machine alone
//
// A fake adds its wire format and its books. Nothing here knows a vendor, or the adapter that is tested against it.
package vendorfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Reply is an answer before it is written.
type Reply struct {
	Status int
	Body   json.RawMessage
	// Header is set besides the Content-Type.
	Header map[string]string
}

// JSON is an answer with a body. One that cannot be encoded is a mistake of the fake, and panics.
func JSON(status int, body any) Reply {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic("vendorfake: encode an answer: " + err.Error())
	}
	return Reply{Status: status, Body: encoded}
}

// Text is an answer that is no JSON, as of something between the vendor and its client.
func Text(status int, text string) Reply {
	return Reply{status, []byte(text + "\n"), map[string]string{"Content-Type": "text/plain; charset=utf-8"}}
}

// Write answers.
func (r Reply) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range r.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // the client may have disconnected
}

// Read decodes a whole body and nothing but the members that are known.
func Read(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the body")
	}
	return nil
}

// Call is one request, its body read.
type Call struct {
	*http.Request
	Body []byte
	// Hide is how long its effect stays out of look-ups, which the fault Late asks for; zero shows it.
	Hide time.Duration
}

// Vendor says what one vendor's requests go through, and how they go wrong. Refuse, Failed and Edit are needed; what
// else is nil is left out.
type Vendor struct {
	// Ops are the operations that requests are counted and go wrong by.
	Ops []string
	// Authenticate refuses a request that is not the client's.
	Authenticate func(c Call) (no Reply, refused bool)
	// Reference is the client's own name of what a request is for, by which they are counted, too.
	Reference func(body []byte) string
	// Latency delays every answer.
	Latency time.Duration
	// Log has a line of each request.
	Log *slog.Logger

	// Modes are the ways to go wrong besides those that every request has, with the operations that have each; none
	// stands for all of them.
	Modes map[Mode][]string
	// Refuse answers a request that goes wrong before it has an effect, where the mode is one that does.
	Refuse func(f Fault, r *http.Request) (no Reply, ok bool)
	// Failed is the vendor's answer when a request went wrong after its effect, with a text.
	Failed func(text string) Reply
	// Replace answers in the place of an answer, where a mode of the vendor's own does.
	Replace func(mode Mode, answer Reply) (instead Reply, ok bool)
	// Hold is how long a request is held that is not answered, when the fault does not say.
	Hold time.Duration
	// Huge is how many spaces are before an answer that is too long.
	Huge int
	// Conceal hides the last effect from look-ups, for the fault Late, where Call.Hide is not enough.
	Conceal func()
	// Inside is the member that an answer is in, where there is an envelope around it, and Lists are the members of an
	// answer that are lists of objects.
	Inside string
	Lists  []string
	// Edit changes one object of an answer.
	Edit func(mode Mode, one map[string]any)
}

// Front is what every request to a vendor goes through. It is safe for concurrent use.
type Front struct {
	vendor  Vendor
	closing chan struct{}
	close   sync.Once

	mu       sync.Mutex
	faults   []Fault // the oldest first
	requests map[string]int
	sent     map[string]int
}

// New makes a Front.
func New(v Vendor) *Front {
	if v.Log == nil {
		v.Log = slog.New(slog.DiscardHandler)
	}
	return &Front{vendor: v, closing: make(chan struct{}), requests: map[string]int{}, sent: map[string]int{}}
}

// Close releases the requests that are held.
func (f *Front) Close() { f.close.Do(func() { close(f.closing) }) }

// Closing is closed by Close.
func (f *Front) Closing() <-chan struct{} { return f.closing }

const maxRequest = 256 << 10

// Serve wraps an operation in what every request goes through.
func (f *Front) Serve(op func(Call) string, do func(Call) Reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Read to the end first: only then does the server notice that the client has hung up.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		c := Call{Request: r, Body: body}
		name := op(c)
		f.Count(name)
		if f.vendor.Reference != nil {
			f.countSent(f.vendor.Reference(body))
		}
		if f.vendor.Authenticate != nil {
			if no, refused := f.vendor.Authenticate(c); refused {
				no.Write(w)
				return
			}
		}
		if f.vendor.Latency > 0 && !f.wait(r, f.vendor.Latency) {
			return
		}
		bad, faulty := f.take(name)
		f.vendor.Log.InfoContext(r.Context(), "sandbox request", "op", name, "fault", string(bad.Mode))
		if !faulty {
			do(c).Write(w)
			return
		}
		f.misbehave(w, bad, c, do)
	}
}

// Always is the operation of requests that are all of one.
func Always(op string) func(Call) string { return func(Call) string { return op } }

// Count counts a request that does not come through Serve.
func (f *Front) Count(op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[op]++
}

// Requests counts what arrived, by operation, whatever the answer was.
func (f *Front) Requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.requests)
}

func (f *Front) countSent(reference string) {
	if reference == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent[reference]++
}

// Sent counts what arrived by the client's references, see Vendor.Reference. Those without one are not counted.
func (f *Front) Sent() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.sent)
}

// wait is false when the client or the server went away meanwhile.
func (f *Front) wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-f.closing:
	}
	return false
}
