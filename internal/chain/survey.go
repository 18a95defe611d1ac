package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/mutant"
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
	heads, newest, err := c.surveyed(ctx, c.pool.patience(nil))
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
	if n := len(c.pool.endpoints); n >= witnesses && len(heads) < witnesses && c.config.WitnessFrom == 0 {
		return fmt.Errorf("%d of %d nodes can be asked, and a transfer must be shown by two", len(heads), n)
	}
	return c.settled(ctx, heads[0])
}

// surveyed are the nodes that follow the chain of most, and the newest block of all.
func (c *Chain) surveyed(ctx context.Context, patience time.Duration) ([]tip, header, error) {
	heads, err := c.heads(ctx, patience)
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

// heads asks every node for its latest block. Once there are enough to witness for each other, it waits for the others
// no longer than patience, and not for those that are known to be slower. The error is of those that did not answer.
func (c *Chain) heads(ctx context.Context, patience time.Duration) ([]tip, error) {
	type answer struct {
		tip
		err error
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := c.pool.endpoints
	if patience < c.config.CallTimeout {
		nodes = c.pool.brisk()
	}
	answers := make(chan answer, len(nodes))
	for _, e := range nodes {
		go func() {
			head, err := c.alone(e).readHeader(asking, "eth_getBlockByNumber", "latest")
			answers <- answer{tip{e, head}, err}
		}()
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	var found []tip
	var errs error
	waited := false
	for heard := 0; heard < len(nodes) && (!waited || len(found) < witnesses); {
		select {
		case a := <-answers:
			heard++
			if errs = errors.Join(errs, a.err); a.err == nil {
				found = append(found, a.tip)
			}
		case <-late.C:
			waited = true
		}
	}
	// By preference, whoever was first to answer.
	slices.SortFunc(found, func(a, b tip) int {
		return cmp.Compare(slices.Index(nodes, a.node), slices.Index(nodes, b.node))
	})
	return found, errs
}

// setLaggingAside returns the newest of the latest blocks. Nodes far behind it are asked last for a while: what they
// say is true, and of the past.
func (c *Chain) setLaggingAside(ctx context.Context, heads []tip) tip {
	newest := heads[0]
	for _, t := range heads {
		if t.head.Number > newest.head.Number {
			newest = t
		}
	}
	for _, t := range heads {
		if newest.head.time().Sub(t.head.time()) >= maxLag {
			t.node.circuit.aside(c.config.Now())
			c.pool.metrics.NodeAnswered(ctx, t.node.name, nodeLags)
		}
	}
	return newest
}

// newest is the newest of the latest blocks of all nodes that are not slow, at least the one known.
func (c *Chain) newest(ctx context.Context, known header) header {
	heads, _ := c.heads(ctx, c.pool.patience(nil)) // a silent node has its own circuit
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
	if len(asked) < 2 {
		return asked, nil
	}
	common := asked[0].head.Number
	for _, t := range asked {
		common = min(common, t.head.Number)
	}
	follow := map[x402.Hash][]tip{}
	for _, t := range asked {
		at := t.head
		if at.Number != common {
			var err error
			if at, err = c.alone(t.node).headerAt(ctx, common); err != nil {
				continue // it answered a moment ago, and will be asked again
			}
		}
		follow[at.Hash] = append(follow[at.Hash], t)
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

// past is the chain as earlier looks saw it.
type past struct {
	mu sync.Mutex
	// seen are the latest blocks of earlier looks, oldest first.
	seen []header
	// until is when the last reorganisation is over.
	until time.Time
}

// maxSeen bounds how many looks are kept: a reorganisation that goes further back shows in all of them.
const maxSeen = 128

// settled compares the chain with what earlier looks saw. Blocks that are replaced, or gone, down to a depth make
// it unsettled for a while: what is paid then may be undone, too.
func (c *Chain) settled(ctx context.Context, at tip) error {
	p := c.pool.past
	p.mu.Lock()
	defer p.mu.Unlock()
	now := c.config.Now()
	depth := uint64(0)
	if n := len(p.seen); n > 0 {
		last := p.seen[n-1].Number
		for ; n > 0; n-- {
			known := p.seen[n-1]
			stands := at.head.Hash == known.Hash
			if !stands && known.Number < at.head.Number {
				block, err := c.alone(at.node).headerAt(ctx, known.Number)
				if err != nil {
					return fmt.Errorf("compare with an earlier block: %w", err)
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
	if c.config.ReorgDepth > 0 && depth >= c.config.ReorgDepth && !mutant.ReorgIgnored {
		p.until = now.Add(c.config.ReorgCalm)
	}
	if now.Before(p.until) {
		return fmt.Errorf("blocks were replaced: %w",
			fault.New(fault.ChainUnsettled, "The chain is being reorganised.").After(p.until.Sub(now)))
	}
	return nil
}
