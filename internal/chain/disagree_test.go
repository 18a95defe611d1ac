package chain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestVerdictNeedsTwoNodesToExpire lets the preferred node deny every use of an authorization. It does not become void
// at its end while the other nodes show the transfer.
func TestVerdictNeedsTwoNodesToExpire(t *testing.T) {
	b := newBench(t)
	c, err := chain.New(t.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: b.denying()}, {URL: b.url}, {URL: b.url}}, Domain: domain,
		Finality: chain.Finality{Paid: "latest", Dead: "safe"}, CallTimeout: 10 * time.Second, Now: b.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	verdictOf := func(p payment.Payment) payment.Verdict {
		t.Helper()
		v, err := c.Verdict(t.Context(), p.Authorization, p.CreatedAt.Add(-5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	moved, unused := b.claim(buyer(0)), b.claim(buyer(1))
	b.submit(moved)
	b.settles(moved)
	if v := verdictOf(moved); v.State != payment.Settled {
		t.Errorf("denied, in time: %+v, want moved at the first look", v)
	}
	b.pass(200)
	b.mine(2)
	if v := verdictOf(moved); v.State != payment.Settled {
		t.Errorf("denied, its time over: %+v, want settled", v)
	}
	if v := verdictOf(unused); v.State != payment.Void || v.Reason != payment.ReasonExpired {
		t.Errorf("both agree: %+v, want void, expired", v)
	}
}

// inventing is a node before the bench's that invents a reason against every payment.
func (b *bench) inventing() string {
	b.Helper()
	return b.lying(func(q question) string {
		if q.Method == "eth_call" && q.has("0xe3ee160e") {
			return `"error":{"code":3,"message":"execution reverted"}`
		}
		return ""
	})
}

// TestUsedIsNotTakenForTooPoor: one node invents a reason against a payment that has moved, and the others refuse it
// because it has. That is the reason then: by another one the sale would be given to others.
func TestUsedIsNotTakenForTooPoor(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.submit(p)
	b.settles(p)
	b.mine(2)
	invents := b.inventing()
	for name, nodes := range map[string][]string{
		"first of three": {invents, b.url, b.url}, "last of three": {b.url, b.url, invents},
		"first of two": {invents, b.url}, "second of two": {b.url, invents},
	} {
		got := b.reasonOf(b.over(nodes...).Simulate(t.Context(), p.Authorization, p.Signature))
		if got != x402.ReasonNonceUsed {
			t.Errorf("%s: %q, want %q", name, got, x402.ReasonNonceUsed)
		}
	}
}

// TestOneRefusalAloneIsNone: one node invents a reason against a good payment while the others say nothing of it. It is
// not known then whether it would move.
func TestOneRefusalAloneIsNone(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	silent := b.answersTo("eth_call", `"error":{"code":-32005,"message":"too many requests"}`)
	for name, nodes := range map[string][]string{
		"of three": {b.inventing(), silent, silent}, "of two": {b.inventing(), silent},
	} {
		err := b.over(nodes...).Simulate(t.Context(), p.Authorization, p.Signature)
		if _, refused := errors.AsType[*payment.Rejection](err); refused || err == nil {
			t.Errorf("%s: %v, want an error that is no refusal", name, err)
		}
	}
}

// denying is a node before the bench's that knows of no used authorization.
func (b *bench) denying() string {
	b.Helper()
	const authorizationState = "e94a0102"
	return b.telling(func(call []byte) (any, bool) {
		return fmt.Sprintf("0x%064x", 0), bytes.Contains(call, []byte(authorizationState))
	})
}

// telling is a node before the bench's that has results of its own for some calls.
func (b *bench) telling(of func(call []byte) (result any, has bool)) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Errorf("read a call: %v", err)
		}
		w.Header().Set("Content-Type", "application/json")
		if result, has := of(body); has {
			var call struct{ ID json.RawMessage }
			if err := json.Unmarshal(body, &call); err != nil {
				b.Errorf("read a call: %v", err)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
			return
		}
		res, err := http.Post(b.url, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Errorf("pass a call on: %v", err)
			return
		}
		defer res.Body.Close()
		_, _ = io.Copy(w, res.Body) // the caller sees a cut answer
	}))
	b.Cleanup(server.Close)
	return server.URL
}
