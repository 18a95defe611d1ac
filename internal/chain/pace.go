package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

const (
	// tooSlow is how long a node may take to answer before others are asked, and slowFactor how many times as long as
	// the quickest: where all are slow, none is passed over.
	tooSlow    = 500 * time.Millisecond
	slowFactor = 3
	// probeEvery is how often a node that is asked last is tried, so that it comes back. Nobody waits for that.
	probeEvery = 2 * time.Second
	// catchUp is how much later than another a node may show a block, and oldHead how much older its latest block may
	// be: two blocks of Base.
	catchUp = time.Second
	oldHead = 2 * usualBlock * time.Second
)

// pace is a moving average of a node's answer times; zero before the first answer.
type pace struct{ mean atomic.Int64 }

func (p *pace) now() time.Duration { return time.Duration(p.mean.Load()) }

// took counts an answer.
func (p *pace) took(d time.Duration) {
	for {
		old := p.mean.Load()
		mean := int64(max(d, 1))
		if old > 0 {
			mean = (old + mean) / 2
		}
		if p.mean.CompareAndSwap(old, mean) {
			return
		}
	}
}

// waited records that there was no answer within d, a lower bound of the answer time.
func (p *pace) waited(d time.Duration) {
	for {
		old := p.mean.Load()
		if int64(d) <= old || p.mean.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// timed records how long a node took. An immediate failure is not counted: the node is down, not quick.
func (e *endpoint) timed(ctx context.Context, d time.Duration, err error) {
	_, answered := errors.AsType[rpc.Error](err)
	switch {
	case err == nil, answered:
		e.pace.took(d)
	case ctx.Err() != nil:
		e.pace.waited(d)
	}
}

// hedgeDelay is how long to wait for an answer before another node is asked, too. other is not counted as the quickest.
func (p *pool) hedgeDelay(other *endpoint) time.Duration {
	quickest := time.Duration(0)
	for _, e := range p.endpoints {
		if mean := e.pace.now(); e != other && mean > 0 && (quickest == 0 || mean < quickest) {
			quickest = mean
		}
	}
	return max(tooSlow, slowFactor*quickest)
}

// hedgeDelayBut is how long to wait for the nodes that have not answered: zero where those are slow.
func (p *pool) hedgeDelayBut(verdicts []nodeVerdict) time.Duration {
	for _, e := range p.endpoints {
		spoken := slices.ContainsFunc(verdicts, func(h nodeVerdict) bool { return h.node == e })
		if !spoken && !p.slow(e) {
			return p.hedgeDelay(e)
		}
	}
	return 0
}

// slow reports a node that takes much longer than the quickest of the others.
func (p *pool) slow(e *endpoint) bool {
	return len(p.endpoints) > 1 && e.pace.now() >= p.hedgeDelay(e)
}

func (p *pool) allSlow(nodes map[*endpoint]bool) bool {
	for e := range nodes {
		if !p.slow(e) {
			return false
		}
	}
	return true
}

// ordered are the nodes in the order in which they are asked: by configuration, then those that are slow or whose head
// is old, then those that fail or are set aside.
func (p *pool) ordered() []*endpoint {
	if len(p.endpoints) == 1 {
		return p.endpoints
	}
	now := p.now()
	rank := make(map[*endpoint]int, len(p.endpoints))
	for _, e := range p.endpoints {
		switch {
		case e.circuit.open(now):
			rank[e] = 2
		case e.stale.Load(), p.slow(e):
			rank[e] = 1
			p.probe(e, now)
		}
	}
	order := slices.Clone(p.endpoints)
	slices.SortStableFunc(order, func(a, b *endpoint) int { return cmp.Compare(rank[a], rank[b]) })
	return order
}

// responsive are the nodes that are neither slow nor failing, where there are enough of them; else all.
func (p *pool) responsive(enough int) []*endpoint {
	now := p.now()
	var found []*endpoint
	for _, e := range p.endpoints {
		switch {
		case e.circuit.isFailing(now):
		case p.slow(e):
			p.probe(e, now)
		default:
			found = append(found, e)
		}
	}
	if len(found) < enough {
		return p.endpoints
	}
	return found
}

// fresh are those of the brisk nodes whose head is not old, where there are enough of them; else all the brisk ones.
func (p *pool) fresh(enough int) []*endpoint {
	now := p.now()
	nodes := p.responsive(enough)
	var found []*endpoint
	for _, e := range nodes {
		if e.stale.Load() {
			p.probe(e, now)
			continue
		}
		found = append(found, e)
	}
	if len(found) < enough {
		return nodes
	}
	return found
}

// quick is the chain of the nodes that are not slow.
func (c *Chain) quick() *Chain {
	some := *c
	pool := *c.pool
	pool.endpoints = c.pool.responsive(witnesses)
	pool.quick = true
	some.pool = &pool
	return &some
}

// nodeAnswer is the answer of a node that is asked alone.
type nodeAnswer[T any] struct {
	node  *endpoint
	value T
	err   error
}

// poll asks nodes at once, each alone, until their answers decide; a nil decided waits for all. When there are enough
// answers, it waits for the others no longer than delay.
func poll[T any](
	ctx context.Context, c *Chain, nodes []*endpoint, enough int, delay time.Duration,
	ask func(context.Context, *Chain) (T, error), decided func([]nodeAnswer[T]) bool,
) (results []nodeAnswer[T]) {
	begin := time.Now()
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	follow := context.AfterFunc(ctx, cancel)
	answers := make(chan nodeAnswer[T], len(nodes))
	for _, e := range nodes {
		c.pool.later.run(func(open context.Context) {
			defer context.AfterFunc(open, cancel)()
			got, err := ask(asking, c.alone(e))
			answers <- nodeAnswer[T]{e, got, err}
		})
	}
	late := time.NewTimer(delay)
	defer late.Stop()
	waited, answered := false, 0
	for len(results) < len(nodes) && (!waited || answered < enough) {
		select {
		case w := <-answers:
			if results = append(results, w); w.err == nil {
				answered++
			}
			if decided != nil && len(results) < len(nodes) && decided(results) && follow() {
				// The other calls go on until delay has passed, without this caller, to measure the nodes.
				time.AfterFunc(delay-time.Since(begin), cancel)
				return results
			}
		case <-late.C:
			waited = true
		case <-c.pool.later.ctx.Done():
			cancel()
			return append(results, nodeAnswer[T]{err: errClosed})
		}
	}
	follow()
	cancel()
	return results
}

var errClosed = errors.New("the chain is closed")

// agreed decides a poll as soon as two nodes say the same. With more than three nodes it decides nothing: two others
// could say something else.
func agreed[T any](c *Chain, same func(a, b T) bool) func([]nodeAnswer[T]) bool {
	if len(c.pool.endpoints) > witnesses+1 {
		return nil
	}
	return func(results []nodeAnswer[T]) bool {
		for i, a := range results {
			for _, b := range results[:i] {
				if a.err == nil && b.err == nil && same(a.value, b.value) {
					return true
				}
			}
		}
		return false
	}
}

func equal[T comparable](a, b T) bool { return a == b }

// consult polls all nodes that are not slow. ask makes so many calls one after the other.
func consult[T any](
	ctx context.Context, c *Chain, calls time.Duration,
	ask func(context.Context, *Chain) (T, error), same func(a, b T) bool,
) []nodeAnswer[T] {
	return poll(ctx, c, c.pool.responsive(witnesses), witnesses, calls*c.pool.hedgeDelay(nil), ask, agreed(c, same))
}

// probe reads a node's head in the background, at most once per probeEvery, so that a recovery is detected while no
// buyer waits for it.
func (p *pool) probe(e *endpoint, now time.Time) {
	due := e.probed.Load()
	if now.UnixNano() < due || !e.probed.CompareAndSwap(due, now.Add(probeEvery).UnixNano()) {
		return
	}
	p.later.run(func(ctx context.Context) {
		_ = p.try(ctx, e, into(nil), "eth_getBlockByNumber", "latest", false) // try records the result
	})
}

// later runs background work until the pool is closed.
type later struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	group  sync.WaitGroup
}

func newLater(ctx context.Context) *later {
	l := &later{}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// run starts do, and is false when the pool is closed.
func (l *later) run(do func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.group.Go(func() { do(l.ctx) })
	return true
}

func (l *later) close() {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	l.group.Wait()
}

// lead is the block with which the others are compared: the newest, or of three and more the newest but one, so that no
// node makes the others look old by an invented block.
func lead(heads []tip) tip {
	byNumber := slices.Clone(heads)
	slices.SortStableFunc(byNumber, func(a, b tip) int { return cmp.Compare(b.head.Number, a.head.Number) })
	if len(byNumber) > witnesses {
		return byNumber[witnesses-1]
	}
	return byNumber[0]
}

// compare compares a node's latest block with those that all nodes have shown within maxPause. A node that is behind is
// asked last until it catches up.
func (p *pool) compare(ctx context.Context, e *endpoint, raw json.RawMessage) {
	var head struct {
		Number    hexutil.Uint64 `json:"number"`
		Timestamp hexutil.Uint64 `json:"timestamp"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return // the caller reports it
	}
	now := p.now()
	mine := shown{tip: tip{e, header{Number: uint64(head.Number), Time: uint64(head.Timestamp)}}, since: now, last: now}
	if old := e.shown.Load(); old != nil && old.head.Number == mine.head.Number {
		mine.since = old.since
	}
	e.shown.Store(&mine)
	var all []tip
	for _, e := range p.known {
		if s := e.shown.Load(); s != nil && now.Sub(s.last) < maxPause {
			all = append(all, s.tip)
		}
	}
	ahead := lead(all)
	late := mine.head.Number < ahead.head.Number &&
		(ahead.head.time().Sub(mine.head.time()) >= oldHead || now.Sub(ahead.node.shown.Load().since) >= catchUp)
	if e.stale.Swap(late) != late && late {
		e.probed.Store(now.Add(probeEvery).UnixNano())
		p.metrics.NodeAnswered(ctx, e.name, nodeLags)
	}
}
