// Package jobtest has a queue in memory and the rules every job.Queue keeps.
package jobtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
)

// Queue is a job.Queue in memory.
type Queue struct {
	now func() time.Time

	mu      sync.Mutex
	rows    []*job.Row
	workers map[string]worker
	wakes   map[chan struct{}]job.Class
}

type worker struct {
	kinds     []job.Kind
	liveUntil time.Time
}

// NewQueue makes an empty queue on a clock; nil means time.Now.
func NewQueue(now func() time.Time) *Queue {
	if now == nil {
		now = time.Now
	}
	return &Queue{now: now, workers: map[string]worker{}, wakes: map[chan struct{}]job.Class{}}
}

// Rows copies all jobs, oldest first.
func (q *Queue) Rows() []job.Row {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows := make([]job.Row, len(q.rows))
	for i, row := range q.rows {
		rows[i] = *row
	}
	return rows
}

// Enqueue implements job.Queue.
func (q *Queue) Enqueue(ctx context.Context, n job.New) (bool, error) {
	row, err := n.Row()
	if err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.find(row.Kind, row.UniqueKey) != nil || (n.Exclusive && q.open(row.Kind)) {
		return false, nil
	}
	now := q.now().UTC()
	row.Traceparent = job.Traceparent(ctx)
	row.CreatedAt = now
	if row.RunAt.IsZero() {
		row.RunAt = now
	}
	if row.Status == job.Processing {
		until := now.Add(n.LeaseTTL)
		row.LeaseUntil = &until
	}
	q.rows = append(q.rows, &row)
	q.wake(row.Class)
	return true, nil
}

// Find implements job.Queue.
func (q *Queue) Find(_ context.Context, kind job.Kind, uniqueKey string) (job.Row, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if row := q.find(kind, uniqueKey); row != nil {
		return *row, true, nil
	}
	return job.Row{}, false, nil
}

// Claim implements job.Queue.
func (q *Queue) Claim(
	_ context.Context, owner string, class job.Class, kinds []job.Kind, limit int, ttl time.Duration,
) ([]job.Row, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC()
	var due []*job.Row
	for _, row := range q.rows {
		if row.Status == job.Queued && row.Class == class && slices.Contains(kinds, row.Kind) && !row.RunAt.After(now) {
			due = append(due, row)
		}
	}
	slices.SortStableFunc(due, func(a, b *job.Row) int { return a.RunAt.Compare(b.RunAt) })
	var claimed []job.Row
	for _, row := range due[:min(limit, len(due))] {
		until := now.Add(ttl)
		row.Status, row.LeaseOwner, row.LeaseUntil = job.Processing, owner, &until
		row.Attempt++
		row.Version++
		claimed = append(claimed, *row)
	}
	return claimed, nil
}

// Beat implements job.Queue.
func (q *Queue) Beat(_ context.Context, f job.Fence, ttl time.Duration) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC()
	row := q.held(f)
	if row == nil || !now.Before(*row.LeaseUntil) {
		return false, nil
	}
	until := now.Add(ttl)
	row.LeaseUntil = &until
	return true, nil
}

// Save stores the arguments of a claimed job.
func (q *Queue) Save(f job.Fence, args job.Args) error {
	payload, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encode the arguments: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	row := q.held(f)
	if row == nil {
		return job.ErrLeaseLost
	}
	row.Payload = payload
	return nil
}

// Resume queues a job that waits for an operator again, with other arguments.
func (q *Queue) Resume(id uuid.UUID, args job.Args) error {
	payload, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encode the arguments: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, row := range q.rows {
		if row.ID == id && row.Status == job.OperatorReview {
			row.Payload, row.Status, row.FinishedAt, row.LastError = payload, job.Queued, nil, ""
			row.Uncounted, row.RunAt = row.Attempt, q.now().UTC()
			q.wake(row.Class)
		}
	}
	return nil
}

// Mark implements job.Queue.
func (q *Queue) Mark(_ context.Context, f job.Fence, step string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC()
	row := q.held(f)
	if row == nil || !now.Before(*row.LeaseUntil) {
		return job.ErrLeaseLost
	}
	row.Step, row.StepAt = step, &now
	row.Version++
	return nil
}

