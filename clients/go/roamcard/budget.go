package roamcard

import "context"

// Budget is what was signed for in the last 24 hours by all who share the store.
type Budget struct {
	// Spent counts every payment that may have been taken, and Cap is Policy.MaxPerDay; zero is no cap.
	Spent Cents `json:"spentUsdCents"`
	Cap   Cents `json:"capUsdCents"`
}

// Left is what may still be signed for; zero without a cap.
func (b Budget) Left() Cents { return max(0, b.Cap-b.Spent) }

// Budget reads the journal.
func (c *Client) Budget(ctx context.Context) (Budget, error) {
	b, err := c.config.Store.Read(ctx)
	if err != nil {
		return Budget{}, err
	}
	var spent int64
	for _, e := range b.Purchases {
		spent += e.spent(c.config.Now())
	}
	return Budget{Spent: Cents((spent + unitsPerCent - 1) / unitsPerCent), Cap: c.config.Policy.MaxPerDay}, nil
}
