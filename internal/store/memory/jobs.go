package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
)

// Jobs is the job.Queue in memory.
type Jobs struct{ s *Store }

var _ job.Queue = Jobs{}

// Jobs is the store's queue.
func (s *Store) Jobs() Jobs { return Jobs{s} }

type worker struct {
	name      string
	kinds     []job.Kind
	liveUntil time.Time
}

// Enqueue implements job.Queue.
func (j Jobs) Enqueue(ctx context.Context, n job.New) (added bool, err error) {
	err = j.s.do(ctx, "jobs.enqueue", func(t *tx) error {
		_, added, err = t.insertJob(n, "")
		return err
	})
	return added, err
}

// insertJob inserts a job for an order of an owner, or for none. If there is one of the same kind and key, that one is
// returned, and added is false.
func (t *tx) insertJob(n job.New, of string) (row job.Row, added bool, err error) {
	if row, err = n.Row(); err != nil {
		return job.Row{}, false, err
	}
	if known := t.jobOf(row.Kind, row.UniqueKey, of); known != nil {
		return *known, false, nil
	}
	if n.Exclusive && t.jobs.first(func(r *job.Row) bool {
		return r.Kind == row.Kind && r.Of == of && (r.Status == job.Queued || r.Status == job.Processing)
	}) != nil {
		return job.Row{}, false, nil
	}
	row.Of, row.Traceparent, row.CreatedAt = of, job.Traceparent(t.ctx), t.at
	if row.RunAt = row.RunAt.UTC().Truncate(time.Microsecond); n.RunAt.IsZero() {
		row.RunAt = t.at
	}
	if row.Status == job.Processing {
		until := t.at.Add(n.LeaseTTL.Truncate(time.Microsecond))
		row.LeaseUntil = &until
	} else {
		t.notify(topicJobs, string(row.Class))
	}
	asked := row.Asked
	row.Asked = time.Time{}
	if _, err := add(t, &t.jobs, "jobs_pkey", row.ID, row); err != nil {
		return job.Row{}, false, err
	}
	row.Asked = asked
	return row, true, nil
}

func (t *tx) jobOf(kind job.Kind, key, of string) *job.Row {
	return t.jobs.first(func(r *job.Row) bool { return r.Kind == kind && r.UniqueKey == key && r.Of == of })
}

// Find implements job.Queue.
func (j Jobs) Find(ctx context.Context, kind job.Kind, uniqueKey string) (row job.Row, found bool, err error) {
	err = j.s.do(ctx, "jobs.find", func(t *tx) error {
		known := t.jobs.first(func(r *job.Row) bool { return r.Kind == kind && r.UniqueKey == uniqueKey })
		if found = known != nil; found {
			row = *known
		}
		return nil
	})
	return row, found, err
}

// Rows copies all jobs, oldest first.
func (j Jobs) Rows() []job.Row {
	j.s.disk.mu.Lock()
	defer j.s.disk.mu.Unlock()
	return j.s.disk.jobs.all(func(*job.Row) bool { return true })
}

// Claim implements job.Queue.
func (j Jobs) Claim(
	ctx context.Context, owner string, class job.Class, kinds []job.Kind, limit int, ttl time.Duration,
) (claimed []job.Row, err error) {
	err = j.s.do(ctx, "jobs.claim", func(t *tx) error {
		var due []*job.Row
		for _, r := range t.jobs.rows {
			if r.Status == job.Queued && r.Class == class && slices.Contains(kinds, r.Kind) && !r.RunAt.After(t.at) {
				due = append(due, r)
			}
		}
		slices.SortFunc(due, func(a, b *job.Row) int {
			return cmp.Or(a.RunAt.Compare(b.RunAt), bytes.Compare(a.ID[:], b.ID[:]))
		})
		until := t.at.Add(ttl)
		for _, row := range due[:min(limit, len(due))] {
			row = edit(t, row)
			row.Status, row.LeaseOwner, row.LeaseUntil = job.Processing, owner, &until
			row.Attempt++
			row.Version++
			claimed = append(claimed, *row)
		}
		return nil
	})
	return claimed, err
}

