package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// logLimit stands before a node and refuses to show more than so many logs at once, as the nodes of every provider do.
func logLimit(t *testing.T, node string, most int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		res, err := http.Post(node, "application/json", bytes.NewReader(asked))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		var call struct {
			ID     json.RawMessage
			Method string
		}
		var logs struct{ Result []json.RawMessage }
		if json.Unmarshal(asked, &call) == nil && call.Method == "eth_getLogs" && json.Unmarshal(answer, &logs) == nil &&
			len(logs.Result) > most {
			answer = fmt.Appendf(nil,
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32005,"message":"query returned more than %d results"}}`, call.ID, most)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// read keeps what a Scanner reads.
type read struct {
	mu   sync.Mutex
	at   reconcile.Scan
	all  []reconcile.Transfer
	left []uint64
}

func (r *read) Scanned(context.Context) (reconcile.Scan, error) { return r.at, nil }

func (r *read) Arrive(_ context.Context, first, next uint64, found []reconcile.Transfer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = reconcile.Scan{First: first, Next: max(next, r.at.Next), Begun: true}
	for _, f := range found {
		if !slices.Contains(r.all, f) {
			r.all = append(r.all, f)
		}
	}
	return nil
}

func (r *read) Blocks(context.Context, int) ([]uint64, error) { return slices.Clone(r.left), nil }

func (r *read) LeaveOut(_ context.Context, block uint64, _ string) error {
	if !slices.Contains(r.left, block) {
		r.left = append(r.left, block)
	}
	return nil
}

func (r *read) Caught(_ context.Context, block uint64) error {
	r.left = slices.DeleteFunc(r.left, func(b uint64) bool { return b == block })
	return nil
}

// TestTransfersSurviveFloodOfEmptyTransfers emits more transfers of zero than the node returns at once, over many
// blocks and in one. The transfers around them are read. The oversized block is skipped, reported, and read from a
// node that returns more.
func TestTransfersSurviveFloodOfEmptyTransfers(t *testing.T) {
	const most = 8
	b := newBench(t)
	start := func() uint64 {
		t.Helper()
		safe, err := b.chain.Safe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return safe
	}
	b.mine(3)
	first := start()
	for range 2 * most {
		b.sendAs(buyer(1), token, transferCall(b.payee, 0))
	}
	b.sendAs(buyer(0), token, transferCall(b.payee, 7))
	// One block of nothing, with one transfer in it.
	b.control("evm_setAutomine", false)
	for range most + 1 {
		b.post(buyer(1), token, transferCall(b.payee, 0))
	}
	b.post(buyer(0), token, transferCall(b.payee, 9))
	b.mine(1)
	b.control("evm_setAutomine", true)
	b.sendAs(buyer(0), token, transferCall(b.payee, 11))
	b.mine(5)

	through := func(url string) *chain.Chain {
		t.Helper()
		c, err := chain.New(t.Context(),
			chain.Config{Endpoints: []chain.Endpoint{{URL: url}}, Domain: domain, CallTimeout: 10 * time.Second, Now: b.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	kept := &read{at: reconcile.Scan{First: first, Next: first, Begun: true}}
	scan := func(c *chain.Chain) {
		t.Helper()
		if err := reconcile.NewScanner(reconcile.ScannerConfig{Chain: c, Arrivals: kept, Unread: kept,
			PayTo: b.payee}).Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	values := func() (all []int64) {
		for _, f := range kept.all {
			all = append(all, int64(f.Value))
		}
		slices.Sort(all)
		return all
	}
	scan(through(logLimit(t, b.url, most)))
	if got := values(); !slices.Equal(got, []int64{7, 11}) || len(kept.left) != 1 || kept.at.Next != start()+1 {
		t.Fatalf("read %d, left out %d, up to %d of %d", got, kept.left, kept.at.Next, start())
	}
	scan(b.chain)
	if got := values(); !slices.Equal(got, []int64{7, 9, 11}) || len(kept.left) != 0 {
		t.Errorf("read %d, left out %d", got, kept.left)
	}
}
