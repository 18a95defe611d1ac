package simulation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// way carries the requests of a process to what is outside of it, on the bus.
type way struct {
	of  *process
	bus *bus
	// hosts are what answers, by name.
	hosts map[string]http.Handler
	// down reports whether a host does not answer.
	down func(host string) bool
	// delayed are the requests that are on their way although who sent them has given up or died.
	delayed *sync.WaitGroup
}

// orders are how the paths end at which goods are ordered. They are not sent again before a provider is sure not to
// have them; other changes are, so that a late one of them would undo what came after it.
var orders = []string{"/orders", "/esim/order", "/cards"}

// comesLater reports whether a request happens only after who sent it has been told that it is lost, or has died. It
// does so then.
func (w *way) comesLater(r *http.Request, after time.Duration, happen func()) bool {
	ordering := func(end string) bool { return strings.HasSuffix(r.URL.Path, end) }
	if after == 0 || r.Method != http.MethodPost || !slices.ContainsFunc(orders, ordering) {
		return false
	}
	w.delayed.Go(func() {
		time.Sleep(after)
		late := newProcess("late", func() {})
		late.immortal = true
		if _, err := w.bus.ask(late, nameOf(r, nil), nil); err == nil {
			happen()
		}
	})
	return true
}

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	to, ok := w.hosts[r.URL.Hostname()]
	if !ok {
		return nil, fmt.Errorf("there is no host %s", r.URL.Hostname())
	}
	g, err := w.bus.ask(w.of, nameOf(r, body), r.Context().Done())
	if err == nil {
		err = g.before(w.of)
	}
	if err != nil {
		return nil, ended(r, err)
	}
	if w.down(r.URL.Hostname()) {
		return nil, errBroken
	}
	asked := r.Clone(r.Context())
	asked.Body, asked.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	asked.RemoteAddr, asked.RequestURI = "127.0.0.1:40000", r.URL.RequestURI()
	if w.comesLater(r, g.delay, func() {
		to.ServeHTTP(httptest.NewRecorder(), asked.WithContext(context.WithoutCancel(r.Context())))
	}) {
		return nil, ended(r, g.after(w.of, nil))
	}
	answer, answered := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(answered)
		to.ServeHTTP(answer, asked)
	}()
	select {
	case <-answered:
	case <-r.Context().Done():
		return nil, ended(r, errGone)
	case <-w.of.dead:
		return nil, ended(r, errDead)
	}
	if err := g.after(w.of, r.Context().Done()); err != nil {
		return nil, ended(r, err)
	}
	response := answer.Result()
	response.Request = r
	return response, nil
}

// ended is the error of a request, or of its context where that has ended.
func ended(r *http.Request, err error) error {
	if gone := r.Context().Err(); gone != nil {
		return gone
	}
	return err
}

// nameOf names a request: the method of a node, or the verb and the path of a provider.
func nameOf(r *http.Request, body []byte) string {
	host, _, _ := strings.Cut(r.URL.Hostname(), ".")
	var rpc struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &rpc) == nil && rpc.Method != "" {
		sum := fnv.New32a()
		sum.Write(rpc.Params)
		return fmt.Sprintf("%s %s %08x", host, rpc.Method, sum.Sum32())
	}
	return host + " " + r.Method + " " + r.URL.RequestURI()
}
