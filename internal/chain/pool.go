package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Endpoint is one JSON-RPC node. Its URL may contain a key, so only the host is logged.
type Endpoint struct {
	URL string
	// PerSecond is how many calls are made to it in any second, see limit.Quota; zero means any number.
	PerSecond int
}

// errNotFound says that every node answered null: none has the block or receipt.
var errNotFound = errors.New("not found by any endpoint")

// errIncomplete says that the nodes that answer do not have it, and that others do not answer.
var errIncomplete = errors.New("not found by the endpoints that answer")

// pool asks several nodes, in order of preference, until one gives an answer. When a node fails, is slow, or does not
// have a block yet, the next one is asked. A node that keeps failing, is slow or has an old head is asked last for a
// while.
type pool struct {
	endpoints []*endpoint
	// known are all configured nodes; endpoints may be a part of them.
	known   []*endpoint
	chainID uint64
	timeout time.Duration
	now     func() time.Time
	tracer  trace.Tracer
	metrics *telemetry.Metrics
	// later runs background work.
	later *later
	// quick skips slow nodes when the others answer null.
	quick bool
}

type endpoint struct {
	host string
	// name is the node's position among the configured ones, for metrics.
	name    string
	client  *rpc.Client
	quota   *limit.Quota
	circuit circuit
	// checked says that the node has returned the right chain id since its last failure.
	checked atomic.Bool
	pace    pace
	past    past
	// follower reads the node's blocks.
	follower *follower
	shown    atomic.Pointer[shown]
	// stale says that the node's head was old when it was last read.
	stale atomic.Bool
	// probed is the time of the next probe while the node is asked last, in Unix nanoseconds.
	probed atomic.Int64
}

func newPool(
	ctx context.Context, endpoints []Endpoint, client *http.Client, chainID uint64, timeout time.Duration,
	now func() time.Time,
) (*pool, error) {
	p := &pool{chainID: chainID, timeout: timeout, now: now,
		tracer: otel.Tracer("github.com/roamcard/roamcard/internal/chain"), later: newLater(ctx)}
	for i, e := range endpoints {
		u, err := url.Parse(e.URL)
		if err != nil || u.Host == "" {
			return nil, errors.New("an RPC endpoint is not a URL")
		}
		c, err := rpc.DialOptions(ctx, e.URL, rpc.WithHTTPClient(client))
		if err != nil {
			return nil, fmt.Errorf("open RPC endpoint %s: %w", u.Host, redact(err))
		}
		p.endpoints = append(p.endpoints, &endpoint{host: u.Host, name: strconv.Itoa(i + 1), client: c,
			quota: limit.NewQuota(e.PerSecond), follower: newFollower(), past: past{turn: make(chan struct{}, 1)}})
	}
	if len(p.endpoints) == 0 {
		return nil, errors.New("there is no RPC endpoint")
	}
	p.known = p.endpoints
	return p, p.checkChainIDs(ctx)
}

// checkChainIDs refuses a node of another chain. A silent node is checked when it is first used; at least one must
// answer.
func (p *pool) checkChainIDs(ctx context.Context) error {
	answered := false
	var silent error
	for _, e := range p.endpoints {
		err := p.try(ctx, e, into(nil), "eth_chainId")
		if wrong, ok := errors.AsType[*wrongChainError](err); ok {
			return wrong
		}
		answered = answered || err == nil
		silent = errors.Join(silent, err)
	}
	if !answered {
		return fmt.Errorf("no RPC endpoint answers: %w", silent)
	}
	return nil
}

func (p *pool) close() {
	p.later.close()
	for _, e := range p.endpoints {
		e.client.Close()
	}
}

// taking decodes a node's answer. With errNotFound the next node is asked.
type taking func(json.RawMessage) error

func into(result any) taking {
	return func(raw json.RawMessage) error {
		if result == nil {
			return nil
		}
		return json.Unmarshal(raw, result)
	}
}

// call asks until one node gives an answer. An error that is the chain's own answer, such as a revert, is returned at
// once. errNotFound says that all nodes answered null, errIncomplete that some did.
func (p *pool) call(ctx context.Context, result any, method string, args ...any) error {
	return p.callUntil(ctx, into(result), method, args...)
}

