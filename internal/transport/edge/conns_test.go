package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/limit"
)

const hello = "GET /api/card/discovery HTTP/1.1\r\nHost: x\r\n\r\n"

// dial opens a connection without sending anything.
func (e *edge) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// answers reports whether a connection is served.
func answers(conn net.Conn) bool {
	if _, err := io.WriteString(conn, hello); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode > 0
}

// ended reports whether the other side has closed a connection.
func ended(conn net.Conn) bool {
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// awaitIdle waits until the server counts n idle connections.
func (e *edge) awaitIdle(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		e.conns.mu.Lock()
		idle := e.conns.idle.Len()
		e.conns.mu.Unlock()
		if idle == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are idle, want %d", idle, want)
		}
	}
}

func TestConnsLimitsConnectionsOfAddress(t *testing.T) {
	e := start(t, &shop{}, func(c *Config) { c.MaxConnsPerAddress = 3 })
	var open []net.Conn
	for range 3 {
		open = append(open, e.dial(t))
	}
	for i, conn := range open {
		if !answers(conn) {
			t.Errorf("connection %d is not served", i)
		}
	}
	if answers(e.dial(t)) {
		t.Error("a fourth connection is served")
	}
	e.awaitIdle(t, 3)
	// A closed one is replaced by another.
	open[0].Close()
	e.awaitIdle(t, 2)
	if !answers(e.dial(t)) {
		t.Error("there is no room after one has ended")
	}
	if answers(open[1]) != true {
		t.Error("another connection was closed for it")
	}
}

// strange is a connection from an address of the test's.
type strange struct {
	net.Conn
	from netip.AddrPort
}

func (s strange) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.from) }

func TestConnsLimitsConnectionsOfANetwork(t *testing.T) {
	c := newConns(Config{Now: time.Now, MaxConnsPerAddress: 3, MaxConns: 1000})
	opens := func(site, networks int) (open []net.Conn) {
		for i := range networks {
			conn := &strange{from: netip.MustParseAddrPort(fmt.Sprintf("[2001:db8:%x:%x::1]:1", site, i))}
			if c.take(conn) {
				open = append(open, conn)
			}
		}
		return open
	}
	if n := len(opens(1, 256)); n != 6 {
		t.Errorf("%d connections of a /56", n)
	}
	if n := len(opens(1, 65536)); n != 6 {
		t.Errorf("%d more of its /48", n)
	}
	others := opens(2, 1)
	if len(others) != 1 {
		t.Error("another network is refused")
	}
	for conn := range c.all {
		c.stateChanged(conn, http.StateClosed)
	}
	if len(c.perAddress) != 0 {
		t.Errorf("%v are counted when all are closed", c.perAddress)
	}
}

