package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/x402"
)

// front is what buyers reach: it passes each request to one of the servers, notes it with its answer, and is no better
// than the network. It loses answers, delays and doubles requests, and breaks connections.
type front struct {
	market *market
	addr   string
	http   *http.Client
	// doubles are the requests that nobody waits for.
	doubles sync.WaitGroup

	mu sync.Mutex
	// rng decides what becomes of a request; nil is a network that loses nothing.
	rng    *rand.Rand
	next   int
	payers map[string]string // by key
	seen   []history.Event
}

func newFront(m *market) *front {
	f := &front{market: m, payers: map[string]string{}, http: &http.Client{
		// Each request has a connection of its own: one of a killed server would fail.
		Transport: &http.Transport{DisableKeepAlives: true},
		Timeout:   time.Minute,
	}}
	server := httptest.NewServer(f)
	m.t.Cleanup(func() { server.CloseClientConnections(); server.Close(); f.doubles.Wait() })
	f.addr = strings.TrimPrefix(server.URL, "http://")
	return f
}

// knows tells who buys with a key.
func (f *front) knows(key, payer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.payers[key] = payer
}

// turn changes the network.
func (f *front) turn(rng *rand.Rand) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rng = rng
}

// history is what was asked and answered so far.
func (f *front) history() []history.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// fate is what becomes of a request.
type fate struct {
	// first is the server that gets it, and twice is another one that gets it too, after a while; none is -1.
	first, twice int
	// otherKey makes the second one a purchase with another key.
	otherKey bool
	// late is how long it is kept, and loses is after how long the connection breaks; zero is never.
	late, again, loses time.Duration
	// unanswered is a request whose answer is lost.
	unanswered bool
}

func (f *front) draw() fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	to := fate{first: f.next % len(f.market.servers), twice: -1}
	if f.rng == nil {
		return to
	}
	to.first = f.rng.IntN(len(f.market.servers))
	switch f.rng.IntN(20) {
	case 0, 1:
		to.unanswered = true
	case 2:
		to.loses = 1 + upTo(f.rng, 3*time.Second)
	case 3, 4:
		to.late = upTo(f.rng, 2*time.Second)
	case 5, 6, 7:
		to.twice, to.again = f.rng.IntN(len(f.market.servers)), upTo(f.rng, []time.Duration{
			5 * time.Millisecond, 100 * time.Millisecond, 10 * time.Second,
		}[f.rng.IntN(3)])
		to.otherKey = f.rng.IntN(6) == 0
	}
	return to
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	to := f.draw()
	ctx := r.Context()
	if to.twice >= 0 && r.Header.Get(x402.HeaderSignature) != "" {
		f.doubles.Go(func() { f.double(r.Clone(context.WithoutCancel(ctx)), body, to) })
	}
	if to.late > 0 && !pause(ctx, to.late) {
		return
	}
	if to.loses > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, to.loses)
		defer cancel()
	}
	response, text, err := f.pass(r.WithContext(ctx), body, to.first)
	if to.unanswered || err != nil {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(text) // to a client that may have gone
}

// double sends a request once more, as a network or a thief does.
func (f *front) double(r *http.Request, body []byte, to fate) {
	if !pause(r.Context(), to.again) {
		return
	}
	if to.otherKey {
		var asked map[string]any
		if json.Unmarshal(body, &asked) != nil {
			return
		}
		key, _ := asked["idempotencyKey"].(string)
		f.mu.Lock()
		f.payers[key+too] = f.payers[key]
		f.mu.Unlock()
		asked["idempotencyKey"] = key + too
		body, _ = json.Marshal(asked) // it was just read
	}
	_, _, _ = f.pass(r, body, to.twice) // nobody hears of it
}

// too is at the end of a key for which a payment was sent that somebody has signed for another.
const too = "-too"

// stolen reports whether a payment for a key may have paid for another one.
func (f *front) stolen(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.HasSuffix(key, too) || f.payers[key+too] != ""
}

// pass gives a request to a server, and notes what it answers.
func (f *front) pass(r *http.Request, body []byte, to int) (*http.Response, []byte, error) {
	addr := f.market.servers[to].addr
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+addr+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	out.Header = r.Header.Clone()
	out.Host = r.Host
	event := history.Event{Request: f.asked(r, body), From: time.Now()}
	response, err := f.http.Do(out)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(response.Body)
		_ = response.Body.Close() // it has been read
	}
	if err == nil {
		event.Reply, err = told(response.StatusCode, text)
	}
	event.To = time.Now()
	f.mu.Lock()
	f.seen = append(f.seen, event)
	f.mu.Unlock()
	return response, text, err
}

// asked is a request as the history knows it.
func (f *front) asked(r *http.Request, body []byte) history.Request {
	var members map[string]any
	_ = json.Unmarshal(body, &members) // what is no JSON has no key
	key, _ := members["idempotencyKey"].(string)
	delete(members, "idempotencyKey")
	rest, _ := json.Marshal(members) // it was just read
	f.mu.Lock()
	payer := f.payers[key]
	f.mu.Unlock()
	asked := history.Request{Payer: payer, Key: key, Body: r.URL.Path + " " + string(rest)}
	if header := r.Header.Get(x402.HeaderSignature); header != "" {
		asked.Paid = true
		if p, err := x402.DecodePayment(header); err == nil {
			asked.Nonce = p.Authorization.Nonce.String()
		}
	}
	return asked
}

// told is an answer as the history knows it.
func told(status int, text []byte) (history.Reply, error) {
	var body struct {
		OrderID        string
		Status         any
		Code           string
		SafeToPayAgain bool
		Payment        struct{ Transaction, Amount string }
	}
	if err := json.Unmarshal(text, &body); err != nil && status != http.StatusPaymentRequired {
		return history.Reply{}, errors.Join(errors.New("this is not JSON: "+string(text)), err)
	}
	reply := history.Reply{Status: status, Code: body.Code, Again: body.SafeToPayAgain}
	if status == http.StatusOK {
		reply.Order, reply.Transaction, reply.Amount = body.OrderID, body.Payment.Transaction, body.Payment.Amount
		reply.State, _ = body.Status.(string)
	}
	return reply, nil
}