// held is the job of a claim that is not over, or nil. Its lease may have passed.
func (t *tx) held(f job.Fence) *job.Row {
	row := t.jobs.get(f.ID)
	if row == nil || row.Of != f.Of || row.LeaseOwner != f.Owner || row.Attempt != f.Attempt || row.LeaseUntil == nil {
		return nil
	}
	return row
}

// Beat implements job.Queue.
func (j Jobs) Beat(ctx context.Context, f job.Fence, ttl time.Duration) (live bool, err error) {
	err = j.s.do(ctx, "jobs.beat", func(t *tx) error {
		row := t.held(f)
		if live = row != nil && row.LeaseUntil.After(t.at); live {
			until := t.at.Add(ttl)
			edit(t, row).LeaseUntil = &until
		}
		return nil
	})
	return live, err
}

// Mark implements job.Queue.
func (j Jobs) Mark(ctx context.Context, f job.Fence, step string) error {
	return j.s.fenced(ctx, "jobs.mark", f, func(t *tx) error {
		row := edit(t, t.jobs.get(f.ID))
		row.Step, row.StepAt = step, &t.at
		row.Version++
		return nil
	})
}

// Finish implements job.Queue. It needs no live lease, only the claim.
func (j Jobs) Finish(ctx context.Context, f job.Fence, o job.Outcome) error {
	return j.s.do(ctx, "jobs.finish", func(t *tx) error { return t.finishJob(f, o) })
}

func (t *tx) finishJob(f job.Fence, o job.Outcome) error {
	if o.Status == "" || o.Status == job.Processing {
		return fmt.Errorf("finish job: invalid outcome %q", o.Status)
	}
	row := t.held(f)
	if row == nil {
		return fmt.Errorf("finish job: %w", job.ErrLeaseLost)
	}
	row = edit(t, row)
	row.Status, row.LastError, row.LeaseOwner, row.LeaseUntil = o.Status, o.Reason, "", nil
	row.Class = cmp.Or(o.Class, row.Class)
	row.Version++
	if o.Uncounted {
		row.Uncounted = row.Attempt
	}
	if o.Status != job.Queued {
		row.FinishedAt = &t.at
		return nil
	}
	row.FinishedAt, row.RunAt = nil, t.at.Add(o.Delay.Truncate(time.Microsecond))
	if o.Delay == 0 {
		t.wakeJobs(o.Class)
	}
	return nil
}

// wakeJobs wakes the workers of a class, or of all where the store in PostgreSQL does not know which.
func (t *tx) wakeJobs(class job.Class) {
	for _, each := range job.Classes() {
		if class == "" || class == each {
			t.notify(topicJobs, string(each))
		}
	}
}

// Save stores the arguments of a claimed job.
func (j Jobs) Save(ctx context.Context, f job.Fence, args job.Args) error {
	return j.s.fenced(ctx, "jobs.save", f, func(t *tx) error { return t.saveJob(f.ID, args) })
}

func (t *tx) saveJob(id uuid.UUID, args job.Args) error {
	payload, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encode the job: %w", err)
	}
	row := edit(t, t.jobs.get(id))
	row.Payload = payload
	row.Version++
	return nil
}

// resumeJob queues a job again, with other arguments and all of its attempts. It keeps the step.
func (t *tx) resumeJob(id uuid.UUID, args job.Args) error {
	if err := t.saveJob(id, args); err != nil {
		return err
	}
	row := edit(t, t.jobs.get(id))
	row.Status, row.LastError, row.RunAt, row.FinishedAt, row.Uncounted = job.Queued, "", t.at, nil, row.Attempt
	t.notify(topicJobs, string(row.Class))
	return nil
}

