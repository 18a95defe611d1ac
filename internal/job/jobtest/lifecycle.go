package jobtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
)

func reapPassedOnly(t *testing.T, q job.Queue) {
	passed := enqueueAndClaim(t, q, "passed", 200*time.Millisecond)
	if err := q.Mark(t.Context(), passed.Fence(), "sending"); err != nil {
		t.Fatalf("Mark: %v", err)
	}
	ended := enqueueAndClaim(t, q, "ended", time.Millisecond)
	finish(t, q, ended.Fence(), job.Done())
	live := enqueueAndClaim(t, q, "live", ttl)
	untilPassed(t, q, passed.Fence())

	if n := reap(t, q, 10); n != 1 {
		t.Fatalf("reaped %d", n)
	}
	row := find(t, q, cook, "passed")
	if row.Status != job.Queued || row.LeaseOwner != "" || row.Step != "sending" || row.StepAt == nil ||
		row.LastError == "" || row.Used() != 1 {
		t.Errorf("reaped row %+v", row)
	}
	if row := find(t, q, cook, "ended"); row.Status != job.Succeeded {
		t.Errorf("a finished job was reaped: %s", row.Status)
	}
	same(t, live, find(t, q, cook, "live"))
	if err := q.Finish(t.Context(), passed.Fence(), job.Done()); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("Finish after the reaper: %v", err)
	}
	if row := claimOne(t, q); row.Attempt != 2 || row.Step != "sending" {
		t.Errorf("claimed after the reaper %+v", row)
	}
}

func reapInBatches(t *testing.T, q job.Queue) {
	enqueueAndClaim(t, q, "long", ttl)
	var last job.Row
	for i := range 5 {
		last = enqueueAndClaim(t, q, fmt.Sprint(i), time.Millisecond)
	}
	untilPassed(t, q, last.Fence())
	var counts []int
	for range 4 {
		counts = append(counts, reap(t, q, 2))
	}
	if want := []int{2, 2, 1, 0}; !cmp.Equal(counts, want) {
		t.Errorf("reaped %v, want %v", counts, want)
	}
}

func reapParks(t *testing.T, q job.Queue) {
	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "k", MaxAttempts: 1})
	// One more than the attempts: the last claim is for the runner to park the job itself.
	for _, want := range []job.Status{job.Queued, job.OperatorReview} {
		rows, err := q.Claim(t.Context(), "me", job.Maintain, both, 1, time.Millisecond)
		if err != nil || len(rows) != 1 {
			t.Fatalf("Claim = %d, %v", len(rows), err)
		}
		untilPassed(t, q, rows[0].Fence())
		if n := reap(t, q, 10); n != 1 {
			t.Fatalf("reaped %d", n)
		}
		if row := find(t, q, cook, "k"); row.Status != want || (row.FinishedAt != nil) != (want == job.OperatorReview) {
			t.Fatalf("reaped row %+v, want %s", row, want)
		}
	}
	if n := len(claim(t, q, "me", both, 1)); n != 0 {
		t.Error("a parked job was claimed")
	}
}

