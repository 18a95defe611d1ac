package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// maxLag is how much older than another's a node's latest block may be.
const maxLag = 10 * time.Second

// Ready reports what keeps payments from being settled: silent nodes, too few of them, nodes that show different
// chains, a latest block older than maxAge, or a reorganisation. A zero maxAge never minds. A *fault.Fault in the
// error says what to tell a payer.
func (c *Chain) Ready(ctx context.Context, maxAge time.Duration) error {
	err := c.survey(ctx, maxAge)
	if err == nil {
		return nil
	}
	if _, told := fault.As(err); !told {
		err = errors.Join(fault.New(fault.DependencyDown, "The nodes of the chain do not answer this service as they should."), err)
	}
	return fmt.Errorf("chain not ready: %w", err)
}

func (c *Chain) survey(ctx context.Context, maxAge time.Duration) error {
	heads, newest, err := c.surveyed(ctx, c.pool.hedgeDelay(nil))
	if n := len(c.pool.endpoints); n > witnesses && (err != nil || len(heads) < witnesses) {
		// The slow ones may know better, and have a voice.
		heads, newest, err = c.surveyed(ctx, c.config.CallTimeout)
	}
	if age := c.config.Now().Sub(newest.time()); newest.Number > 0 && maxAge > 0 && age > maxAge {
		return fmt.Errorf("the latest block is %s old", age.Round(time.Second))
	}
	if err != nil {
		return err
	}
	if n := len(c.pool.endpoints); len(heads) < c.quorum() {
		return fmt.Errorf("%d of %d nodes can be asked, and a transfer must be shown by two", len(heads), n)
	}
	return c.settled(ctx, heads)
}

// surveyed are the nodes that follow the chain of most, and the newest block of all.
func (c *Chain) surveyed(ctx context.Context, delay time.Duration) ([]tip, header, error) {
	heads, err := c.heads(ctx, delay)
	if len(heads) == 0 {
		return nil, header{}, err
	}
	newest := c.setLaggingAside(ctx, heads)
	heads, err = c.agreeing(ctx, heads)
	return heads, newest.head, err
}

// tip is the latest block of one node.
type tip struct {
	node *endpoint
	head header
}

// shown is a tip, since when the node shows it, and when it last did.
type shown struct {
	tip
	since, last time.Time
}

// heads asks every node for its latest block, or those that are not known to be slow where delay is short. The error
// is of those that did not answer.
func (c *Chain) heads(ctx context.Context, delay time.Duration) ([]tip, error) {
	nodes := c.pool.endpoints
	if delay < c.config.CallTimeout {
		nodes = c.pool.brisk(witnesses)
	}
	var found []tip
	var errs error
	for _, w := range poll(ctx, c, nodes, witnesses, delay, func(ctx context.Context, one *Chain) (header, error) {
		return one.readHeader(ctx, "eth_getBlockByNumber", "latest")
	}, nil) {
		if errs = errors.Join(errs, w.err); w.err == nil {
			found = append(found, tip{w.node, w.said})
		}
	}
	return found, errs
}

// setLaggingAside returns the leading one of the latest blocks. Nodes far behind it are asked last for a while: what
// they say is true, and of the past.
func (c *Chain) setLaggingAside(ctx context.Context, heads []tip) tip {
	newest := lead(heads)
	now := c.config.Now()
	for _, t := range heads {
		// A block from the future makes none of today old.
		if lag := newest.head.time().Sub(t.head.time()); lag >= maxLag && now.Sub(t.head.time()) >= maxLag {
			t.node.circuit.aside(now)
			c.pool.metrics.NodeAnswered(ctx, t.node.name, nodeLags)
		}
	}
	return newest
}

// newest is the leading one of the latest blocks of all nodes that are not slow, at least the one known.
func (c *Chain) newest(ctx context.Context, known header) header {
	heads, _ := c.heads(ctx, c.pool.hedgeDelay(nil)) // a silent node has its own circuit
	if len(heads) == 0 {
		return known
	}
	if found := c.setLaggingAside(ctx, heads).head; found.Number > known.Number {
		return found
	}
	return known
}

