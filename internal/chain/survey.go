package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// maxLag is how much older than another's a node's latest block may be.
const maxLag = 10 * time.Second

// Ready reports what keeps payments from being settled: silent nodes, too few of them, nodes that show different
// chains, a latest block older than maxAge, blocks that are all further ahead than that, or a reorganisation. A zero
// maxAge disables the checks of the age. The error
// contains a *fault.Fault for the payer.
func (c *Chain) Ready(ctx context.Context, maxAge time.Duration) error {
	err := c.survey(ctx, maxAge)
	if err == nil {
		return nil
	}
	if _, answered := fault.As(err); !answered {
		const detail = "The nodes of the chain do not answer this service as they should."
		err = errors.Join(fault.New(fault.DependencyDown, detail), err)
	}
	return fmt.Errorf("chain not ready: %w", err)
}

// HeadAges are the ages of the latest blocks that the nodes show, by their places among the configured ones, from 1. A
// node that does not answer has the age of what it showed last; one that has shown nothing yet, the time for which it
// has been asked. It is negative where a block is of the future, by this machine's clock.
func (c *Chain) HeadAges(ctx context.Context) map[string]time.Duration {
	_, _ = c.heads(ctx, c.config.CallTimeout) // each answer is kept in shown
	ages := map[string]time.Duration{}
	for _, e := range c.pool.endpoints {
		since := c.began
		if s := e.shown.Load(); s != nil {
			since = s.head.time()
		}
		ages[e.name] = c.config.Now().Sub(since)
	}
	return ages
}

