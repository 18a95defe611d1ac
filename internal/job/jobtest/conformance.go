// Package jobtest has the rules that every job.Queue keeps.
package jobtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/roamcard/roamcard/internal/job"
)

// Args are arguments of any kind.
type Args struct {
	Name job.Kind `json:"-"`
	Note string   `json:"note"`
}

// Kind implements job.Args.
func (a Args) Kind() job.Kind { return a.Name }

const (
	cook  job.Kind = "cook"
	serve job.Kind = "serve"

	ttl = time.Minute
)

var both = []job.Kind{cook, serve}

// RunQueue checks the promises of job.Queue. newQueue makes an empty queue, once for each rule.
func RunQueue(t *testing.T, newQueue func(t *testing.T) job.Queue) {
	t.Helper()
	for _, rule := range []struct {
		name string
		test func(*testing.T, job.Queue)
	}{
		{"a duplicate leaves the stored job alone", duplicateLeavesAlone},
		{"unique keys are compared as they are", keysAsTheyAre},
		{"what cannot run is refused", invalidRefused},
		{"a claim takes due jobs of the kinds, longest due first", claimTakesDue},
		{"racing claims share the jobs out", claimsShareOut},
		{"only the live claim beats", liveClaimBeats},
		{"a mark needs a live lease", markNeedsLease},
		{"an outcome is stored once", outcomeOnce},
		{"failures count in a row", failuresInARow},
		{"an older claim of the same owner is fenced off", olderClaimFenced},
		{"the reaper ends passed leases only", reapPassedOnly},
		{"the reaper gets through in batches", reapInBatches},
		{"the reaper parks a job past its attempts", reapParks},
		{"finish and reaper never both win", finishAgainstReaper},
		{"a job is born leased", bornLeased},
		{"depth counts what has not succeeded", depthCounts},
		{"workers live as long as announced", workersLive},
		{"a due job wakes", dueJobWakes},
		{"each class is claimed by itself", classesApart},
		{"a job that is to be alone is", aloneIsAlone},
		{"parked jobs are cleared by kind", parkedCleared},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.test(t, newQueue(t)) })
	}
}

func duplicateLeavesAlone(t *testing.T, q job.Queue) {
	enqueue(t, q, job.New{Args: Args{cook, "first"}, UniqueKey: "k"})
	first := find(t, q, cook, "k")
	again := job.New{Args: Args{cook, "second"}, UniqueKey: "k", RunAt: time.Now().Add(time.Hour), MaxAttempts: 3}
	if added, err := q.Enqueue(t.Context(), again); added || err != nil {
		t.Fatalf("Enqueue again = %v, %v", added, err)
	}
	same(t, first, find(t, q, cook, "k"))
	finish(t, q, claimOne(t, q).Fence(), job.Done())
	if added, err := q.Enqueue(t.Context(), again); added || err != nil {
		t.Fatalf("Enqueue after success = %v, %v", added, err)
	}
	if row := find(t, q, cook, "k"); row.Status != job.Succeeded {
		t.Errorf("a finished job is %s again", row.Status)
	}
}

