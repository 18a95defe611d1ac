package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/outward"
)

// fakeNode answers JSON-RPC as its handler says; the handler writes the "result" or "error" member.
type fakeNode struct {
	*httptest.Server
	calls atomic.Int64
}

const result, failure = `"result":%s`, `"error":{"code":%d,"message":%q}`

func newNode(t *testing.T, answer func(method string) string) *fakeNode {
	t.Helper()
	n := &fakeNode{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Errorf("request: %v", err)
		}
		member := fmt.Sprintf(result, `"0x2105"`)
		if request.Method != "eth_chainId" {
			n.calls.Add(1)
			member = answer(request.Method)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, member)
	}))
	t.Cleanup(n.Close)
	return n
}

func always(member string) func(string) string { return func(string) string { return member } }

func ok(value string) func(string) string { return always(fmt.Sprintf(result, value)) }

func fails(code int, message string) func(string) string {
	return always(fmt.Sprintf(failure, code, message))
}

// clock is a hand-set clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// client is that of production, whose calls end by their own contexts here.
func client() *http.Client { return Config{CallTimeout: 2 * time.Minute}.client() }

func openPool(t *testing.T, c *clock, nodes ...*fakeNode) *pool {
	t.Helper()
	var endpoints []Endpoint
	for _, n := range nodes {
		endpoints = append(endpoints, Endpoint{URL: n.URL + "/v1/secret-key"})
	}
	p, err := newPool(t.Context(), endpoints, client(), 8453, 200*time.Millisecond, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func TestPoolRetriesNodeErrorsOnly(t *testing.T) {
	const call, send, receipt = "eth_call", "eth_sendRawTransaction", "eth_getTransactionReceipt"
	tests := []struct {
		name, method string
		first        func(string) string
		retried      bool
	}{
		{"over rate limit", call, fails(-32016, "over rate limit"), true},
		{"limit exceeded", call, fails(-32005, "limit exceeded"), true},
		{"internal error", call, fails(-32603, "internal error"), true},
		{"unknown block at geth", call, fails(-32000, "header not found"), true},
		{"unknown block at anvil", call, fails(-32001, "Resource not found"), true},
		{"method missing", call, fails(-32601, "the method does not exist"), true},
		{"null", call, ok("null"), true},
		{"revert", call, fails(3, "execution reverted"), false},
		{"nonce too low", send, fails(-32000, "nonce too low"), false},
		{"underpriced", send, fails(-32000, "replacement transaction underpriced"), false},
		{"an error instead of a receipt", receipt, fails(-32000, "leveldb: closed"), true},
		{"a revert instead of a receipt", receipt, fails(3, "execution reverted"), true},
		{"an error instead of a block", "eth_getBlockByNumber", fails(-32000, "leveldb: closed"), true},
		{"an error instead of an account nonce", "eth_getTransactionCount", fails(-32000, "leveldb: closed"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good := newNode(t, ok(`"0x1"`))
			p := openPool(t, &clock{}, newNode(t, tt.first), good)
			var answer string
			err := p.call(t.Context(), &answer, tt.method)
			if tt.retried && (err != nil || answer != "0x1") {
				t.Errorf("answer %q, %v, want the second node's", answer, err)
			}
			if !tt.retried && (err == nil || !isAnswer(err) || good.calls.Load() != 0) {
				t.Errorf("%v after %d calls of the second node, want the first one's answer", err, good.calls.Load())
			}
		})
	}
}

func TestPoolBacksOffFromSilentNode(t *testing.T) {
	hang := make(chan struct{})
	silent := newNode(t, func(string) string { <-hang; return fmt.Sprintf(result, `"0x0"`) })
	t.Cleanup(func() { close(hang) })
	good := newNode(t, ok(`"0x1"`))
	c := &clock{now: time.Unix(1_790_000_000, 0)}
	p := openPool(t, c, silent, good)
	for range 5 {
		var answer string
		if err := p.call(t.Context(), &answer, "eth_test"); err != nil || answer != "0x1" {
			t.Fatalf("answer %q, %v", answer, err)
		}
	}
	if n := silent.calls.Load(); n != maxFailures {
		t.Errorf("the silent node was asked %d times, want %d", n, maxFailures)
	}
	c.pass(minPause)
	if err := p.call(t.Context(), nil, "eth_test"); err != nil {
		t.Fatal(err)
	}
	if n := silent.calls.Load(); n != maxFailures+1 {
		t.Errorf("after the pause the silent node was asked %d times, want %d", n, maxFailures+1)
	}
}

func TestPoolAsksFailingNodeWhenThereIsNoOther(t *testing.T) {
	var healthy atomic.Bool
	node := newNode(t, func(string) string {
		if healthy.Load() {
			return fmt.Sprintf(result, `"0x1"`)
		}
		return fmt.Sprintf(failure, -32603, "internal error")
	})
	p := openPool(t, &clock{}, node)
	for range maxFailures {
		if err := p.call(t.Context(), nil, "eth_test"); err == nil {
			t.Fatal("no error")
		}
	}
	healthy.Store(true)
	if err := p.call(t.Context(), nil, "eth_test"); err != nil {
		t.Errorf("the only node, recovered: %v", err)
	}
}

func TestPoolReportsNotFoundWhenAllNodesAgree(t *testing.T) {
	null, broken := newNode(t, ok("null")), newNode(t, fails(-32603, "internal error"))
	if err := openPool(t, &clock{}, null, newNode(t, ok("null"))).call(t.Context(), nil,
		"eth_test"); !errors.Is(err, errNotFound) {
		t.Errorf("two nulls: %v", err)
	}
	if err := openPool(t, &clock{}, null, broken).call(t.Context(), nil, "eth_test"); !errors.Is(err, errIncomplete) ||
		errors.Is(err, errNotFound) {
		t.Errorf("a null and a fault: %v", err)
	}
}

func TestBroadcastSendsToEveryNode(t *testing.T) {
	taken, known, broken := newNode(t, ok(`"0x1"`)), newNode(t, fails(-32000, "already known")),
		newNode(t, fails(-32603, "internal error"))
	if err := openPool(t, &clock{}, broken, known, taken).broadcast(t.Context(), []byte{2}); err != nil {
		t.Error(err)
	}
	for i, n := range []*fakeNode{taken, known, broken} {
		if n.calls.Load() != 1 {
			t.Errorf("node %d got it %d times", i, n.calls.Load())
		}
	}
	if err := openPool(t, &clock{}, broken, known).broadcast(t.Context(), []byte{2}); err != nil {
		t.Errorf("already known: %v", err)
	}
	if err := openPool(t, &clock{}, broken).broadcast(t.Context(), []byte{2}); err == nil {
		t.Error("taken by nobody, without an error")
	}
}

func TestPoolRefusesNodeOfAnotherChain(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":"0x1"}`)
	}))
	t.Cleanup(other.Close)
	good := newNode(t, ok(`"0x1"`))
	_, err := newPool(
		t.Context(), []Endpoint{{URL: good.URL}, {URL: other.URL}}, client(), 8453, time.Second, time.Now,
	)
	if _, wrong := errors.AsType[*wrongChainError](err); !wrong {
		t.Errorf("%v, want the wrong chain named", err)
	}
}