func (c *Chain) survey(ctx context.Context, maxAge time.Duration) error {
	heads, newest, err := c.surveyed(ctx, c.pool.hedgeDelay(nil))
	if n := len(c.pool.endpoints); n > witnesses && (err != nil || len(heads) < witnesses) {
		// The slow nodes count, too.
		heads, newest, err = c.surveyed(ctx, c.config.CallTimeout)
	}
	if age := c.config.Now().Sub(newest.time()); newest.Number > 0 && maxAge > 0 && age > maxAge {
		return fmt.Errorf("the latest block is %s old", age.Round(time.Second))
	}
	if err != nil {
		return err
	}
	// A payment is valid for minutes, by the chain's clock. One node may show blocks of tomorrow.
	earliest := slices.MinFunc(heads, func(a, b tip) int { return a.head.time().Compare(b.head.time()) }).head.time()
	if ahead := earliest.Sub(c.config.Now()); maxAge > 0 && ahead > maxAge {
		return fmt.Errorf("this machine's clock is %s behind the chain's blocks", ahead.Round(time.Second))
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
	newest := c.demoteLagging(ctx, heads)
	heads, err = c.agreeing(ctx, heads)
	return heads, newest.head, err
}

// tip is the latest block of one node.
type tip struct {
	node *endpoint
	head header
}

// shown is a tip, with the times when the node showed it first and last.
type shown struct {
	tip
	since, last time.Time
}

// heads reads the latest block of every node, or of those that are not slow where delay is short. The error is of those
// that did not answer.
func (c *Chain) heads(ctx context.Context, delay time.Duration) ([]tip, error) {
	nodes := c.pool.endpoints
	if delay < c.config.CallTimeout {
		nodes = c.pool.responsive(witnesses)
	}
	var found []tip
	var errs error
	for _, w := range poll(ctx, c, nodes, witnesses, delay, func(ctx context.Context, one *Chain) (header, error) {
		return one.readHeader(ctx, "eth_getBlockByNumber", "latest")
	}, nil) {
		if errs = errors.Join(errs, w.err); w.err == nil {
			found = append(found, tip{w.node, w.value})
		}
	}
	return found, errs
}

// demoteLagging returns the leading one of the latest blocks. Nodes far behind it are asked last for a while.
func (c *Chain) demoteLagging(ctx context.Context, heads []tip) tip {
	newest := lead(heads)
	now := c.config.Now()
	for _, t := range heads {
		// A block with a time in the future makes no current block old.
		if lag := newest.head.time().Sub(t.head.time()); lag >= maxLag && now.Sub(t.head.time()) >= maxLag {
			t.node.circuit.demote(now)
			c.pool.metrics.NodeAnswered(ctx, t.node.name, nodeLags)
		}
	}
	return newest
}

// newest is the leading one of the latest blocks of all nodes that are not slow, or known if that is newer.
func (c *Chain) newest(ctx context.Context, known header) header {
	heads, _ := c.heads(ctx, c.pool.hedgeDelay(nil)) // the circuit counts silent nodes
	if len(heads) == 0 {
		return known
	}
	if found := c.demoteLagging(ctx, heads).head; found.Number > known.Number {
		return found
	}
	return known
}

// agreeing compares the nodes' chains at a block that all of them have, and returns the nodes of the majority. The
// others are set aside; without a majority it is an error.
func (c *Chain) agreeing(ctx context.Context, heads []tip) ([]tip, error) {
	now := c.config.Now()
	var asked []tip
	for _, t := range heads {
		if now.Sub(t.head.time()) < maxLag || !t.node.circuit.isDemoted(now) {
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
	ask := func(ctx context.Context, one *Chain) (header, error) { return one.headerAt(ctx, common) }
	for _, w := range poll(ctx, c, ahead, enough, c.pool.hedgeDelay(nil), ask, nil) {
		if w.err == nil { // else the next survey asks it again
			follow[w.value.Hash] = append(follow[w.value.Hash], tips[w.node])
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
			t.node.circuit.demote(now)
			c.pool.metrics.NodeAnswered(ctx, t.node.name, nodeForked)
		}
	}
	return most, nil
}

// past is one node's chain as earlier surveys read it. It is kept for each node, because their heads differ.
type past struct {
	// turn is taken by whoever compares, which takes questions to the node: others wait as long as they have time.
	turn chan struct{}
	// seen are the latest blocks of earlier surveys, oldest first.
	seen []header
	// until is when the chain counts as settled after the last reorganisation.
	until time.Time
}

// maxSeen bounds how many blocks are kept. A deeper reorganisation replaces all of them.
const maxSeen = 128

// settled reports a recent reorganisation. Where there are several nodes, two must show it: one alone could stop sales
// by showing another block each time.
func (c *Chain) settled(ctx context.Context, heads []tip) error {
	tips := map[*endpoint]tip{}
	var nodes []*endpoint
	for _, t := range heads {
		nodes, tips[t.node] = append(nodes, t.node), t
	}
	now := c.config.Now()
	answered := 0
	var unsettled []time.Time
	var errs error
	ask := func(ctx context.Context, one *Chain) (time.Time, error) {
		return one.unsettledUntil(ctx, tips[one.pool.endpoints[0]])
	}
	for _, w := range poll(ctx, c, nodes, witnesses, c.pool.hedgeDelay(nil), ask, nil) {
		if w.err != nil {
			errs = errors.Join(errs, w.err)
			continue
		}
		if answered++; now.Before(w.value) {
			unsettled = append(unsettled, w.value)
		}
	}
	switch {
	case answered == 0:
		return fmt.Errorf("compare with earlier blocks: %w", errs)
	case len(unsettled) >= min(answered, witnesses):
		return fmt.Errorf("blocks were replaced: %w", fault.New(fault.ChainUnsettled, "The chain is being reorganised.").
			After(slices.MaxFunc(unsettled, time.Time.Compare).Sub(now)))
	}
	return nil
}

// unsettledUntil compares a node's chain with what earlier surveys read there; c has that node only. When at least
// ReorgDepth blocks were replaced or removed, the chain is unsettled for ReorgCalm: new payments may be removed, too.
func (c *Chain) unsettledUntil(ctx context.Context, at tip) (time.Time, error) {
	p := &at.node.past
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("wait to compare: %w", ctx.Err())
	}
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
