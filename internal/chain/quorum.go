package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/reconcile"
)

// quorum is how many nodes must answer where no single one may decide: two of several, or one where Config.WitnessFrom
// allows it for small amounts.
func (c *Chain) quorum() int {
	if len(c.pool.endpoints) < witnesses || c.config.WitnessFrom > 0 {
		return 1
	}
	return witnesses
}

// unwitnessed is the error of an answer that fewer nodes than a quorum give.
func unwitnessed(why error) error { return fmt.Errorf("%w: %w", reconcile.ErrUnwitnessed, why) }

// consultQuorum polls some nodes, and all nodes when fewer than a quorum of those answer.
func consultQuorum[T any](
	ctx context.Context, c *Chain, nodes []*endpoint,
	ask func(context.Context, *Chain) (T, error), same func(a, b T) bool,
) []nodeAnswer[T] {
	delay := c.pool.hedgeDelay(nil)
	results := poll(ctx, c, nodes, witnesses, delay, ask, agreed(c, same))
	answered := 0
	for _, w := range results {
		if w.err == nil {
			answered++
		}
	}
	if answered < c.quorum() && len(nodes) < len(c.pool.endpoints) {
		return poll(ctx, c, c.pool.endpoints, witnesses, delay, ask, agreed(c, same))
	}
	return results
}

// witnessedHead is the newest block of a tag that two nodes have, where there are several, because one node alone may
// invent a block. Of two nodes, one with an old latest block does not count: it would hide what came after it.
func (c *Chain) witnessedHead(ctx context.Context, tag string) (header, error) {
	if len(c.pool.endpoints) == 1 {
		alone := *c
		alone.following = false
		return alone.head(ctx, tag)
	}
	var tips []tip
	var errs error
	ask := func(ctx context.Context, one *Chain) (header, error) { return one.header(ctx, tag) }
	for _, w := range consultQuorum(ctx, c, c.pool.fresh(c.quorum()), ask, sameBlock) {
		if errs = errors.Join(errs, w.err); w.err == nil {
			tips = append(tips, tip{w.node, w.value})
		}
	}
	slices.SortFunc(tips, func(a, b tip) int { return cmp.Compare(b.head.Number, a.head.Number) })
	switch {
	case len(tips) < c.quorum():
		return header{}, unwitnessed(errs)
	case len(tips) == 1:
		return tips[0].head, nil
	case len(tips) == witnesses && tag == "latest":
		return c.upToDate(ctx, tips[0], tips[1])
	}
	return tips[witnesses-1].head, nil
}

func sameBlock(a, b header) bool { return a.Number == b.Number && a.Hash == b.Hash }

// upToDate is the newest block that two nodes have. Its time is read from the node that is ahead.
func (c *Chain) upToDate(ctx context.Context, ahead, behind tip) (header, error) {
	if ahead.head.Number == behind.head.Number {
		return behind.head, nil
	}
	same, err := c.alone(ahead.node).headerAt(ctx, behind.head.Number)
	if err == nil && ahead.head.time().Sub(same.time()) < maxLag {
		return behind.head, nil
	}
	if _, missing := c.alone(behind.node).headerAt(ctx, ahead.head.Number); missing == nil {
		return ahead.head, nil // it was made between the two answers
	}
	differ := fmt.Errorf("one node has block %d, another has %d", ahead.head.Number, behind.head.Number)
	return header{}, unwitnessed(errors.Join(err, differ))
}

// witnessedBlock is a block as two nodes have it, where there are several.
func (c *Chain) witnessedBlock(ctx context.Context, number uint64) (header, error) {
	if len(c.pool.endpoints) == 1 {
		return c.headerAt(ctx, number)
	}
	var errs error
	var shown []header
	ask := func(ctx context.Context, one *Chain) (header, error) { return one.headerAt(ctx, number) }
	for _, w := range consultQuorum(ctx, c, c.pool.responsive(c.quorum()), ask, sameBlock) {
		if w.err != nil {
			errs = errors.Join(errs, w.err)
			continue
		}
		shown = append(shown, w.value)
		same := 0
		for _, other := range shown {
			if other.Hash == w.value.Hash {
				same++
			}
		}
		if same >= c.quorum() {
			return w.value, nil
		}
	}
	return header{}, unwitnessed(errors.Join(errs, fmt.Errorf("no two nodes show the same block %d", number)))
}