func TestPoolErrorsDoNotContainEndpointKey(t *testing.T) {
	statusOnly := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no secret-key here", http.StatusServiceUnavailable)
	}))
	t.Cleanup(statusOnly.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, base := range []string{statusOnly.URL, closed.URL} {
		_, err := newPool(
			t.Context(), []Endpoint{{URL: base + "/v1/secret-key"}}, client(), 8453, time.Second, time.Now,
		)
		if err == nil || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("error %v", err)
		}
	}
}

// TestNodeSendsNobodyElsewhere: what is asked, and a transaction that is signed, goes to nodes that were named.
func TestNodeSendsNobodyElsewhere(t *testing.T) {
	elsewhere := newNode(t, func(string) string {
		t.Error("a redirect was followed")
		return fmt.Sprintf(result, `"0x2105"`)
	})
	away := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	_, err := newPool(t.Context(), []Endpoint{{URL: away.URL}}, client(), 8453, time.Minute, time.Now)
	if err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("%v, want the status told", err)
	}
}

func TestPoolBoundsAnswerLength(t *testing.T) {
	endless := newNode(t, func(string) string { return fmt.Sprintf(result, `"`+strings.Repeat("0", maxResponse)+`"`) })
	p := openPool(t, &clock{}, endless)
	p.timeout = 2 * time.Minute
	if err := p.call(t.Context(), nil, "eth_test"); !errors.Is(err, outward.ErrTooLong) {
		t.Errorf("%v, want %v", err, outward.ErrTooLong)
	}
}

func TestPoolCallEndsWithContext(t *testing.T) {
	hang := make(chan struct{})
	silent := newNode(t, func(string) string { <-hang; return fmt.Sprintf(result, `"0x0"`) })
	t.Cleanup(func() { close(hang) })
	p := openPool(t, &clock{}, silent, silent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.call(ctx, nil, "eth_test"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}