func keysAsTheyAre(t *testing.T, q job.Queue) {
	keys := []string{"k", "K", " k", "k ", `{"a":1}`, `{"a": 1}`, "k|2026-01-01T00:00:00Z", "ключ", "'; --", `\`}
	for _, key := range keys {
		enqueue(t, q, job.New{Args: Args{cook, key}, UniqueKey: key})
	}
	enqueue(t, q, job.New{Args: Args{serve, "k"}, UniqueKey: "k"})
	for _, key := range keys {
		args, err := job.Decode[Args](find(t, q, cook, key))
		if err != nil || args.Note != key {
			t.Errorf("key %q finds the job of %q, %v", key, args.Note, err)
		}
	}
}

func invalidRefused(t *testing.T, q job.Queue) {
	for name, n := range map[string]job.New{
		"no arguments":      {UniqueKey: "k"},
		"no kind":           {Args: Args{}, UniqueKey: "k"},
		"no key":            {Args: Args{Name: cook}},
		"negative attempts": {Args: Args{Name: cook}, UniqueKey: "k", MaxAttempts: -1},
		"half a lease":      {Args: Args{Name: cook}, UniqueKey: "k", LeaseOwner: "a"},
	} {
		if added, err := q.Enqueue(t.Context(), n); added || !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%s: Enqueue = %v, %v", name, added, err)
		}
	}
	if _, found, err := q.Find(t.Context(), cook, "k"); found || err != nil {
		t.Errorf("Find = %v, %v", found, err)
	}
}

func claimTakesDue(t *testing.T, q job.Queue) {
	now := time.Now()
	enqueue(t, q, job.New{Args: Args{cook, "later"}, UniqueKey: "later", RunAt: now.Add(-time.Minute)})
	enqueue(t, q, job.New{Args: Args{serve, "sooner"}, UniqueKey: "sooner", RunAt: now.Add(-time.Hour), MaxAttempts: 7})
	enqueue(t, q, job.New{Args: Args{cook, "last"}, UniqueKey: "last"})
	enqueue(t, q, job.New{Args: Args{cook, "future"}, UniqueKey: "future", RunAt: now.Add(time.Hour)})
	enqueue(t, q, job.New{Args: Args{"other", ""}, UniqueKey: "other"})

	rows := claim(t, q, "me", both, 2)
	if got := keysOf(rows); !cmp.Equal(got, []string{"sooner", "later"}) {
		t.Fatalf("claimed %v", got)
	}
	row := rows[0]
	args, err := job.Decode[Args](row)
	if err != nil || args.Note != "sooner" {
		t.Errorf("arguments %+v, %v", args, err)
	}
	if row.Status != job.Processing || row.Attempt != 1 || row.Used() != 1 || row.MaxAttempts != 7 ||
		row.LeaseOwner != "me" || row.LeaseUntil == nil || row.Kind != serve {
		t.Errorf("claimed row %+v", row)
	}
	if row.LeaseUntil.Location() != time.UTC || row.CreatedAt.Location() != time.UTC {
		t.Error("times are not UTC")
	}
	same(t, row, find(t, q, serve, "sooner"))
	if got := keysOf(claim(t, q, "me", both, 5)); !cmp.Equal(got, []string{"last"}) {
		t.Errorf("then claimed %v", got)
	}
	if rows := claim(t, q, "me", nil, 5); len(rows) != 0 {
		t.Errorf("claimed %d jobs of no kind", len(rows))
	}
}

func claimsShareOut(t *testing.T, q job.Queue) {
	const jobs, racers = 40, 20
	for i := range jobs {
		enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: fmt.Sprint(i)})
	}
	var mu sync.Mutex
	taken := map[string]int{}
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			for {
				rows, err := q.Claim(t.Context(), fmt.Sprint("racer ", i), job.Maintain, both, 3, ttl)
				if err != nil {
					t.Errorf("Claim: %v", err)
				}
				if len(rows) == 0 {
					return
				}
				mu.Lock()
				for _, row := range rows {
					taken[row.UniqueKey]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// A racer may stop while the last rows are locked by another, so some may be left, none taken twice.
	for key, n := range taken {
		if n != 1 {
			t.Errorf("job %s was claimed %d times", key, n)
		}
	}
	if left := len(claim(t, q, "last", both, jobs)); len(taken)+left != jobs {
		t.Errorf("%d jobs claimed and %d left of %d", len(taken), left, jobs)
	}
}

func liveClaimBeats(t *testing.T, q job.Queue) {
	row := enqueueAndClaim(t, q, "k", ttl)
	if !beat(t, q, row.Fence(), 2*ttl) {
		t.Fatal("a live lease was not extended")
	}
	if after := find(t, q, cook, "k"); !after.LeaseUntil.After(*row.LeaseUntil) || after.Version != row.Version {
		t.Errorf("after a beat %+v", after)
	}
	for name, f := range wrongFences(row.Fence()) {
		if beat(t, q, f, ttl) {
			t.Errorf("%s: beat", name)
		}
	}
	finish(t, q, row.Fence(), job.Done())
	if beat(t, q, row.Fence(), ttl) {
		t.Error("a finished job has a beat")
	}
	short := enqueueAndClaim(t, q, "short", time.Millisecond)
	untilPassed(t, q, short.Fence())
}

func markNeedsLease(t *testing.T, q job.Queue) {
	row := enqueueAndClaim(t, q, "k", ttl)
	for name, f := range wrongFences(row.Fence()) {
		if err := q.Mark(t.Context(), f, "sending"); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("%s: Mark: %v", name, err)
		}
	}
	same(t, row, find(t, q, cook, "k"))
	if err := q.Mark(t.Context(), row.Fence(), "sending"); err != nil {
		t.Fatalf("Mark: %v", err)
	}
	marked := find(t, q, cook, "k")
	if marked.Step != "sending" || marked.StepAt == nil || marked.Version <= row.Version {
		t.Errorf("marked row %+v", marked)
	}
	// The lease has passed, though no reaper has come by yet.
	short := enqueueAndClaim(t, q, "short", time.Millisecond)
	untilPassed(t, q, short.Fence())
	if err := q.Mark(t.Context(), short.Fence(), "sending"); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("Mark after the lease: %v", err)
	}
	if row := find(t, q, cook, "short"); row.Step != "" || row.StepAt != nil {
		t.Errorf("a passed lease left the mark %q", row.Step)
	}
}

func failuresInARow(t *testing.T, q job.Queue) {
	enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "k"})
	for n, c := range []struct {
		outcome job.Outcome
		used    int
	}{
		{job.Retry("boom", 0), 1}, {job.Retry("boom", 0), 2}, {job.Snooze(0), 0}, {job.Retry("boom", 0), 1},
		{job.Release("stop"), 0}, {job.HandOver(job.Maintain), 0}, {job.Retry("boom", 0), 1},
	} {
		finish(t, q, claimOne(t, q).Fence(), c.outcome)
		if row := find(t, q, cook, "k"); row.Used() != c.used || row.Attempt != n+1 {
			t.Errorf("after %d: %d of %d attempts count, want %d", n, row.Used(), row.Attempt, c.used)
		}
	}
}

func outcomeOnce(t *testing.T, q job.Queue) {
	for name, c := range map[string]struct {
		outcome  job.Outcome
		want     job.Row
		finished bool
	}{
		"done":    {job.Done(), job.Row{Status: job.Succeeded}, true},
		"fail":    {job.Fail("refused"), job.Row{Status: job.Failed, LastError: "refused"}, true},
		"review":  {job.Review("odd \x00 \xff"), job.Row{Status: job.OperatorReview, LastError: "odd � �"}, true},
		"snooze":  {job.Snooze(time.Hour), job.Row{Status: job.Queued, Uncounted: 1}, false},
		"retry":   {job.Retry("boom", time.Hour), job.Row{Status: job.Queued, LastError: "boom"}, false},
		"release": {job.Release("stop"), job.Row{Status: job.Queued, Uncounted: 1, LastError: "stop"}, false},
	} {
		row := enqueueAndClaim(t, q, name, ttl)
		if err := q.Mark(t.Context(), row.Fence(), "sending"); err != nil {
			t.Fatalf("%s: Mark: %v", name, err)
		}
		for wrong, f := range wrongFences(row.Fence()) {
			if err := q.Finish(t.Context(), f, c.outcome); !errors.Is(err, job.ErrLeaseLost) {
				t.Errorf("%s, %s: Finish: %v", name, wrong, err)
			}
		}
		finish(t, q, row.Fence(), c.outcome)
		got := find(t, q, cook, name)
		ended := job.Row{Status: got.Status, LastError: got.LastError, Uncounted: got.Uncounted}
		same(t, c.want, ended)
		if got.LeaseOwner != "" || got.LeaseUntil != nil || got.Step != "sending" || (got.FinishedAt != nil) != c.finished {
			t.Errorf("%s: row %+v", name, got)
		}
		wait, delay := got.RunAt.Sub(row.CreatedAt), c.outcome.Delay
		if delay > 0 && (wait < delay || wait > delay+time.Minute) {
			t.Errorf("%s: runs again after %s", name, wait)
		}
		if err := q.Finish(t.Context(), row.Fence(), job.Fail("again")); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("%s: Finish again: %v", name, err)
		}
		same(t, got, find(t, q, cook, name))
	}
}

func olderClaimFenced(t *testing.T, q job.Queue) {
	old := enqueueAndClaim(t, q, "k", ttl)
	finish(t, q, old.Fence(), job.Snooze(0))
	row := claimOne(t, q)
	if row.LeaseOwner != old.LeaseOwner || row.Attempt != old.Attempt+1 || row.Used() != old.Used() {
		t.Fatalf("claimed again %+v", row)
	}
	if beat(t, q, old.Fence(), ttl) {
		t.Error("the older claim beats")
	}
	if err := q.Mark(t.Context(), old.Fence(), "x"); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("Mark: %v", err)
	}
	if err := q.Finish(t.Context(), old.Fence(), job.Done()); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("Finish: %v", err)
	}
	same(t, row, find(t, q, cook, "k"), cmpopts.IgnoreFields(job.Row{}, "LeaseUntil"))
}

func same(t *testing.T, want, got job.Row, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
