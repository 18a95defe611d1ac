package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

const (
	parking  job.Kind = "parking"
	deciding job.Kind = "deciding"
)

// stopped queues a job, lets a worker take it, and ends the attempt.
func stopped(t *testing.T, s *store.Store, kind job.Kind, key string, outcome job.Outcome) job.Row {
	t.Helper()
	if _, err := s.Jobs().Enqueue(t.Context(), job.New{Args: jobtest.Args{Name: kind}, UniqueKey: key}); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Jobs().Claim(t.Context(), "worker", job.Maintain, []job.Kind{kind}, 1, time.Minute)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	if err := s.Jobs().Mark(t.Context(), claimed[0].Fence(), "called"); err != nil {
		t.Fatal(err)
	}
	if err := s.Jobs().Finish(t.Context(), claimed[0].Fence(), outcome); err != nil {
		t.Fatal(err)
	}
	row, _, err := s.Jobs().Find(t.Context(), kind, key)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func jobsOf(s *store.Store) admin.Jobs {
	return admin.Jobs{
		Records: s.OperatorJobs(), Kinds: []job.Kind{parking, deciding},
		Resumed: map[job.Kind]string{deciding: "admin decisions"},
	}
}

func TestStoppedJobsAreListedUnlessAnotherStatusIsNamed(t *testing.T) {
	s := storetest.New(t)
	parked := stopped(t, s, parking, "parked", job.Review("look"))
	failed := stopped(t, s, parking, "failed", job.Fail("refused"))
	decision := stopped(t, s, deciding, "decision", job.Review("decide"))
	done := stopped(t, s, parking, "done", job.Done())
	for name, tc := range map[string]struct {
		query admin.JobQuery
		want  []uuid.UUID
	}{
		"stopped":             {admin.JobQuery{}, []uuid.UUID{decision.ID, failed.ID, parked.ID}},
		"of a kind":           {admin.JobQuery{Kind: parking}, []uuid.UUID{failed.ID, parked.ID}},
		"in a status":         {admin.JobQuery{Status: job.Failed}, []uuid.UUID{failed.ID}},
		"done":                {admin.JobQuery{Status: job.Succeeded}, []uuid.UUID{done.ID}},
		"of a kind and state": {admin.JobQuery{Kind: deciding, Status: job.Failed}, nil},
	} {
		for _, limit := range []int{1, 10} {
			q, got := tc.query, []uuid.UUID(nil)
			for q.Limit = limit; ; {
				page, next, err := jobsOf(s).List(t.Context(), q, order.OperatorContext{Operator: "ann"})
				if err != nil || len(page) > limit {
					t.Fatalf("%s: %+v, %v", name, page, err)
				}
				for _, j := range page {
					got = append(got, j.ID)
				}
				if q.Before = next; next == uuid.Nil {
					break
				}
			}
			if len(got) != len(tc.want) {
				t.Fatalf("%s: %v, want %v", name, got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("%s: %v, want %v", name, got, tc.want)
				}
			}
		}
	}
}

// TestKindThatNoJobHasIsRefused: an empty list would say that all is well. Jobs of a former kind are listed.
func TestKindThatNoJobHasIsRefused(t *testing.T) {
	s := storetest.New(t)
	stopped(t, s, "former", "k", job.Review("look"))
	ann := order.OperatorContext{Operator: "ann"}
	for kind, want := range map[job.Kind]fault.Code{"parkng": fault.SchemaInvalid, parking: "", "former": "", "": ""} {
		_, _, err := jobsOf(s).List(t.Context(), admin.JobQuery{Kind: kind, Limit: 1}, ann)
		if fault.Of(err) != want || want != "" && !strings.Contains(err.Error(), "one of deciding, parking.") {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// TestStoppedJobIsPutBackOnce with all of its attempts and the step that it had begun, by one of several operators.
func TestStoppedJobIsPutBackOnce(t *testing.T) {
	s := storetest.New(t)
	row := stopped(t, s, parking, "k", job.Review("look"))
	errs := make([]error, 6)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			act := order.OperatorContext{Operator: "ann", Key: "one", Reason: "fixed", Version: int(row.Version)}
			if i%2 == 1 {
				act.Key = "two"
			}
			_, errs[i] = jobsOf(s).Retry(t.Context(), row.ID, act)
		})
	}
	all.Wait()
	for i, err := range errs {
		// The repeats of the key that won are answered, and the other key finds another version.
		if (err == nil) != (errs[i%2] == nil) || err != nil && fault.Of(err) != fault.VersionChanged {
			t.Errorf("%d: %v", i, err)
		}
	}
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("both keys, or none: %v", errs[:2])
	}
	now, _, err := s.Jobs().Find(t.Context(), parking, "k")
	if err != nil || now.Status != job.Queued || now.Used() != 0 || now.Step != "called" || now.LastError != "" ||
		now.Attempt != row.Attempt || now.Version != row.Version+1 {
		t.Errorf("%+v, %v", now, err)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE action = 'job.retry'"); n != 1 {
		t.Errorf("%d retries are recorded", n)
	}
	claimed, err := s.Jobs().Claim(t.Context(), "worker", job.Maintain, []job.Kind{parking}, 1, time.Minute)
	if err != nil || len(claimed) != 1 || claimed[0].Attempt != row.Attempt+1 {
		t.Errorf("%+v, %v", claimed, err)
	}
}

