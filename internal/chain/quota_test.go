package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
)

// answering is a node that answers at once, and counts by its name.
type answering struct {
	mu    sync.Mutex
	calls map[string]int
}

// RoundTrip implements http.RoundTripper.
func (n *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	var request struct{ ID json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[r.URL.Host]++
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":"0x2105"}`, request.ID))),
	}, nil
}

// TestStrangersLeaveTheNodesToSettlement: whatever asks whether payments would move, half of each node's quota is there
// for what settles them. A node that was not asked has not failed.
func TestStrangersLeaveTheNodesToSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := &answering{calls: map[string]int{}}
		p, err := newPool(t.Context(), []Endpoint{{URL: "http://one", PerSecond: 8}, {URL: "http://two", PerSecond: 8}},
			&http.Client{Transport: nodes}, 8453, time.Second, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		time.Sleep(time.Second) // what asked for the chain's id is not counted any more
		clear(nodes.calls)
		var refused atomic.Int64
		var strangers sync.WaitGroup
		for range 40 {
			strangers.Go(func() {
				err := p.call(limit.WithUse(t.Context(), limit.ForOwner), nil, "eth_call")
				if errors.Is(err, limit.ErrQuota) {
					refused.Add(1)
				} else if err != nil {
					t.Errorf("a stranger's call: %v", err)
				}
			})
		}
		synctest.Wait()
		if n := nodes.calls["one"] + nodes.calls["two"]; n > 8 {
			t.Errorf("strangers make %d calls of 16", n)
		}
		began := time.Now()
		for range 4 {
			if err := p.call(t.Context(), nil, "eth_getTransactionReceipt"); err != nil {
				t.Errorf("what settles: %v", err)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("settling waits %s", waited)
		}
		strangers.Wait()
		if refused.Load() == 0 {
			t.Error("every stranger is served")
		}
		for _, e := range p.endpoints {
			if e.circuit.isFailing(time.Now()) {
				t.Error("a node that was not asked counts as failed")
			}
		}
	})
}