func TestConnsDoesNotLimitTrustedProxy(t *testing.T) {
	e := start(t, &shop{}, func(c *Config) {
		c.MaxConnsPerAddress, c.TrustedProxies = 3, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for i := range 10 {
		if !answers(e.dial(t)) {
			t.Errorf("connection %d is not served", i)
		}
	}
}

// TestConnsReplacesLongestIdleConnection opens as many connections as the limit, some that never send anything, some
// that have been served, in HTTP/1.1 and HTTP/2: another connection is still accepted.
func TestConnsReplacesLongestIdleConnection(t *testing.T) {
	busy, free := make(chan struct{}), make(chan struct{})
	e := start(t, &shop{purchase: func(context.Context) error { close(busy); <-free; return nil }},
		func(c *Config) { c.MaxConns = 6 })
	defer close(free)
	working := e.dial(t)
	if _, err := io.WriteString(working,
		"POST "+purchase+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "+
			"22\r\n\r\n"+string(key)); err != nil {
		t.Fatal(err)
	}
	<-busy
	h2 := overHTTP2(t)
	res, err := h2.Get(e.url + "/api/card/discovery")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	served := e.dial(t)
	if !answers(served) {
		t.Fatal("not served")
	}
	silent := []net.Conn{e.dial(t), e.dial(t), e.dial(t)}
	e.awaitIdle(t, 5)
	for i := range 12 {
		if !answers(e.dial(t)) {
			t.Errorf("caller %d is not served", i)
		}
	}
	for i, conn := range append(silent, served) {
		if !ended(conn) {
			t.Errorf("idle connection %d is held", i)
		}
	}
	// A connection with a running request is not replaced: the answer arrives.
	free <- struct{}{}
	if res, err := http.ReadResponse(bufio.NewReader(working), nil); err != nil || res.StatusCode != 200 {
		t.Errorf("the one at work: %v %v", res, err)
	}
}

// TestConnsRefusesNewConnectionWhenAllAreActive refuses a new one while requests run, and accepts one after they end.
func TestConnsRefusesNewConnectionWhenAllAreActive(t *testing.T) {
	for name, dial := range map[string]func() *http.Client{
		"HTTP/1.1": func() *http.Client { return &http.Client{Transport: &http.Transport{}} },
		"HTTP/2":   func() *http.Client { return overHTTP2(t) },
	} {
		t.Run(name, func(t *testing.T) {
			busy, free := make(chan struct{}, 2), make(chan struct{})
			e := start(t, &shop{purchase: func(context.Context) error { busy <- struct{}{}; <-free; return nil }},
				func(c *Config) { c.MaxConns = 2 })
			var calls sync.WaitGroup
			for range 2 {
				client := dial()
				calls.Go(func() {
					res, err := client.Post(e.url+purchase, "application/json", bytes.NewReader(key))
					if err != nil || res.StatusCode != 200 {
						t.Errorf("at work: %v %v", res, err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body) // or the client would give the connection up
					_ = res.Body.Close()
				})
			}
			<-busy
			<-busy
			if answers(e.dial(t)) {
				t.Error("a third connection is served")
			}
			close(free)
			calls.Wait()
			// Both clients keep their connections.
			e.awaitIdle(t, 2)
			if !answers(e.dial(t)) {
				t.Error("a connection is refused although all are idle")
			}
		})
	}
}

// TestServerCutsOffSlowSenders sends half a head, half a body, and nothing. What is read ends only when the server
// hangs up.
func TestServerCutsOffSlowSenders(t *testing.T) {
	t.Parallel()
	e := start(t, &shop{}, nil)
	var all sync.WaitGroup
	for name, sent := range map[string]string{
		"no head":     "",
		"half a head": "GET / HTTP/1.1\r\nHost: x\r\nX-",
		"half a body": "POST " + purchase +
			" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n{",
	} {
		all.Go(func() {
			conn := e.dial(t)
			_ = conn.SetDeadline(time.Time{})
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	all.Wait()
}

func TestThrottleLimitsConcurrentRequestsOfAddress(t *testing.T) {
	busy, free := make(chan struct{}, 8), make(chan struct{})
	var once sync.Once
	open := func() { once.Do(func() { close(free) }) }
	defer open()
	e := start(t, &shop{purchase: func(context.Context) error { busy <- struct{}{}; <-free; return nil }},
		func(c *Config) {
			c.Limits, c.MaxRequests = limit.New(limit.Rates{limit.Concurrent: {Count: 4}}, time.Now), 5
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		})
	h2 := overHTTP2(t) // all of them are streams of one connection
	call := func(from string) (int, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", e.url+purchase, bytes.NewReader(key))
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", from)
		res, err := h2.Do(r)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header
	}
	var calls sync.WaitGroup
	waits := func(from string) {
		calls.Go(func() {
			if status, _ := call(from); status != 200 {
				t.Errorf("from %s: %d", from, status)
			}
		})
		<-busy
	}
	for range 4 {
		waits("10.0.0.1")
	}
	for _, from := range []string{"10.0.0.1", "10.0.0.1"} {
		if status, h := call(from); status != 429 || h.Get("Retry-After") != "1" {
			t.Errorf("a fifth of an address: %d %v", status, h)
		}
	}
	waits("10.0.0.2")
	if status, h := call("10.0.0.3"); status != 429 || h.Get("Retry-After") != "1" {
		t.Errorf("a sixth of all: %d %v", status, h)
	}
	open()
	calls.Wait()
	if status, _ := call("10.0.0.1"); status != 200 {
		t.Errorf("once they have ended: %d", status)
	}
}

// TestHealthAndReflectionBoundMessages sends health and reflection a message of 1 MB, and a small one that unpacks to
// one.
func TestHealthAndReflectionBoundMessages(t *testing.T) {
	e := start(t, &shop{}, nil)
	h2 := overHTTP2(t)
	message := append([]byte{0x0a, 0x80, 0x80, 0x40}, bytes.Repeat([]byte("x"), 1<<20)...) // field 1, 1 MiB of text
	frame := append([]byte{0}, binary.BigEndian.AppendUint32(nil, uint32(len(message)))...)
	for _, procedure := range []string{
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", e.url+procedure,
			bytes.NewReader(append(bytes.Clone(frame), message...)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		res, err := h2.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", procedure, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		status := res.Trailer.Get("Grpc-Status")
		if status == "" {
			status = res.Header.Get("Grpc-Status")
		}
		if status != "8" { // resource_exhausted
			t.Errorf("%s: %d, grpc status %q", procedure, res.StatusCode, status)
		}
	}
	// The limit holds for a message after it is decompressed, too.
	client := e.clients(t)["Connect gzip"]
	big := &roamcardv1.PurchaseCardRequest{IdempotencyKey: strings.Repeat("x", 1<<20)}
	if _, err := client.PurchaseCard(t.Context(), big); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a compressed megabyte: %v", err)
	}
}

// TestThrottleCountsUnknownPaths requests paths with and without a route.
func TestThrottleCountsUnknownPaths(t *testing.T) {
	e := start(t, &shop{}, limited(limit.Rates{limit.Poll: {Count: 3, Per: time.Hour}}))
	for i, target := range []string{"/nope", "/api/card/discovery", "/roamcard.v1.CardService/Nope"} {
		if w := e.ask(t, "GET", target, nil); w.Code == 429 {
			t.Errorf("request %d: %d", i, w.Code)
		}
	}
	if w := e.ask(t, "GET", "/nope", nil); w.Code != 429 {
		t.Errorf("a fourth: %d", w.Code)
	}
}

// TestProblemOfManyWrongMembersIsShort sends thousands of unknown members.
func TestProblemOfManyWrongMembersIsShort(t *testing.T) {
	e := start(t, &shop{}, nil)
	var query, body strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&query, "&%x", i)
	}
	for i := 0; body.Len() < 60_000; i++ {
		fmt.Fprintf(&body, `,"%x":0`, i)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"a query": e.ask(t, "GET", "/api/card/discovery?"+query.String()[1:], nil),
		"a body": e.ask(t, "POST", purchase, []byte("{"+body.String()[1:4000]+"}"), "Content-Type",
			"application/json"),
		"a body, Connect": e.ask(t, "POST", "/roamcard.v1.CardService/PurchaseCard", []byte("{"+body.String()[1:]+"}"),
			"Content-Type", "application/json"),
		"a header's names": e.ask(t, "OPTIONS", purchase, nil, "Origin", "https://x.example",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", strings.Repeat("a,", 15_000)),
		"a path": e.ask(t, "GET", "/"+strings.Repeat("a/", 15_000), nil),
	} {
		if n := w.Body.Len() + len(fmt.Sprint(w.Header())); n > 8<<10 {
			t.Errorf("%s: %d, %d bytes", name, w.Code, n)
		}
	}
}