// TestStoppedJobIsDroppedOnceAndKeptInTheAudit: its key is free again, and its arguments are not lost.
func TestStoppedJobIsDroppedOnceAndKeptInTheAudit(t *testing.T) {
	s := storetest.New(t)
	row := stopped(t, s, parking, "k", job.Review("look"))
	act := order.OperatorContext{Operator: "ann", Key: "1", Reason: "nobody needs it"}
	for range 2 {
		if err := jobsOf(s).Drop(t.Context(), row.ID, act); err != nil {
			t.Fatal(err)
		}
	}
	if _, found, err := s.Jobs().Find(t.Context(), parking, "k"); err != nil || found {
		t.Errorf("it is still there: %t, %v", found, err)
	}
	act.Key = "2"
	if err := jobsOf(s).Drop(t.Context(), row.ID, act); fault.Of(err) != fault.JobNotFound {
		t.Errorf("another key: %v", err)
	}
	records, err := s.Admin().Audit(t.Context(), admin.AuditQuery{Subject: row.ID.String(), Limit: 10},
		order.OperatorContext{Operator: "ann"})
	if err != nil || len(records) != 1 || records[0].Action != "job.drop" {
		t.Fatalf("%+v, %v", records, err)
	}
	var before struct{ Kind, Key, Status, Reason, Args string }
	if err := json.Unmarshal(records[0].Before, &before); err != nil {
		t.Fatal(err)
	}
	if before.Kind != string(parking) || before.Key != "k" || before.Reason != "look" || before.Args == "" {
		t.Errorf("%+v", before)
	}
}

func TestJobIsPutBackOrDroppedOnlyWhenItMayBe(t *testing.T) {
	s := storetest.New(t)
	decision := stopped(t, s, deciding, "decision", job.Review("decide"))
	done := stopped(t, s, parking, "done", job.Done())
	parked := stopped(t, s, parking, "parked", job.Review("look"))
	for name, tc := range map[string]struct {
		id      uuid.UUID
		version int
		want    fault.Code
	}{
		"one with a decision": {decision.ID, 0, fault.JobNotStopped},
		"one that is done":    {done.ID, 0, fault.JobNotStopped},
		"another version":     {parked.ID, int(parked.Version) + 1, fault.VersionChanged},
		"none":                {uuid.New(), 0, fault.JobNotFound},
	} {
		act := order.OperatorContext{Operator: "ann", Key: name, Reason: "why not", Version: tc.version}
		if _, err := jobsOf(s).Retry(t.Context(), tc.id, act); fault.Of(err) != tc.want {
			t.Errorf("retry %s: %v", name, err)
		}
		if err := jobsOf(s).Drop(t.Context(), tc.id, act); fault.Of(err) != tc.want {
			t.Errorf("drop %s: %v", name, err)
		}
		view, err := jobsOf(s).Show(t.Context(), tc.id, order.OperatorContext{Operator: "ann"})
		switch {
		case tc.want == fault.JobNotFound && fault.Of(err) == fault.JobNotFound:
		case err != nil || len(view.Actions) != 2:
			t.Errorf("show %s: %+v, %v", name, view, err)
		default:
			for _, a := range view.Actions {
				if a.Allowed != (tc.want == fault.VersionChanged) || a.Allowed != (a.Reason == "") {
					t.Errorf("%s: %+v", name, a)
				}
			}
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE action IN ('job.retry', 'job.drop')"); n != 0 {
		t.Errorf("%d actions are recorded", n)
	}
	act := order.OperatorContext{Operator: "ann", Key: "k", Reason: "one"}
	if _, err := jobsOf(s).Retry(t.Context(), parked.ID, act); err != nil {
		t.Fatal(err)
	}
	act.Reason = "another"
	if _, err := jobsOf(s).Retry(t.Context(), parked.ID, act); fault.Of(err) != fault.IdempotencyKeyReused {
		t.Errorf("another reason: %v", err)
	}
	if _, err := s.OperatorJobs().Job(t.Context(), uuid.New(), act); !errors.Is(err, admin.ErrJobNotFound) {
		t.Errorf("no job: %v", err)
	}
}
