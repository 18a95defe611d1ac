package endtoend_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

// nodeProxy is a JSON-RPC node that stands before the real one and misbehaves on demand.
type nodeProxy struct {
	url, target string

	mu     sync.Mutex
	calls  map[string]int
	faults []nodeFault
	// old are the last right answers, by question, and by method those that show something.
	old map[string][]byte
}

// nodeFault is injected into calls of a method.
type nodeFault struct {
	method string
	mode   nodeMode
	// only limits it to calls whose parameters hold this text.
	only string
	// times is how many more calls fail; with 0 they fail until it is cleared.
	times int
	// delay is how long a slow answer takes; lag is how many blocks are missing, and head the last block of a stuck node.
	delay time.Duration
	lag   uint64
	head  uint64
	// before runs before the call is passed on.
	before func()
	// lie is a forger's answer, a member "result" or "error"; an empty one passes the call on.
	lie func(c nodeCall) string
}

// nodeMode is a way to misbehave.
type nodeMode string

// The modes. "After" means that the node has executed the call.
const (
	passOn        nodeMode = "pass on"
	hangUp        nodeMode = "hang up before"
	hangUpAfter   nodeMode = "hang up after"
	failBefore    nodeMode = "error before"
	failAfter     nodeMode = "error after"
	status500     nodeMode = "status 500"
	status429     nodeMode = "status 429"
	answerNull    nodeMode = "null"
	answerEmpty   nodeMode = "empty list"
	answerOld     nodeMode = "the answer of before"
	answerOther   nodeMode = "the answer to another question"
	answerJunk    nodeMode = "not JSON"
	answerSlow    nodeMode = "slow"
	acceptAndDrop nodeMode = "taken and dropped"
	// behind answers as a node does that has not heard of the newest blocks; lag says of how many.
	behind nodeMode = "behind"
	// stuck answers as a node that hears of no new block any more; head is its last one.
	stuck nodeMode = "stuck"
	// The next ones are lies.
	denyUse     nodeMode = "the authorization is unused"
	inventBlock nodeMode = "a receipt of a block that is none"
	otherChain  nodeMode = "another chain"
	forge       nodeMode = "made up"
)

// What only the questions for logs hold that decide about a payment on its way: those for what took its authorization,
// and those for the transfer itself. All others are about payers before a claim, and about what is safe.
var (
	asksForUse      = x402.TopicCanceled.String()
	asksForTransfer = "blockHash"
)

// newNodeProxy makes a proxy before a node.
func newNodeProxy(t *testing.T, target string) *nodeProxy {
	t.Helper()
	p := &nodeProxy{target: target, calls: map[string]int{}, old: map[string][]byte{}}
	server := httptest.NewServer(p)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.url = server.URL
	return p
}

// nodeCall is one call as it came in.
type nodeCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
	body   []byte
}

func (c nodeCall) question() string { return fmt.Sprintf("%s%s", c.Method, c.Params) }

// answer is a whole answer with a member "result" or "error".
func (c nodeCall) answer(member string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,` + member + `}`)
}

// ServeHTTP implements http.Handler.
func (p *nodeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c nodeCall
	var err error
	if c.body, err = io.ReadAll(r.Body); err != nil || json.Unmarshal(c.body, &c) != nil {
		panic(http.ErrAbortHandler)
	}
	f := p.nextFault(c.Method, c.body)
	if f.before != nil {
		f.before()
	}
	w.Header().Set("Content-Type", "application/json")
	switch f.mode {
	case status500:
		http.Error(w, "upstream", http.StatusBadGateway)
	case status429:
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case answerSlow:
		answer := p.forward(c)
		timer := time.NewTimer(f.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			_, _ = w.Write(answer)
		case <-r.Context().Done():
		}
	case behind:
		head := p.blockQuantity("eth_blockNumber")
		_, _ = w.Write(p.knowing(c, head-min(head, f.lag)))
	case stuck:
		_, _ = w.Write(p.knowing(c, f.head))
	case forge:
		if member := f.lie(c); member != "" {
			_, _ = w.Write(c.answer(member))
			return
		}
		_, _ = w.Write(p.forward(c))
	default:
		_, _ = w.Write(p.faulty(f.mode, c))
	}
}

// faulty is what a mode makes of a call's answer.
func (p *nodeProxy) faulty(mode nodeMode, c nodeCall) []byte {
	const failure = `"error":{"code":-32603,"message":"internal error"}`
	switch mode {
	case hangUp:
		panic(http.ErrAbortHandler)
	case hangUpAfter:
		p.forward(c)
		panic(http.ErrAbortHandler)
	case failBefore:
		return c.answer(failure)
	case failAfter:
		p.forward(c)
		return c.answer(failure)
	case answerNull:
		return c.answer(`"result":null`)
	case answerEmpty:
		return c.answer(`"result":[]`)
	case answerJunk:
		return []byte("<html>maintenance</html>")
	case acceptAndDrop:
		return c.answer(`"result":"0x` + strings.Repeat("00", 32) + `"`)
	case denyUse:
		return c.answer(`"result":"0x` + strings.Repeat("00", 32) + `"`)
	case inventBlock:
		return c.answer(`"result":{"status":"0x1","blockNumber":"0x1","blockHash":"0x` + strings.Repeat("ab", 32) + `"}`)
	case otherChain:
		return c.answer(`"result":"0x1"`)
	case answerOld:
		return p.earlier(c, c.question())
	case answerOther:
		return p.earlier(c, c.Method)
	default:
		answer := p.forward(c)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.old[c.question()] = answer
		if !bytes.Contains(answer, []byte(`"result":[]`)) { // an empty list is no other answer than an empty list
			p.old[c.Method] = answer
		}
		return answer
	}
}

// earlier is an earlier answer under this call's id, or the right one when there is none.
func (p *nodeProxy) earlier(c nodeCall, to string) []byte {
	p.mu.Lock()
	answer, known := p.old[to]
	p.mu.Unlock()
	if !known {
		return p.forward(c)
	}
	var a struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(answer, &a); err != nil || a.Result == nil {
		return c.answer(`"error":` + string(a.Error))
	}
	return c.answer(`"result":` + string(a.Result))
}

func (p *nodeProxy) forward(c nodeCall) []byte {
	res, err := http.Post(p.target, "application/json", bytes.NewReader(c.body))
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

// inject adds a fault; the oldest that fits a call is used.
func (p *nodeProxy) inject(f nodeFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
}

func (p *nodeProxy) clearFaults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

// faultsLeft is how many calls have yet to fail, of those that are counted.
func (p *nodeProxy) faultsLeft() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		n += f.times
	}
	return n
}

func (p *nodeProxy) nextFault(method string, body []byte) nodeFault {
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

// callCounts counts the calls so far, by method.
func (p *nodeProxy) callCounts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}
