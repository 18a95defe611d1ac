package node

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/ethereum/go-ethereum/common"
)

// Node is what one node shows of the chain. It is an http.RoundTripper, which answers in place, and an http.Handler for
// those who ask over a listener.
type Node struct {
	chain *Chain
	// What follows is guarded by the chain's mutex.
	lag    int
	hidden map[common.Hash]bool
	forged []*entry
	lie    Lie
}

// Lie answers a call in a node's place: with what is encoded as the result, with a *devnet.Refusal, or with nil, which
// leaves the call to the node. The chain must not be asked meanwhile.
type Lie func(method string, params []json.RawMessage) any

// Node is the node of a name, the same for each call. A new one shows the truth.
func (c *Chain) Node(name string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[name] == nil {
		c.nodes[name] = &Node{chain: c, hidden: map[common.Hash]bool{}}
	}
	return c.nodes[name]
}

// Lag keeps the node so many blocks behind. What is sent to it enters the pool at once. A negative number lets it show
// so many empty blocks that nobody made.
func (n *Node) Lag(blocks int) { n.edit(func() { n.lag = blocks }) }

// Hide hides a transaction's receipt and logs, or shows them again.
func (n *Node) Hide(transaction common.Hash, hidden bool) {
	n.edit(func() { n.hidden[transaction] = hidden })
}

// Lie lets the node answer something else; nil is the truth again.
func (n *Node) Lie(lie Lie) { n.edit(func() { n.lie = lie }) }

func (n *Node) edit(change func()) {
	n.chain.mu.Lock()
	defer n.chain.mu.Unlock()
	change()
}

// RoundTrip implements http.RoundTripper.
func (n *Node) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := n.answer(asked)
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(answer)),
		ContentLength: int64(len(answer)), Request: r,
	}, nil
}

// ServeHTTP implements http.Handler.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const most = 8 << 20
	asked, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(n.answer(asked)) // a client that is gone
}

// question is one JSON-RPC call, answered by either of the others.
type (
	question struct {
		ID     json.RawMessage   `json:"id"`
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	success struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}
	failure struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *refusal        `json:"error"`
	}
)

// answer answers one call, or several at once.
func (n *Node) answer(asked []byte) []byte {
	n.chain.lock()
	defer n.chain.mu.Unlock()
	var batch []question
	if json.Unmarshal(asked, &batch) == nil {
		replies := make([]any, len(batch))
		for i, one := range batch {
			replies[i] = n.one(one)
		}
		return encoded(replies)
	}
	var one question
	if json.Unmarshal(asked, &one) != nil {
		return encoded(failure{"2.0", nil, &refusal{Code: codeParse, Message: "Failed to parse request"}})
	}
	return encoded(n.one(one))
}

func (n *Node) one(asked question) any {
	result, no := n.result(asked)
	if no != nil {
		return failure{"2.0", asked.ID, no}
	}
	return success{"2.0", asked.ID, result}
}

func (n *Node) result(asked question) (any, *refusal) {
	if n.lie != nil {
		switch lie := n.lie(asked.Method, asked.Params).(type) {
		case nil:
		case *refusal:
			return nil, lie
		default:
			return lie, nil
		}
	}
	method, ok := methods[asked.Method]
	if !ok {
		return nil, &refusal{Code: codeNoMethod, Message: "Method not found: " + asked.Method}
	}
	return method(n, asked.Params)
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only a lie may be what cannot be encoded
	}
	return text
}
