package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
	"golang.org/x/time/rate"

	"github.com/roamcard/roamcard/internal/telemetry"
)

// Endpoint is one JSON-RPC node. Its URL may carry a key, so it is never logged; the host is.
type Endpoint struct {
	URL string
	// PerSecond bounds the calls to it; zero is no bound.
	PerSecond float64
}

// errNotFound says that every node answered null: no such block or receipt that they know of.
var errNotFound = errors.New("not found by any endpoint")

// errIncomplete says that the nodes that answer know of no such thing, and that others, which do not, may.
var errIncomplete = errors.New("not found by the endpoints that answer")

// pool asks several nodes, in order of preference, until one gives an answer. A node that errs, is
// slow, or does not know a block yet is passed over; a node that keeps failing is not asked for a while.
type pool struct {
	endpoints []*endpoint
	chainID   uint64
	timeout   time.Duration
	now       func() time.Time
	tracer    trace.Tracer
	metrics   *telemetry.Metrics
	// glances counts the looks that ask one node only.
	glances *atomic.Uint64
	past    *past
}

type endpoint struct {
	host string
	// name is the node's place among the configured ones, as metrics have it.
	name    string
	client  *rpc.Client
	limiter *rate.Limiter
	circuit circuit
	// checked says that the node has named the right chain since it last failed.
	checked atomic.Bool
}

func newPool(ctx context.Context, endpoints []Endpoint, chainID uint64, timeout time.Duration, now func() time.Time) (*pool, error) {
	p := &pool{chainID: chainID, timeout: timeout, now: now,
		tracer: otel.Tracer("github.com/roamcard/roamcard/internal/chain"), glances: new(atomic.Uint64), past: &past{}}
	client := newHTTPClient()
	for i, e := range endpoints {
		u, err := url.Parse(e.URL)
		if err != nil || u.Host == "" {
			return nil, errors.New("an RPC endpoint is not a URL")
		}
		c, err := rpc.DialOptions(ctx, e.URL, rpc.WithHTTPClient(client))
		if err != nil {
			return nil, fmt.Errorf("open RPC endpoint %s: %w", u.Host, redact(err))
		}
		limit := rate.Limit(e.PerSecond)
		if e.PerSecond == 0 {
			limit = rate.Inf
		}
		p.endpoints = append(p.endpoints, &endpoint{host: u.Host, name: strconv.Itoa(i + 1), client: c,
			limiter: rate.NewLimiter(limit, max(1, int(e.PerSecond)))})
	}
	if len(p.endpoints) == 0 {
		return nil, errors.New("there is no RPC endpoint")
	}
	return p, p.checkChainIDs(ctx)
}

// checkChainIDs refuses a node of another chain. One that is silent now is checked when it is first
// used, but one at least must answer.
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
	for _, e := range p.endpoints {
		e.client.Close()
	}
}

// taking reads a node's answer. errNotFound says that another node may have more to show.
type taking func(json.RawMessage) error

func into(result any) taking {
	return func(raw json.RawMessage) error {
		if result == nil {
			return nil
		}
		return json.Unmarshal(raw, result)
	}
}

// call asks until one node answers with something. An error that is the chain's own answer, such as
// a revert, comes back at once; errNotFound says that all of them answered null, errIncomplete that some did.
func (p *pool) call(ctx context.Context, result any, method string, args ...any) error {
	return p.callUntil(ctx, into(result), method, args...)
}

// callUntil is call for an answer that can be too little, such as a list of logs without the one looked for.
func (p *pool) callUntil(ctx context.Context, take taking, method string, args ...any) error {
	var failures error
	missing, asked := 0, 0
	// Nodes with an open circuit come last: a doubtful node is better than none.
	for _, skipped := range []bool{false, true} {
		for _, e := range p.endpoints {
			if e.circuit.open(p.now()) != skipped {
				continue
			}
			asked++
			err := p.try(ctx, e, take, method, args...)
			switch {
			case err == nil, isAnswer(err):
				return err
			case errors.Is(err, errNotFound):
				missing++
			default:
				failures = errors.Join(failures, err)
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %w", method, ctx.Err())
			}
		}
	}
	switch missing {
	case asked:
		return errNotFound
	case 0:
		return failures
	default:
		return fmt.Errorf("%w: %w", errIncomplete, failures)
	}
}