// callUntil is call for an answer that can be incomplete, such as a list of logs without the one looked for. When a
// node takes longer than hedgeDelay, the next one is asked in addition, and the first good answer counts.
func (p *pool) callUntil(ctx context.Context, take taking, method string, args ...any) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	take, taken := once(take)
	defer taken()
	order := p.ordered()
	answers := make(chan reply, len(order))
	next, missing := 0, 0
	out := map[*endpoint]bool{}
	begin := func() {
		e := order[next]
		next, out[e] = next+1, true
		go func() { answers <- reply{e, p.try(asking, e, take, method, args...)} }()
	}
	var failures error
	for begin(); len(out) > 0; {
		if missing > 0 && next == len(order) && p.quick && p.allSlow(out) {
			return errIncomplete
		}
		a, answered := p.await(answers, order[next-1], out, next < len(order) || missing > 0 && p.quick)
		if !answered {
			if next < len(order) {
				begin()
			}
			continue
		}
		delete(out, a.from)
		switch {
		case a.err == nil, isAnswerTo(method, a.err):
			return a.err
		case errors.Is(a.err, errNotFound):
			missing++
		default:
			failures = errors.Join(failures, a.err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", method, ctx.Err())
		}
		if next < len(order) {
			begin()
		}
	}
	switch missing {
	case len(order):
		if p.quick && len(p.endpoints) < len(p.known) { // the other nodes may have it
			return errIncomplete
		}
		return errNotFound
	case 0:
		return failures
	default:
		return fmt.Errorf("%w: %w", errIncomplete, failures)
	}
}

// reply is the result of asking one node.
type reply struct {
	from *endpoint
	err  error
}

// await waits for an answer, at most hedgeDelay where that is bounded. Nodes that have not answered by then are
// recorded as slower.
func (p *pool) await(
	answers <-chan reply, asked *endpoint, out map[*endpoint]bool, bounded bool,
) (a reply, answered bool) {
	if !bounded {
		return <-answers, true
	}
	delay := p.hedgeDelay(asked)
	late := time.NewTimer(delay)
	defer late.Stop()
	select {
	case a := <-answers:
		return a, true
	case <-late.C:
		for e := range out {
			e.pace.waited(delay)
		}
		return reply{}, false
	}
}

// errSpare is the error of an answer that comes after another was accepted.
var errSpare = errors.New("another node has answered")

// once accepts one good answer, from any node, and none after taken is called.
func once(take taking) (one taking, taken func()) {
	var mu sync.Mutex
	done := false
	one = func(raw json.RawMessage) error {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return errSpare
		}
		err := take(raw)
		done = err == nil
		return err
	}
	return one, func() {
		mu.Lock()
		defer mu.Unlock()
		done = true
	}
}

// alone is the pool with one of its nodes.
func (p *pool) alone(e *endpoint) *pool {
	one := *p
	one.endpoints = []*endpoint{e}
	return &one
}

// broadcast sends a signed transaction to every node. It fails when no node has accepted it, which decides nothing: a
// node that did not answer may have propagated it. Once a node has accepted it, slow nodes get it in the background.
func (p *pool) broadcast(ctx context.Context, raw []byte) error {
	type outcome struct {
		from *endpoint
		err  error
	}
	outcomes := make(chan outcome, len(p.endpoints))
	waitFor := map[*endpoint]bool{} // the nodes that are not slow
	for _, e := range p.endpoints {
		if !p.slow(e) {
			waitFor[e] = true
		}
		p.later.run(func(open context.Context) {
			sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			defer context.AfterFunc(open, cancel)()
			outcomes <- outcome{e, p.try(sending, e, into(nil), "eth_sendRawTransaction", hexutil.Encode(raw))}
		})
	}
	var errs error
	taken := false
	late := time.NewTimer(p.hedgeDelay(nil))
	defer late.Stop()
	for answered := 0; answered < len(p.endpoints) && !(taken && len(waitFor) == 0); {
		select {
		case o := <-outcomes:
			answered++
			delete(waitFor, o.from)
			taken = taken || o.err == nil || isKnownTransaction(o.err)
			errs = errors.Join(errs, o.err)
		case <-late.C:
			for e := range waitFor {
				e.pace.waited(p.hedgeDelay(nil))
			}
			clear(waitFor)
		case <-ctx.Done():
			return fmt.Errorf("broadcast transaction: %w", ctx.Err())
		case <-p.later.ctx.Done():
			return fmt.Errorf("broadcast transaction: %w", p.later.ctx.Err())
		}
	}
	if taken {
		return nil
	}
	return fmt.Errorf("broadcast transaction: %w", errs)
}

