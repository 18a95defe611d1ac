package chain

import (
	"context"
	"time"
)

// Clock is the time of the latest block.
func (c *Chain) Clock(ctx context.Context) (time.Time, error) {
	head, err := c.header(ctx, "latest")
	if err != nil {
		return time.Time{}, err
	}
	return head.time(), nil
}