// Reap implements job.Queue.
func (j Jobs) Reap(ctx context.Context, limit int) (n int, err error) {
	err = j.s.do(ctx, "jobs.reap", func(t *tx) error {
		var passed []*job.Row
		for _, r := range t.jobs.rows {
			if r.Status == job.Processing && r.LeaseUntil.Before(t.at) {
				passed = append(passed, r)
			}
		}
		slices.SortStableFunc(passed, func(a, b *job.Row) int { return a.LeaseUntil.Compare(*b.LeaseUntil) })
		n = min(limit, len(passed))
		for _, row := range passed[:n] {
			row = edit(t, row)
			row.Status, row.LastError, row.LeaseOwner, row.LeaseUntil = job.Queued, "lease expired", "", nil
			row.RunAt = t.at
			row.Version++
			if row.Used() > row.MaxAttempts {
				row.Status, row.FinishedAt = job.OperatorReview, &t.at
			}
		}
		if n > 0 {
			t.wakeJobs("")
		}
		return nil
	})
	return n, err
}

// ClearParked implements job.Queue.
func (j Jobs) ClearParked(ctx context.Context, kind job.Kind, limit int) (n int, err error) {
	err = j.s.do(ctx, "jobs.clear", func(t *tx) error {
		n = drop(t, &t.jobs, limit, func(r *job.Row) uuid.UUID { return r.ID }, func(r *job.Row) bool {
			return r.Kind == kind && (r.Status == job.Failed || r.Status == job.OperatorReview)
		})
		return nil
	})
	return n, err
}

// Depth implements job.Queue.
func (j Jobs) Depth(ctx context.Context) (depths []job.Depth, err error) {
	err = j.s.do(ctx, "jobs.depth", func(t *tx) error {
		for _, r := range t.jobs.rows {
			if r.Status != job.Succeeded {
				depths = counted(depths, r)
			}
		}
		return nil
	})
	slices.SortFunc(depths, func(a, b job.Depth) int {
		order := cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Status, b.Status))
		if order == 0 && a.GaveUp != b.GaveUp {
			order = 1
			if b.GaveUp {
				order = -1
			}
		}
		return order
	})
	return depths, err
}

func counted(depths []job.Depth, r *job.Row) []job.Depth {
	one := job.Depth{Kind: r.Kind, Class: r.Class, Status: r.Status, Oldest: r.CreatedAt,
		GaveUp: r.Status == job.OperatorReview && r.Used() >= r.MaxAttempts}
	if r.Status == job.Queued {
		one.Oldest = r.RunAt
	}
	i := slices.IndexFunc(depths, func(d job.Depth) bool {
		return d.Kind == one.Kind && d.Class == one.Class && d.Status == one.Status && d.GaveUp == one.GaveUp
	})
	if i < 0 {
		depths, i = append(depths, one), len(depths)
	}
	depths[i].Count++
	if one.Oldest.Before(depths[i].Oldest) {
		depths[i].Oldest = one.Oldest
	}
	return depths
}

// Announce implements job.Queue.
func (j Jobs) Announce(ctx context.Context, owner string, kinds []job.Kind, ttl time.Duration) error {
	return j.s.do(ctx, "jobs.announce", func(t *tx) error {
		drop(t, &t.workers, 1, func(w *worker) string { return w.name }, func(w *worker) bool { return w.name == owner })
		if ttl <= 0 {
			return nil
		}
		_, err := add(t, &t.workers, "workers_pkey", owner, worker{owner, slices.Clone(kinds), t.at.Add(ttl)})
		return err
	})
}

// Workers implements job.Queue.
func (j Jobs) Workers(ctx context.Context) (live map[job.Kind]int, err error) {
	live = map[job.Kind]int{}
	err = j.s.do(ctx, "jobs.workers", func(t *tx) error {
		for _, w := range t.workers.all(func(w *worker) bool { return w.liveUntil.After(t.at) }) {
			for _, kind := range w.kinds {
				live[kind]++
			}
		}
		return nil
	})
	return live, err
}

// Wake implements job.Queue.
func (j Jobs) Wake(ctx context.Context, class job.Class) <-chan struct{} {
	wake, stop := j.s.disk.subscribe(topicJobs, string(class))
	context.AfterFunc(ctx, stop)
	return wake
}