// try asks one node, within the time limit of a call and the node's rate.
func (p *pool) try(caller context.Context, e *endpoint, take taking, method string, args ...any) error {
	ctx, cancel := fault.Within(caller, p.timeout)
	defer cancel()
	ctx, span := p.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("rpc.method", method), attribute.String("server.address", e.host)))
	defer span.End()
	err := p.ask(ctx, e, take, method, args...)
	switch {
	case err == nil, errors.Is(err, errNotFound), errors.Is(err, errSpare), isAnswerTo(method, err):
		e.circuit.succeeded()
		p.metrics.NodeAnswered(ctx, e.name, nodeOK)
	case errors.Is(err, limit.ErrQuota):
		// It was not asked, so it has not failed.
		p.metrics.NodeAnswered(ctx, e.name, nodeBusy)
		err = fmt.Errorf("%s at %s: %w", method, e.host, err)
	case isPruned(err):
		// The next node is asked; this one stays preferred.
		e.circuit.succeeded()
		p.metrics.NodeAnswered(ctx, e.name, nodePruned)
		err = fmt.Errorf("%s at %s: %w", method, e.host, err)
	default:
		err = fmt.Errorf("%s at %s: %w", method, e.host, redact(err))
		span.SetStatus(codes.Error, "no answer")
		// A cancelled call is not a failure of the node.
		if caller.Err() == nil {
			e.circuit.failed(p.now())
			p.metrics.NodeAnswered(ctx, e.name, nodeFault(err))
			// After a failure, another node may answer at the same address.
			e.checked.Store(false)
		}
	}
	return err
}

// The outcomes of a node's answer in metrics.
const (
	nodeOK = "ok"
	// nodePruned: it has pruned the block that was asked for.
	nodePruned = "pruned"
	// nodeBusy: it was not asked, because its quota is used up.
	nodeBusy = "busy"
	// nodeFailed: it gave no answer, or none that can be read.
	nodeFailed = "failed"
	// nodeOtherChain: it names another chain id.
	nodeOtherChain = "other_chain"
	// nodeLags: its latest block is old.
	nodeLags = "lagging"
	// nodeForked: its chain is not that of most.
	nodeForked = "forked"
	// nodeContradicted: it shows a transfer that the other nodes do not show.
	nodeContradicted = "contradicted"
)

func nodeFault(err error) string {
	if _, wrong := errors.AsType[*wrongChainError](err); wrong {
		return nodeOtherChain
	}
	return nodeFailed
}

func (p *pool) ask(ctx context.Context, e *endpoint, take taking, method string, args ...any) error {
	if err := e.quota.Wait(ctx); err != nil {
		return err
	}
	begin := time.Now()
	if !e.checked.Load() {
		var id hexutil.Uint64
		if err := e.client.CallContext(ctx, &id, "eth_chainId"); err != nil {
			e.timed(ctx, time.Since(begin), err)
			return err
		}
		if uint64(id) != p.chainID {
			return &wrongChainError{host: e.host, got: uint64(id), want: p.chainID}
		}
		e.checked.Store(true)
	}
	var raw json.RawMessage
	begin = time.Now()
	err := e.client.CallContext(ctx, &raw, method, args...)
	e.timed(ctx, time.Since(begin), err)
	if err != nil {
		return err
	}
	if len(raw) == 0 || string(raw) == "null" {
		return errNotFound
	}
	if method == "eth_getBlockByNumber" && len(args) > 0 && args[0] == "latest" {
		p.compare(ctx, e, raw)
	}
	return take(raw)
}

// wrongChainError says that a node belongs to another chain.
type wrongChainError struct {
	host      string
	got, want uint64
}

func (e *wrongChainError) Error() string {
	return fmt.Sprintf("RPC endpoint %s is on chain %d, want %d", e.host, e.got, e.want)
}