// alone is the pool with one of its nodes only.
func (p *pool) alone(e *endpoint) *pool {
	one := *p
	one.endpoints = []*endpoint{e}
	return &one
}

// glance is the pool for a look that one node may answer. Every so often another one is asked first, so that no
// node hides for long what the others show.
func (p *pool) glance() *pool {
	const often = 4
	n := p.glances.Add(1)
	if n%often != 0 {
		return p
	}
	at := int(n / often % uint64(len(p.endpoints)))
	turned := *p
	turned.endpoints = slices.Concat(p.endpoints[at:], p.endpoints[:at])
	return &turned
}

// broadcast sends a signed transaction to every node. It fails when none has taken it, which decides
// nothing: a node that did not answer may have passed it on.
func (p *pool) broadcast(ctx context.Context, raw []byte) error {
	errs := make([]error, len(p.endpoints))
	var group sync.WaitGroup
	for i, e := range p.endpoints {
		group.Go(func() { errs[i] = p.try(ctx, e, into(nil), "eth_sendRawTransaction", hexutil.Encode(raw)) })
	}
	group.Wait()
	for _, err := range errs {
		if err == nil || isKnownTransaction(err) {
			return nil
		}
	}
	return fmt.Errorf("broadcast transaction: %w", errors.Join(errs...))
}

// try asks one node, within the time limit of a call and the node's rate.
func (p *pool) try(caller context.Context, e *endpoint, take taking, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(caller, p.timeout)
	defer cancel()
	ctx, span := p.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("rpc.method", method), attribute.String("server.address", e.host)))
	defer span.End()
	err := p.ask(ctx, e, take, method, args...)
	switch {
	case err == nil, errors.Is(err, errNotFound), isAnswer(err):
		e.circuit.succeeded()
		p.metrics.NodeAnswered(ctx, e.name, nodeOK)
	case isPruned(err):
		// It is passed over for this question only.
		e.circuit.succeeded()
		p.metrics.NodeAnswered(ctx, e.name, nodePruned)
		err = fmt.Errorf("%s at %s: %w", method, e.host, err)
	default:
		err = fmt.Errorf("%s at %s: %w", method, e.host, redact(err))
		span.SetStatus(codes.Error, "no answer")
		// A caller who hangs up says nothing about the node.
		if caller.Err() == nil {
			e.circuit.failed(p.now())
			p.metrics.NodeAnswered(ctx, e.name, nodeFault(err))
			// What comes back under the same address may be another node.
			e.checked.Store(false)
		}
	}
	return err
}

// What a node's answer is counted as.
const (
	nodeOK = "ok"
	// nodePruned: it has dropped the past that was asked for.
	nodePruned = "pruned"
	// nodeFailed: it gave no answer, or none that can be read.
	nodeFailed = "failed"
	// nodeOtherChain: it names another chain id.
	nodeOtherChain = "other_chain"
	// nodeLags: its latest block is old.
	nodeLags = "lagging"
	// nodeForked: its chain is not that of most.
	nodeForked = "forked"
	// nodeContradicted: it alone shows, or denies, a transfer.
	nodeContradicted = "contradicted"
)

func nodeFault(err error) string {
	if _, wrong := errors.AsType[*wrongChainError](err); wrong {
		return nodeOtherChain
	}
	return nodeFailed
}

func (p *pool) ask(ctx context.Context, e *endpoint, take taking, method string, args ...any) error {
	if err := e.limiter.Wait(ctx); err != nil {
		return err
	}
	if !e.checked.Load() {
		var id hexutil.Uint64
		if err := e.client.CallContext(ctx, &id, "eth_chainId"); err != nil {
			return err
		}
		if uint64(id) != p.chainID {
			return &wrongChainError{host: e.host, got: uint64(id), want: p.chainID}
		}
		e.checked.Store(true)
	}
	var raw json.RawMessage
	if err := e.client.CallContext(ctx, &raw, method, args...); err != nil {
		return err
	}
	if len(raw) == 0 || string(raw) == "null" {
		return errNotFound
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

// newHTTPClient keeps more idle connections than the default two for each node, and bounds what a
// node can make us read.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	return &http.Client{Transport: cappedTransport{transport}}
}