func finishAgainstReaper(t *testing.T, q job.Queue) {
	const jobs = 20
	fences := make([]job.Fence, jobs)
	for i := range fences {
		fences[i] = enqueueAndClaim(t, q, fmt.Sprint(i), time.Millisecond).Fence()
	}
	untilPassed(t, q, fences[jobs-1])
	won := make([]bool, jobs)
	var wg sync.WaitGroup
	for i, f := range fences {
		wg.Go(func() {
			err := q.Finish(t.Context(), f, job.Done())
			if won[i] = err == nil; err != nil && !errors.Is(err, job.ErrLeaseLost) {
				t.Errorf("Finish: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := q.Reap(t.Context(), 3); err != nil {
				t.Errorf("Reap: %v", err)
			}
		})
	}
	wg.Wait()
	reap(t, q, jobs)
	for i := range fences {
		want := job.Queued
		if won[i] {
			want = job.Succeeded
		}
		if row := find(t, q, cook, fmt.Sprint(i)); row.Status != want {
			t.Errorf("job %d is %s, want %s", i, row.Status, want)
		}
	}
}

func bornLeased(t *testing.T, q job.Queue) {
	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "k", LeaseOwner: "me", LeaseTTL: ttl})
	row := find(t, q, cook, "k")
	if row.Status != job.Processing || row.Attempt != 1 || row.LeaseOwner != "me" || row.LeaseUntil == nil {
		t.Fatalf("born as %+v", row)
	}
	if n := len(claim(t, q, "other", both, 5)); n != 0 {
		t.Error("a job born leased was claimed")
	}
	if !beat(t, q, row.Fence(), ttl) {
		t.Error("its lease does not beat")
	}
	finish(t, q, row.Fence(), job.Done())

	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "orphan", LeaseOwner: "me", LeaseTTL: time.Millisecond})
	untilPassed(t, q, find(t, q, cook, "orphan").Fence())
	if n := reap(t, q, 5); n != 1 {
		t.Errorf("reaped %d", n)
	}
}

func depthCounts(t *testing.T, q job.Queue) {
	due := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	enqueue(t, q, job.New{Args: Args{Name: serve}, UniqueKey: "old", RunAt: due})
	enqueue(t, q, job.New{Args: Args{Name: serve}, UniqueKey: "new", RunAt: due.Add(time.Minute)})
	enqueue(t, q, job.New{Args: Args{Name: serve}, UniqueKey: "sold", RunAt: due.Add(time.Second), Class: job.Settle})
	finish(t, q, enqueueAndClaim(t, q, "done", ttl).Fence(), job.Done())
	finish(t, q, enqueueAndClaim(t, q, "review", ttl).Fence(), job.Review("look"))
	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "spent", MaxAttempts: 1})
	finish(t, q, claim(t, q, "me", []job.Kind{cook}, 1)[0].Fence(), job.Review("gave up"))
	got, err := q.Depth(t.Context())
	if err != nil {
		t.Fatalf("Depth: %v", err)
	}
	want := []job.Depth{
		{
			Kind: cook, Class: job.Maintain, Status: job.OperatorReview, Count: 1,
			Oldest: find(t, q, cook, "review").CreatedAt,
		},
		{
			Kind: cook, Class: job.Maintain, Status: job.OperatorReview, GaveUp: true, Count: 1,
			Oldest: find(t, q, cook, "spent").CreatedAt,
		},
		{Kind: serve, Class: job.Maintain, Status: job.Queued, Count: 2, Oldest: due},
		{Kind: serve, Class: job.Settle, Status: job.Queued, Count: 1, Oldest: due.Add(time.Second)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Depth (-want +got):\n%s", diff)
	}
}

func workersLive(t *testing.T, q job.Queue) {
	announce := func(owner string, kinds []job.Kind, ttl time.Duration) {
		t.Helper()
		if err := q.Announce(t.Context(), owner, kinds, ttl); err != nil {
			t.Fatalf("Announce: %v", err)
		}
	}
	expect := func(want map[job.Kind]int) {
		t.Helper()
		got := map[job.Kind]int{}
		eventually(t, "workers as announced", func() bool {
			var err error
			if got, err = q.Workers(t.Context()); err != nil {
				t.Fatalf("Workers: %v", err)
			}
			return cmp.Equal(want, got)
		})
	}
	expect(map[job.Kind]int{})
	announce("a", both, ttl)
	announce("b", []job.Kind{cook}, ttl)
	announce("a", both, ttl)
	expect(map[job.Kind]int{cook: 2, serve: 1})
	announce("a", both, 0)
	expect(map[job.Kind]int{cook: 1})
	announce("b", both, time.Millisecond)
	expect(map[job.Kind]int{})
}

func dueJobWakes(t *testing.T, q job.Queue) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake := q.Wake(ctx, job.Maintain)
	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "k"})
	select {
	case <-wake:
	case <-time.After(3 * time.Minute): // ends a test that fails
		t.Fatal("a new job did not wake")
	}
	finish(t, q, claimOne(t, q).Fence(), job.Release("stop"))
	select {
	case <-wake:
	case <-time.After(3 * time.Minute): // ends a test that fails
		t.Fatal("a job handed back did not wake")
	}
}

