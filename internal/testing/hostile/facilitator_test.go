package hostile_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

// facilitators are attacks by a facilitator that settles first.
func facilitators(f *impostor) []attack {
	does := func(mode string) func(*trial) { return func(r *trial) { f.serves(r, mode) } }
	return []attack{
		{
			name: "facilitator-claims-success", ref: "A24", by: facilitator, do: does("lies"),
			aim:     "goods without money: it says that a payment has settled",
			defence: "what it answers decides nothing; the transfer's log does",
		},
		{
			name: "facilitator-refuses-everything", ref: "A41", by: facilitator, do: does("refuses"),
			held:    "facilitator TestCollectorTrustsChainOnly",
			aim:     "buyers are told that their payment is no good, and nothing is sold",
			defence: "its refusal decides nothing; the relayer acts after its turn",
		},
		{
			name: "facilitator-hangs", ref: "A41", by: facilitator, do: does("hangs"),
			held:    "facilitator TestSubmitTimesOut",
			aim:     "every settlement waits for it",
			defence: "a call has a timeout, and the relayer acts after its turn",
		},
		{
			name: "facilitator-answers-without-end", by: facilitator, do: does("floods"), torture: true,
			aim:     "memory",
			defence: "answers are read up to 1 MiB",
		},
		{
			name: "facilitator-sends-us-elsewhere", ref: "API10", by: facilitator, do: does("redirects"), torture: true,
			aim:     "the signed payment and our token go to an address of its choice",
			defence: "redirects are not followed",
		},
	}
}

// The program settles by a facilitator first, and the facilitator is the attacker's.
func TestHostileFacilitator(t *testing.T) {
	w := newWorld(t)
	f := &impostor{}
	server := httptest.NewServer(f)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	token := "facilitator-" + uuid.NewString()
	w.keep("the facilitator's token", token)
	f.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.followed.Add(1) }))
	t.Cleanup(f.elsewhere.Close)
	w.start("SETTLEMENT__ORDER", "facilitator,relayer", "SETTLEMENT__FALLBACK_DELAY", "1s", "FACILITATOR__URL", server.URL,
		"FACILITATOR__TOKEN", token)
	mount(t, w, facilitators(f))
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

// impostor is a facilitator that says it can do everything.
type impostor struct {
	mode      atomic.Value
	asked     atomic.Int64
	followed  atomic.Int64
	elsewhere *httptest.Server
}

// ServeHTTP implements http.Handler.
func (f *impostor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/supported") {
		// or it has gone
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kinds": []any{map[string]any{"x402Version": 2, "scheme": "exact", "network": "eip155:8453"}},
		})
		return
	}
	f.asked.Add(1)
	mode, _ := f.mode.Load().(string)
	switch mode {
	case "lies":
		_ = json.NewEncoder(w).Encode(map[string]any{ // or it has gone
			"success": true, "transaction": "0x" + strings.Repeat("ab", 32), "network": "eip155:8453",
			"payer": "0x" + strings.Repeat("11", 20),
		})
	case "refuses":
		// as well
		_ = json.NewEncoder(w).Encode(map[string]any{
			"success": false, "errorReason": "insufficient_funds", "transaction": "", "network": "eip155:8453",
		})
	case "hangs":
		select {
		case <-r.Context().Done():
		case <-time.After(30 * time.Second): // clock: longer than a call may take
		}
	case "floods":
		for range 64 << 10 {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<10))); err != nil {
				return
			}
		}
	case "redirects":
		http.Redirect(w, r, f.elsewhere.URL, http.StatusTemporaryRedirect)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// serves sells while the facilitator misbehaves: nothing is delivered that was not paid, and all that was.
func (f *impostor) serves(r *trial, mode string) {
	f.mode.Store(mode)
	asked := f.asked.Load()
	before := r.programs[0].memory()
	for range sized(2, 6) {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		header := p.pays(r, p.terms(r, esimPath, body)).header(r)
		r.await("the purchase is answered", func() error {
			a := p.offers(r.Context(), esimPath, body, header)
			if a.status != http.StatusOK {
				return errorOf(a)
			}
			return nil
		})
		if !r.paid(p) {
			r.Error("it was delivered without money")
		}
		r.exactly(p, 1)
	}
	if f.asked.Load() == asked {
		r.Error("the facilitator was not asked")
	}
	if f.followed.Load() != 0 {
		r.Errorf("%d requests went elsewhere", f.followed.Load())
	}
	r.flat(before)
}