// Finish implements job.Queue.
func (q *Queue) Finish(_ context.Context, f job.Fence, o job.Outcome) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	row := q.held(f)
	if row == nil {
		return job.ErrLeaseLost
	}
	now := q.now().UTC()
	row.Status, row.LastError, row.LeaseOwner, row.LeaseUntil = o.Status, o.Reason, "", nil
	row.Version++
	if o.Uncounted {
		row.Uncounted++
	}
	if o.Class != "" {
		row.Class = o.Class
	}
	if o.Status == job.Queued {
		row.RunAt = now.Add(o.Delay)
		q.wake(row.Class)
		return nil
	}
	row.FinishedAt = &now
	return nil
}

// Reap implements job.Queue.
func (q *Queue) Reap(_ context.Context, limit int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC()
	n := 0
	for _, row := range q.rows {
		if n == limit {
			break
		}
		if row.Status != job.Processing || !row.LeaseUntil.Before(now) {
			continue
		}
		n++
		row.LastError, row.LeaseOwner, row.LeaseUntil = "lease expired", "", nil
		row.Version++
		row.Status, row.RunAt = job.Queued, now
		if row.Used() > row.MaxAttempts {
			row.Status, row.FinishedAt = job.OperatorReview, &now
		}
	}
	if n > 0 {
		q.wake(job.Classes()...)
	}
	return n, nil
}

// ClearParked implements job.Queue.
func (q *Queue) ClearParked(_ context.Context, kind job.Kind, limit int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	q.rows = slices.DeleteFunc(q.rows, func(row *job.Row) bool {
		parked := row.Kind == kind && (row.Status == job.Failed || row.Status == job.OperatorReview) && n < limit
		if parked {
			n++
		}
		return parked
	})
	return n, nil
}

// Depth implements job.Queue.
func (q *Queue) Depth(context.Context) ([]job.Depth, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var depths []job.Depth
	for _, row := range q.rows {
		if row.Status == job.Succeeded {
			continue
		}
		since := row.CreatedAt
		if row.Status == job.Queued {
			since = row.RunAt
		}
		of := job.Depth{
			Kind: row.Kind, Class: row.Class, Status: row.Status,
			GaveUp: row.Status == job.OperatorReview && row.Used() >= row.MaxAttempts,
		}
		i := slices.IndexFunc(depths, func(d job.Depth) bool {
			return d.Kind == of.Kind && d.Class == of.Class && d.Status == of.Status && d.GaveUp == of.GaveUp
		})
		if i < 0 {
			of.Oldest = since
			depths = append(depths, of)
			i = len(depths) - 1
		}
		depths[i].Count++
		if since.Before(depths[i].Oldest) {
			depths[i].Oldest = since
		}
	}
	slices.SortFunc(depths, func(a, b job.Depth) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Status, b.Status),
			cmp.Compare(numbered(a.GaveUp), numbered(b.GaveUp)))
	})
	return depths, nil
}

func numbered(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Announce implements job.Queue.
func (q *Queue) Announce(_ context.Context, owner string, kinds []job.Kind, ttl time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ttl <= 0 {
		delete(q.workers, owner)
		return nil
	}
	q.workers[owner] = worker{kinds: slices.Clone(kinds), liveUntil: q.now().Add(ttl)}
	return nil
}

// Workers implements job.Queue.
func (q *Queue) Workers(context.Context) (map[job.Kind]int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	live := map[job.Kind]int{}
	for _, w := range q.workers {
		if !q.now().Before(w.liveUntil) {
			continue
		}
		for _, kind := range w.kinds {
			live[kind]++
		}
	}
	return live, nil
}

// Wake implements job.Queue.
func (q *Queue) Wake(ctx context.Context, class job.Class) <-chan struct{} {
	ch := make(chan struct{}, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakes[ch] = class
	context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.wakes, ch)
	})
	return ch
}

func (q *Queue) wake(classes ...job.Class) {
	for ch, class := range q.wakes {
		if !slices.Contains(classes, class) {
			continue
		}
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (q *Queue) find(kind job.Kind, uniqueKey string) *job.Row {
	for _, row := range q.rows {
		if row.Kind == kind && row.UniqueKey == uniqueKey {
			return row
		}
	}
	return nil
}

// open says that a job of the kind is queued or being worked on.
func (q *Queue) open(kind job.Kind) bool {
	return slices.ContainsFunc(q.rows, func(row *job.Row) bool {
		return row.Kind == kind && (row.Status == job.Queued || row.Status == job.Processing)
	})
}

// held is the job if f is still its claim.
func (q *Queue) held(f job.Fence) *job.Row {
	for _, row := range q.rows {
		if row.ID == f.ID && row.Status == job.Processing && row.LeaseOwner == f.Owner && row.Attempt == f.Attempt {
			return row
		}
	}
	return nil
}