func enqueue(t *testing.T, q job.Queue, n job.New) {
	t.Helper()
	if added, err := q.Enqueue(t.Context(), n); !added || err != nil {
		t.Fatalf("Enqueue %s = %v, %v", n.UniqueKey, added, err)
	}
}

func claim(t *testing.T, q job.Queue, owner string, kinds []job.Kind, limit int) []job.Row {
	t.Helper()
	rows, err := q.Claim(t.Context(), owner, job.Maintain, kinds, limit, ttl)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return rows
}

func claimOne(t *testing.T, q job.Queue) job.Row {
	t.Helper()
	rows := claim(t, q, "me", []job.Kind{cook}, 1)
	if len(rows) != 1 {
		t.Fatalf("claimed %d jobs", len(rows))
	}
	return rows[0]
}

func enqueueAndClaim(t *testing.T, q job.Queue, key string, ttl time.Duration) job.Row {
	t.Helper()
	// Due long ago, so that it comes before what else is queued.
	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: key, RunAt: time.Now().Add(-24 * time.Hour)})
	rows, err := q.Claim(t.Context(), "me", job.Maintain, []job.Kind{cook}, 1, ttl)
	if err != nil || len(rows) != 1 || rows[0].UniqueKey != key {
		t.Fatalf("Claim %s = %v, %v", key, keysOf(rows), err)
	}
	return rows[0]
}

func finish(t *testing.T, q job.Queue, f job.Fence, o job.Outcome) {
	t.Helper()
	if err := q.Finish(t.Context(), f, o); err != nil {
		t.Fatalf("Finish: %v", err)
	}
}

func reap(t *testing.T, q job.Queue, limit int) int {
	t.Helper()
	n, err := q.Reap(t.Context(), limit)
	if err != nil {
		t.Fatalf("Reap: %v", err)
	}
	return n
}

func beat(t *testing.T, q job.Queue, f job.Fence, ttl time.Duration) bool {
	t.Helper()
	held, err := q.Beat(t.Context(), f, ttl)
	if err != nil {
		t.Fatalf("Beat: %v", err)
	}
	return held
}

// untilPassed waits until the lease has passed by the queue's clock: a beat of nothing is refused then.
func untilPassed(t *testing.T, q job.Queue, f job.Fence) {
	t.Helper()
	eventually(t, "lease passed", func() bool { return !beat(t, q, f, time.Millisecond) })
}

func find(t *testing.T, q job.Queue, kind job.Kind, key string) job.Row {
	t.Helper()
	row, found, err := q.Find(t.Context(), kind, key)
	if err != nil || !found {
		t.Fatalf("Find %s = %v, %v", key, found, err)
	}
	return row
}

func keysOf(rows []job.Row) []string {
	var keys []string
	for _, row := range rows {
		keys = append(keys, row.UniqueKey)
	}
	return keys
}

func wrongFences(f job.Fence) map[string]job.Fence {
	return map[string]job.Fence{
		"another job":     {ID: uuid.New(), Owner: f.Owner, Attempt: f.Attempt},
		"another owner":   {ID: f.ID, Owner: f.Owner + "2", Attempt: f.Attempt},
		"another attempt": {ID: f.ID, Owner: f.Owner, Attempt: f.Attempt + 1},
	}
}

// eventually polls a condition that the queue's clock brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}

// Held is the claim of a job that is worked on for an hour.
func Held(t *testing.T, q job.Queue) job.Fence {
	t.Helper()
	n := job.New{Args: Args{Name: cook}, UniqueKey: uuid.NewString(), LeaseOwner: "held", LeaseTTL: time.Hour}
	if added, err := q.Enqueue(t.Context(), n); err != nil || !added {
		t.Fatalf("Enqueue = %v, %v", added, err)
	}
	return find(t, q, cook, n.UniqueKey).Fence()
}
