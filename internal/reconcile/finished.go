package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
)

// Outcome is how a comparison ended.
type Outcome string

// The outcomes.
const (
	// Agreed says that nothing differed that operators had not resolved, and Differed that something did.
	Agreed   Outcome = "agreed"
	Differed Outcome = "differed"
	// Incomplete says that the books of an issuer could not be read, and everything else was compared.
	Incomplete Outcome = "incomplete"
	// Failed says that the chain or our records could not be read: there is no report of it.
	Failed Outcome = "failed"
)

// What a comparison that failed could not read.
const (
	chainUnread   = "chain"
	recordsUnread = "records"
)

// Finished is a comparison that has ended, as the list of them shows it.
type Finished struct {
	// ID numbers the comparisons in the order in which they ended.
	ID           int64
	Began, Ended time.Time
	Outcome      Outcome
	// Unread is what one that failed could not read; everything after it is zero then.
	Unread string
	// FirstBlock and LastBlock are the first and last block whose transfers had been read.
	FirstBlock, LastBlock uint64
	Checked               Checked
	SpentUSDCents         money.Cents
	// Opened are the findings that it found first, and Closed those that it found to be gone.
	Opened, Closed int
	// Open are the findings that were open at its end, Blocking those of them that stop the sale of top-ups, and Resolved
	// those that differed still and that operators had resolved.
	Open, Blocking, Resolved int
	// Sums are the open findings by code, and Balances the sums of the ledger.
	Sums     []Sum
	Balances []Balance
}

// Took is how long it took.
func (f Finished) Took() time.Duration { return f.Ended.Sub(f.Began) }

// FinishedQuery selects a page of comparisons.
type FinishedQuery struct {
	// Outcome selects those that ended so; empty selects all.
	Outcome Outcome
	// Before is the last comparison of the previous page, or zero.
	Before int64
	Limit  int
}

// Outcome is how the comparison of a report ended.
func (r Report) Outcome() Outcome {
	switch {
	case r.openOf(ProviderSilent) > 0:
		return Incomplete
	case r.Open() > 0:
		return Differed
	}
	return Agreed
}

// FinishedFor lists a page of comparisons for an operator, newest first. next is the cursor of the next page, or zero.
func (r *Reconciler) FinishedFor(
	ctx context.Context, q FinishedQuery, act order.OperatorContext,
) (page []Finished, next int64, err error) {
	limit := q.Limit
	q.Limit++
	page, err = r.Reports.Finished(ctx, q, act)
	if err != nil {
		return nil, 0, fmt.Errorf("list the comparisons: %w", err)
	}
	page, next = paging.Cut(page, limit, func(f Finished) int64 { return f.ID })
	return page, next, nil
}

// failed lists a comparison that has failed, unless its caller gave up: then it did not end. It returns why it failed.
func (r *Reconciler) failed(ctx context.Context, began time.Time, unread string, why error) error {
	if ctx.Err() != nil {
		return why
	}
	err := r.Reports.Fail(ctx, Finished{Began: began, Ended: r.Now().UTC(), Outcome: Failed, Unread: unread})
	if err != nil {
		return errors.Join(why, fmt.Errorf("list the comparison that failed: %w", err))
	}
	return why
}
