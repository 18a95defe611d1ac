package devnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// maxRequest bounds a request's body.
const maxRequest = 8 << 20

// publicNode answers JSON-RPC in front of anvil, and refuses what a public node refuses: reth's pool limits each
// sender, and a gap in a sender's nonces, too much gas and too wide a log query are refused. Anvil's own methods for
// tests pass.
type publicNode struct {
	rules   PoolRules
	forward *httputil.ReverseProxy
	node    *rpc.Client
	server  *http.Server
	served  chan struct{}
	signer  types.Signer

	// sending makes the check of a transaction and its way into the pool one step.
	sending sync.Mutex

	mu    sync.Mutex
	calls map[string]int
}

// startPublicNode serves on the listener in front of the node at target.
func startPublicNode(
	ctx context.Context, listener net.Listener, target string, cfg ChainConfig,
) (*publicNode, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	node, err := dialNode(ctx, target)
	if err != nil {
		return nil, err
	}
	n := &publicNode{
		rules: PoolRules{Slots: cfg.Slots, QueueGaps: cfg.QueueGaps}, node: node, served: make(chan struct{}),
		calls:  map[string]int{},
		signer: types.LatestSignerForChainID(big.NewInt(ChainID)),
	}
	n.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ErrorLog: discardLog(),
		Transport: local().Transport,
		// It says why: an empty answer would be all that anybody sees.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	n.server = &http.Server{Handler: n, ReadHeaderTimeout: 10 * time.Second, ErrorLog: discardLog()}
	go func() {
		defer close(n.served)
		if err := n.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Warn("the development chain's node ended", slog.Any("error", err))
		}
	}()
	return n, nil
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func (n *publicNode) close() error {
	err := n.server.Close()
	<-n.served
	n.node.Close()
	return err
}

// counted are the calls so far, by method.
func (n *publicNode) counted() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.calls)
}

// request is one JSON-RPC call.
type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// ServeHTTP implements http.Handler.
func (n *publicNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		return
	}
	pass := func(w http.ResponseWriter, body []byte) {
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		again.Header.Set("Content-Length", strconv.Itoa(len(body)))
		n.forward.ServeHTTP(w, again)
	}
	var batch []json.RawMessage
	if json.Unmarshal(body, &batch) != nil {
		n.one(w, body, pass)
		return
	}
	answers := make([]json.RawMessage, 0, len(batch))
	for _, single := range batch {
		a := answer{header: http.Header{}}
		if n.one(&a, single, pass); a.status >= http.StatusBadRequest {
			http.Error(w, "the node does not answer", a.status)
			return
		}
		answers = append(answers, a.body.Bytes())
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answers) // a client that is gone
}

// answer keeps what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// one answers one call: with a refusal, or with what the node behind answers.
func (n *publicNode) one(w http.ResponseWriter, body []byte, pass func(http.ResponseWriter, []byte)) {
	var call request
	if json.Unmarshal(body, &call) != nil {
		pass(w, body)
		return
	}
	n.mu.Lock()
	n.calls[call.Method]++
	n.mu.Unlock()
	var no *Refusal
	var err error
	switch call.Method {
	case "eth_getLogs":
		no, err = n.refuseLogs(call.Params)
	case "eth_sendRawTransaction":
		n.sending.Lock()
		defer n.sending.Unlock()
		no, err = n.refuseTransaction(call.Params)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if no == nil {
		pass(w, body)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // a client that is gone
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *Refusal        `json:"error"`
	}{"2.0", call.ID, no})
}

// refuseLogs refuses a range that is too wide. A filter that cannot be read is left to the node.
func (n *publicNode) refuseLogs(params []json.RawMessage) (*Refusal, error) {
	var filter struct {
		BlockHash          *common.Hash
		FromBlock, ToBlock *rpc.BlockNumber
	}
	if len(params) == 0 || json.Unmarshal(params[0], &filter) != nil || filter.BlockHash != nil {
		return nil, nil
	}
	from, err := n.height(filter.FromBlock)
	if err != nil {
		return nil, err
	}
	to, err := n.height(filter.ToBlock)
	if err != nil {
		return nil, err
	}
	return RefuseRange(from, to), nil
}

// height is the number of a block that a filter names; no name is the latest's.
func (n *publicNode) height(named *rpc.BlockNumber) (int64, error) {
	name := rpc.LatestBlockNumber
	if named != nil {
		name = *named
	}
	if name >= 0 {
		return name.Int64(), nil
	}
	var found *struct{ Number hexutil.Uint64 }
	if err := n.node.Call(&found, "eth_getBlockByNumber", name.String(), false); err != nil {
		return 0, fmt.Errorf("read the %s block: %w", name, err)
	}
	if found == nil {
		return 0, nil
	}
	return int64(found.Number), nil
}

// refuseTransaction applies the rules of the pool. A transaction that cannot be read is left to the node.
func (n *publicNode) refuseTransaction(params []json.RawMessage) (*Refusal, error) {
	var raw hexutil.Bytes
	var tx types.Transaction
	if len(params) != 1 || json.Unmarshal(params[0], &raw) != nil || tx.UnmarshalBinary(raw) != nil {
		return nil, nil
	}
	sender, err := types.Sender(n.signer, &tx)
	if err != nil {
		return nil, nil
	}
	// The pool first: what a block takes in between is then counted by the account.
	pooled, err := n.pooled(sender)
	if err != nil {
		return nil, err
	}
	next, err := n.included(sender)
	if err != nil {
		return nil, err
	}
	return n.rules.Refuse(&tx, next, pooled), nil
}

// pooled are a sender's transactions in the pool, by nonce, queued ones too.
func (n *publicNode) pooled(sender common.Address) (map[uint64]common.Hash, error) {
	type byNonce map[string]struct{ Hash common.Hash }
	var content struct{ Pending, Queued map[common.Address]byNonce }
	if err := n.node.Call(&content, "txpool_content"); err != nil {
		return nil, fmt.Errorf("read the pool: %w", err)
	}
	found := map[uint64]common.Hash{}
	for _, part := range []map[common.Address]byNonce{content.Queued, content.Pending} {
		for text, tx := range part[sender] {
			nonce, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read the pool: %w", err)
			}
			found[nonce] = tx.Hash
		}
	}
	return found, nil
}

// included is how many transactions of a sender the latest block's chain holds.
func (n *publicNode) included(sender common.Address) (uint64, error) {
	var count hexutil.Uint64
	if err := n.node.Call(&count, "eth_getTransactionCount", sender, "latest"); err != nil {
		return 0, fmt.Errorf("read an account's nonce: %w", err)
	}
	return uint64(count), nil
}
