package card

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/mutant"
	"github.com/roamcard/roamcard/internal/order"
)

// IssuePaused reports that no cards are sold, by the configuration or by an operator.
func (c *Cards) IssuePaused(ctx context.Context) (bool, error) {
	return c.paused(ctx, order.CardIssue, c.Paused)
}

// TopupsPaused is IssuePaused for top-ups.
func (t Topups) TopupsPaused(ctx context.Context) (bool, error) {
	return t.paused(ctx, order.CardTopup, t.TopupPaused)
}

// selling fails with a fault while the sale of a product is closed.
func (c *Cards) selling(ctx context.Context, product order.Kind, configured bool, code fault.Code, detail string) error {
	paused, err := c.paused(ctx, product, configured)
	if err != nil {
		return err
	}
	if paused {
		return fault.New(code, detail)
	}
	return nil
}

// paused joins the two words that close a sale: the configuration's, which no operator overrules, and the
// operators'.
func (c *Cards) paused(ctx context.Context, product order.Kind, configured bool) (bool, error) {
	if configured || c.Stopped == nil || mutant.SwitchIgnored {
		return configured, nil
	}
	stopped, err := c.Stopped(ctx, product)
	if err != nil {
		return false, fmt.Errorf("read the kill switch: %w", err)
	}
	return stopped, nil
}