// agreeing compares the nodes' chains at a block that all of them have, and returns those that follow the chain of
// most. The others are set aside; where none is of most, nobody is believed.
func (c *Chain) agreeing(ctx context.Context, heads []tip) ([]tip, error) {
	now := c.config.Now()
	var asked []tip
	for _, t := range heads {
		if now.Sub(t.head.time()) < maxLag || !t.node.circuit.isAside(now) {
			asked = append(asked, t)
		}
	}
	switch len(asked) {
	case 0:
		return nil, errors.New("the nodes that answer lag behind")
	case 1:
		return asked, nil
	}
	common := asked[0].head.Number
	for _, t := range asked {
		common = min(common, t.head.Number)
	}
	follow := map[x402.Hash][]tip{}
	tips := map[*endpoint]tip{}
	var ahead []*endpoint
	for _, t := range asked {
		if t.head.Number == common {
			follow[t.head.Hash] = append(follow[t.head.Hash], t)
			continue
		}
		ahead, tips[t.node] = append(ahead, t.node), t
	}
	enough := witnesses - (len(asked) - len(ahead))
	for _, w := range poll(ctx, c, ahead, enough, c.pool.hedgeDelay(nil), func(ctx context.Context, one *Chain) (header, error) {
		return one.headerAt(ctx, common)
	}, nil) {
		if w.err == nil { // else it answered a moment ago, and will be asked again
			follow[w.said.Hash] = append(follow[w.said.Hash], tips[w.node])
		}
	}
	var most []tip
	tie := false
	for _, those := range follow {
		switch {
		case len(those) > len(most):
			most, tie = those, false
		case len(those) == len(most):
			tie = true
		}
	}
	if tie {
		return nil, fmt.Errorf("the nodes show different blocks %d: %w", common,
			fault.New(fault.ChainUnsettled, "The nodes of the chain do not agree on its latest blocks."))
	}
	for _, those := range follow {
		if those[0].node == most[0].node {
			continue
		}
		for _, t := range those {
			t.node.circuit.aside(now)
			c.pool.metrics.NodeAnswered(ctx, t.node.name, nodeForked)
		}
	}
	return most, nil
}

// past is the chain as earlier looks saw it at one node: those of two nodes differ by how far each has come.
type past struct {
	mu sync.Mutex
	// seen are the latest blocks of earlier looks, oldest first.
	seen []header
	// until is when the last reorganisation is over.
	until time.Time
}

// maxSeen bounds how many looks are kept: a reorganisation that goes further back shows in all of them.
const maxSeen = 128

// settled says whether blocks were replaced of late. Where there are several nodes, it takes two to say so: one alone
// would keep payers away by showing another block each time.
func (c *Chain) settled(ctx context.Context, heads []tip) error {
	tips := map[*endpoint]tip{}
	var nodes []*endpoint
	for _, t := range heads {
		nodes, tips[t.node] = append(nodes, t.node), t
	}
	now := c.config.Now()
	told := 0
	var unsettled []time.Time
	var errs error
	for _, w := range poll(ctx, c, nodes, witnesses, c.pool.hedgeDelay(nil), func(ctx context.Context, one *Chain) (time.Time, error) {
		return one.unsettledUntil(ctx, tips[one.pool.endpoints[0]])
	}, nil) {
		if w.err != nil {
			errs = errors.Join(errs, w.err)
			continue
		}
		if told++; now.Before(w.said) {
			unsettled = append(unsettled, w.said)
		}
	}
	switch {
	case told == 0:
		return fmt.Errorf("compare with earlier blocks: %w", errs)
	case len(unsettled) >= min(told, witnesses):
		return fmt.Errorf("blocks were replaced: %w", fault.New(fault.ChainUnsettled, "The chain is being reorganised.").
			After(slices.MaxFunc(unsettled, time.Time.Compare).Sub(now)))
	}
	return nil
}

// unsettledUntil compares the chain of a node, which is asked alone, with what earlier looks saw there. Blocks that are replaced, or gone, down to
// a depth make it unsettled for a while: what is paid then may be undone, too.
func (c *Chain) unsettledUntil(ctx context.Context, at tip) (time.Time, error) {
	p := &at.node.past
	p.mu.Lock()
	defer p.mu.Unlock()
	depth := uint64(0)
	if n := len(p.seen); n > 0 {
		last := p.seen[n-1].Number
		for ; n > 0; n-- {
			known := p.seen[n-1]
			stands := at.head.Hash == known.Hash
			if !stands && known.Number < at.head.Number {
				block, err := c.headerAt(ctx, known.Number)
				if err != nil {
					return time.Time{}, err
				}
				stands = block.Hash == known.Hash
			}
			if stands {
				break
			}
			depth = last - known.Number + 1
		}
		p.seen = p.seen[:n]
	}
	if n := len(p.seen); n == 0 || p.seen[n-1].Hash != at.head.Hash {
		p.seen = append(p.seen, at.head)
	}
	if n := len(p.seen) - maxSeen; n > 0 {
		p.seen = p.seen[n:]
	}
	if c.config.ReorgDepth > 0 && depth >= c.config.ReorgDepth {
		p.until = c.config.Now().Add(c.config.ReorgCalm)
	}
	return p.until, nil
}
