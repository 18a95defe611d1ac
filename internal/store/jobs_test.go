package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// effect is a change that a job makes: once, or the transaction fails.
func effect(tx *ent.Tx, key string) error {
	store.InsertAudit(tx, &ent.Audit{
		ID: uuid.Must(uuid.NewV7()), At: time.Now(), Actor: "test", Action: "bake", Subject: key, IdempotencyKey: key,
	})
	return nil
}

func effects(t *testing.T, s *store.Store) int {
	t.Helper()
	var n int
	if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM audit").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func leased(t *testing.T, s *store.Store, key string, ttl time.Duration) job.Fence {
	t.Helper()
	n := bakeJob(key)
	n.LeaseOwner, n.LeaseTTL = "me", ttl
	var row job.Row
	err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
		var added bool
		var err error
		if row, added, err = store.InsertJob(ctx, tx, n); err == nil && !added {
			err = errors.New("not added")
		}
		return err
	})
	if err != nil {
		t.Fatalf("insert job: %v", err)
	}
	return row.Fence()
}

func TestStoredStatusesAreThoseOfJobs(t *testing.T) {
	s := storetest.New(t)
	add := func(status string) error {
		_, err := s.Pool().Exec(t.Context(),
			`INSERT INTO jobs (id, kind, unique_key, payload, status, max_attempts, run_at, created_at, lease_owner, lease_until)
			SELECT $1, 'k', status, '{}', status, 1, now(), now(), CASE status WHEN 'processing' THEN 'me' END,
				CASE status WHEN 'processing' THEN now() END
			FROM (SELECT $2::text AS status) AS s`, uuid.New(), status)
		return err
	}
	for _, status := range job.Statuses() {
		if err := add(string(status)); err != nil {
			t.Errorf("status %s: %v", status, err)
		}
	}
	if add("nonsense") == nil {
		t.Error("the database took an unknown status")
	}
}

func TestDuplicateInATransactionIsFound(t *testing.T) {
	s := storetest.New(t)
	first := leased(t, s, "k", time.Minute)
	err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
		row, added, err := store.InsertJob(ctx, tx, bakeJob("k"))
		if err != nil {
			return err
		}
		if added || row.Fence() != first {
			t.Errorf("added %v, found %+v", added, row)
		}
		return insert("other")(ctx, tx) // the transaction is still good
	})
	if err != nil || !exists(t, s, "other") {
		t.Errorf("tx: %v", err)
	}
}

func TestConcurrentFinishesEndAClaimOnce(t *testing.T) {
	s := storetest.New(t)
	f := leased(t, s, "k", time.Minute)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
				if err := store.Fence(ctx, tx, f); err != nil {
					return err
				}
				if err := effect(tx, fmt.Sprint(i)); err != nil {
					return err
				}
				return store.FinishJob(ctx, tx, f, job.Done())
			})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, job.ErrLeaseLost):
				lost.Add(1)
			default:
				t.Errorf("tx: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 49 || effects(t, s) != 1 {
		t.Errorf("%d won, %d lost, %d effects", won.Load(), lost.Load(), effects(t, s))
	}
}

func TestFenceRefusesALeaseThatPassed(t *testing.T) {
	s := storetest.New(t)
	f := leased(t, s, "k", time.Millisecond)
	eventually(t, "the lease passes", func() bool {
		err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error { return store.Fence(ctx, tx, f) })
		return errors.Is(err, job.ErrLeaseLost)
	})
}

// A transaction that holds the fence is completed, though the lease passes meanwhile: the reaper
// cannot take the job before it is over.
func TestReaperWaitsForAFencedTransaction(t *testing.T) {
	s := storetest.New(t)
	f := leased(t, s, "k", 300*time.Millisecond)
	err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
		if err := store.Fence(ctx, tx, f); err != nil {
			return err
		}
		eventually(t, "the lease passes", func() bool {
			var passed bool
			err := s.Pool().QueryRow(ctx, "SELECT lease_until < now() FROM jobs WHERE id = $1", f.ID).Scan(&passed)
			return err == nil && passed
		})
		if n, err := s.Jobs().Reap(ctx, 10); n != 0 || err != nil {
			t.Errorf("Reap = %d, %v", n, err)
		}
		return store.FinishJob(ctx, tx, f, job.Done())
	})
	row, _, _ := s.Jobs().Find(t.Context(), bake, "k")
	if err != nil || row.Status != job.Succeeded {
		t.Errorf("%s: %v", row.Status, err)
	}
	if n, err := s.Jobs().Reap(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("Reap after = %d, %v", n, err)
	}
}

func TestPruneDeletesOldSuccessesOnly(t *testing.T) {
	s := storetest.New(t)
	for key, outcome := range map[string]job.Outcome{"done": job.Done(), "failed": job.Fail("no"),
		"review": job.Review("?")} {
		if err := s.Jobs().Finish(t.Context(), leased(t, s, key, time.Minute), outcome); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Jobs().Prune(t.Context(), []job.Kind{bake}, time.Now().Add(-time.Hour), 10); n != 0 || err != nil {
		t.Errorf("Prune young = %d, %v", n, err)
	}
	if n, err := s.Jobs().Prune(t.Context(), []job.Kind{bake}, time.Now().Add(time.Hour), 10); n != 1 || err != nil {
		t.Errorf("Prune = %d, %v", n, err)
	}
	if exists(t, s, "done") || !exists(t, s, "failed") || !exists(t, s, "review") {
		t.Error("the wrong jobs were pruned")
	}
}

// Two workers, whose connections are all cut off again and again, end every job with one effect.
func TestJobsAreDoneOnceThoughConnectionsDie(t *testing.T) {
	const jobs, cuts = 60, 4
	url := storetest.URL(t)
	observer := storetest.Open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 2 {
		s := storetest.Open(t, url)
		r := job.NewRunner(job.Config{Queue: s.Jobs(), Slots: 4, TTL: time.Second, Poll: 50 * time.Millisecond})
		r.Register(bake, func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
			return job.Recorded(), s.Tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
				if err := store.Fence(ctx, tx, l.Fence()); err != nil {
					return err
				}
				if err := effect(tx, l.Row().UniqueKey); err != nil {
					return err
				}
				return store.FinishJob(ctx, tx, l.Fence(), job.Done())
			})
		})
		workers.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	for i := range jobs {
		if i%(jobs/cuts) == 0 {
			cutConnections(t, observer)
		}
		// The observer's connections were cut, too, but for one. A job is queued again by its key, which adds nothing.
		eventually(t, "the job is queued", func() bool {
			_, err := observer.Jobs().Enqueue(t.Context(), bakeJob(fmt.Sprint(i)))
			return err == nil
		})
	}
	cutConnections(t, observer)
	eventually(t, "all jobs succeed", func() bool {
		depth, err := observer.Jobs().Depth(t.Context())
		return err == nil && len(depth) == 0
	})
	cancel()
	workers.Wait()
	if n := effects(t, observer); n != jobs {
		t.Errorf("%d effects of %d jobs", n, jobs)
	}
}

func cutConnections(t *testing.T, observer *store.Store) {
	t.Helper()
	_, err := observer.Pool().Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	if err != nil {
		t.Fatalf("cut connections: %v", err)
	}
}
