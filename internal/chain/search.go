package chain

import (
	"context"
	"time"
)

const (
	// usualBlock is how many seconds Base takes for a block. It only improves the first guess.
	usualBlock = 2
	// nearEnough is how many blocks too early a search for logs may begin.
	nearEnough = 256
)

// blockBefore is the number of a block at or before a time, at most nearEnough blocks too early. Blocks are made at an
// even pace, so a few calls find it, however old it is.
func (c *Chain) blockBefore(ctx context.Context, head header, at time.Time) (uint64, error) {
	want := uint64(max(at.Unix(), 0))
	if head.Time <= want {
		return head.Number, nil
	}
	after := head
	// Back in growing steps, until a block is early enough.
	step := (head.Time-want)/usualBlock + nearEnough/2
	before := header{}
	for {
		if step >= after.Number {
			break // the first block is early enough
		}
		block, err := c.headerAt(ctx, after.Number-step)
		if err != nil {
			return 0, err
		}
		if block.Time <= want {
			before = block
			break
		}
		after, step = block, 2*step
	}
	// Between the two, alternately by halves, which always ends, and by interpolation, which is quick.
	for evenly := before.Number > 0; after.Number-before.Number > nearEnough; evenly = !evenly {
		guess := before.Number + (after.Number-before.Number)/2
		if evenly && before.Time > 0 {
			guess = before.Number + (want-before.Time)*(after.Number-before.Number)/(after.Time-before.Time)
			guess = min(max(guess, before.Number+nearEnough/2), after.Number-nearEnough/2)
		}
		block, err := c.headerAt(ctx, guess)
		if err != nil {
			return 0, err
		}
		if block.Time <= want {
			before = block
		} else {
			after = block
		}
	}
	return before.Number, nil
}
