package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// nodeProxy is a JSON-RPC node that stands before the real one and misbehaves on demand.
type nodeProxy struct {
	url string

	mu     sync.Mutex
	calls  map[string]int
	faults []nodeFault
}

// nodeFault spoils calls of a method.
type nodeFault struct {
	method string
	mode   nodeMode
	// only spoils calls whose parameters hold this text.
	only string
	// times is how many calls are left to spoil; 0 spoils until cleared.
	times int
	// delay is how long a slow answer takes.
	delay time.Duration
	// before runs before the call is passed on.
	before func()
}

// nodeMode is a way to misbehave.
type nodeMode string

// The modes. "After" means that the node has carried the call out.
const (
	passOn      nodeMode = "pass on"
	hangUp      nodeMode = "hang up before"
	hangUpAfter nodeMode = "hang up after"
	failBefore  nodeMode = "error before"
	failAfter   nodeMode = "error after"
	status500   nodeMode = "status 500"
	status429   nodeMode = "status 429"
	answerNull  nodeMode = "null"
	answerEmpty nodeMode = "empty list"
	answerOld   nodeMode = "the answer of before"
	answerJunk  nodeMode = "not JSON"
	answerSlow  nodeMode = "slow"
	swallow     nodeMode = "taken and dropped"
)

// newNodeProxy makes a proxy before a node.
func newNodeProxy(t *testing.T, target string) *nodeProxy {
	t.Helper()
	p := &nodeProxy{calls: map[string]int{}}
	old := map[string][]byte{}
	var oldMu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked struct {
			ID     json.RawMessage   `json:"id"`
			Method string            `json:"method"`
			Params []json.RawMessage `json:"params"`
		}
		if err != nil || json.Unmarshal(body, &asked) != nil {
			panic(http.ErrAbortHandler)
		}
		f := p.take(asked.Method, body)
		if f.before != nil {
			f.before()
		}
		result := func(v string) []byte {
			return []byte(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,` + v + `}`)
		}
		forward := func() []byte {
			res, err := http.Post(target, "application/json", bytes.NewReader(body))
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer res.Body.Close()
			answer, err := io.ReadAll(res.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			return answer
		}
		w.Header().Set("Content-Type", "application/json")
		key := asked.Method
		switch f.mode {
		case hangUp:
			panic(http.ErrAbortHandler)
		case hangUpAfter:
			forward()
			panic(http.ErrAbortHandler)
		case failBefore:
			_, _ = w.Write(result(`"error":{"code":-32603,"message":"internal error"}`))
		case failAfter:
			forward()
			_, _ = w.Write(result(`"error":{"code":-32603,"message":"internal error"}`))
		case status500:
			http.Error(w, "upstream", http.StatusBadGateway)
		case status429:
			http.Error(w, "slow down", http.StatusTooManyRequests)
		case answerNull:
			_, _ = w.Write(result(`"result":null`))
		case answerEmpty:
			_, _ = w.Write(result(`"result":[]`))
		case answerJunk:
			_, _ = w.Write([]byte("<html>maintenance</html>"))
		case swallow:
			_, _ = w.Write(result(`"result":"0x` + string(bytes.Repeat([]byte("00"), 32)) + `"`))
		case answerOld:
			oldMu.Lock()
			answer, known := old[key]
			oldMu.Unlock()
			if !known {
				answer = forward()
			}
			var a struct{ Result, Error json.RawMessage }
			if json.Unmarshal(answer, &a) == nil && a.Result != nil {
				_, _ = w.Write(result(`"result":` + string(a.Result)))
			} else {
				_, _ = w.Write(result(`"error":` + string(a.Error)))
			}
		case answerSlow:
			answer := forward()
			timer := time.NewTimer(f.delay)
			defer timer.Stop()
			select {
			case <-timer.C:
				_, _ = w.Write(answer)
			case <-r.Context().Done():
			}
		default:
			answer := forward()
			oldMu.Lock()
			old[key] = answer
			oldMu.Unlock()
			_, _ = w.Write(answer)
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.url = server.URL
	return p
}

// spoil adds a fault; the oldest that fits a call is used.
func (p *nodeProxy) spoil(f nodeFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
}

func (p *nodeProxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

func (p *nodeProxy) take(method string, body []byte) nodeFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[method]++
	at := slices.IndexFunc(p.faults, func(f nodeFault) bool {
		return (f.method == method || f.method == "*") && bytes.Contains(body, []byte(f.only))
	})
	if at < 0 {
		return nodeFault{mode: passOn}
	}
	f := p.faults[at]
	switch f.times {
	case 0:
	case 1:
		p.faults = slices.Delete(p.faults, at, at+1)
	default:
		p.faults[at].times--
	}
	return f
}

// asked counts the calls so far, by method.
func (p *nodeProxy) asked() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}
