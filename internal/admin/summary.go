package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
)

// Summary is how much waits for operators, in numbers that are cheap to read: whoever watches reads them again and
// again, and what they are about only when they change.
type Summary struct {
	At     time.Time
	Orders []OrderCount
	// Jobs are the jobs that have stopped.
	Jobs []StoppedCount
	// Findings are those that are open, Blocking those of them that keep something from being sold, and Transfers those
	// that belong to no order.
	Findings, Blocking, Transfers int
	// Compared is when the last comparison of the books ended; zero before the first.
	Compared time.Time
}

// StoppedCount is how many jobs of a kind have stopped in a status.
type StoppedCount struct {
	Kind   job.Kind
	Status job.Status
	Count  int
}

// StoppedCounts are the jobs that have stopped, of all that have not succeeded.
func StoppedCounts(depths []job.Depth) (all []StoppedCount) {
	at := map[StoppedCount]int{}
	for _, d := range depths {
		if d.Status != job.OperatorReview && d.Status != job.Failed {
			continue
		}
		of := StoppedCount{Kind: d.Kind, Status: d.Status}
		i, ok := at[of]
		if !ok {
			i = len(all)
			at[of], all = i, append(all, of)
		}
		all[i].Count += d.Count
	}
	return all
}

// Version is the version of an order, by which its reader knows whether it has changed.
func (a Admin) Version(ctx context.Context, id order.ID) (int, error) {
	version, err := a.Records.Version(ctx, id)
	if err != nil {
		return 0, toFault(err, "read the order's version")
	}
	return version, nil
}

// SummarySources are what a summary is read from.
type SummarySources struct {
	Orders func(ctx context.Context) ([]OrderCount, error)
	Jobs   func(ctx context.Context) ([]job.Depth, error)
	// Books adds what comparisons of the books have found.
	Books func(ctx context.Context, to *Summary) error
	Now   func() time.Time
}

// Read reads a summary.
func (s SummarySources) Read(ctx context.Context) (out Summary, err error) {
	out.At = s.Now().UTC()
	if out.Orders, err = s.Orders(ctx); err != nil {
		return Summary{}, fmt.Errorf("count the orders: %w", err)
	}
	depths, err := s.Jobs(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("count the jobs: %w", err)
	}
	out.Jobs = StoppedCounts(depths)
	if err := s.Books(ctx, &out); err != nil {
		return Summary{}, fmt.Errorf("count the findings: %w", err)
	}
	return out, nil
}
