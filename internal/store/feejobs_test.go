package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// feeJob queues a fee job and brings it to an outcome.
func feeJob(t *testing.T, s *store.Store, o job.Outcome) job.Row {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	args := card.FeeArgs{Card: id, Order: "ord_1", Account: "acc", Amount: card.Fee, Version: 1}
	if _, err := s.Jobs().Enqueue(t.Context(), job.New{Args: args, UniqueKey: id.String()}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Jobs().Claim(t.Context(), "me", job.Maintain, []job.Kind{card.FeeJob}, 1, time.Minute)
	if err != nil || len(rows) != 1 {
		t.Fatalf("claimed %d, %v", len(rows), err)
	}
	if err := s.Jobs().Mark(t.Context(), rows[0].Fence(), "withdraw/1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Jobs().Finish(t.Context(), rows[0].Fence(), o); err != nil {
		t.Fatal(err)
	}
	return find(t, s, rows[0].ID)
}

func find(t *testing.T, s *store.Store, id uuid.UUID) job.Row {
	t.Helper()
	row, err := s.FeeJobs().FeeJob(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func next(t *testing.T, row job.Row) card.FeeArgs {
	t.Helper()
	a, err := job.Decode[card.FeeArgs](row)
	if err != nil {
		t.Fatal(err)
	}
	a.Version++
	return a
}

func TestRetryQueuesTheNextVersionOncePerKey(t *testing.T) {
	s := storetest.New(t)
	row := feeJob(t, s, job.Fail("card_funds_insufficient"))
	var all sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		all.Go(func() {
			errs[i] = s.FeeJobs().Retry(t.Context(), row, next(t, row),
				card.OperatorContext{Operator: "ada", Key: "k", Reason: "topped up"})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("a repeat failed: %v", err)
	}
	got := find(t, s, row.ID)
	if a := next(t, got); got.Status != job.Queued || a.Version != 3 || got.Step != "" || got.Used() != 0 {
		t.Errorf("row %+v", got)
	}
	if err := s.FeeJobs().Retry(t.Context(), row, next(t, row),
		card.OperatorContext{Operator: "ada", Key: "k", Reason: "another"}); !errors.Is(err, order.KeyReused()) {
		t.Errorf("the key was taken for another reason: %v", err)
	}
	if err := s.FeeJobs().Retry(t.Context(), got, next(t, got),
		card.OperatorContext{Operator: "ada", Key: "k2", Reason: "again"}); !errors.Is(err, card.ErrNotFailed) {
		t.Errorf("a queued job was retried: %v", err)
	}
}

func TestOnlyConfirmedFailuresAreRetried(t *testing.T) {
	s := storetest.New(t)
	for name, o := range map[string]job.Outcome{"done": job.Done(), "review": job.Review("no trace"),
		"waiting": job.Snooze(time.Hour)} {
		row := feeJob(t, s, o)
		if err := s.FeeJobs().Retry(t.Context(), row, next(t, row),
			card.OperatorContext{Operator: "ada", Key: name, Reason: "r"}); !errors.Is(err, card.ErrNotFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// concluded is a job after the issuer's answer.
func concluded(t *testing.T, row job.Row, status job.Status, reason string) card.FeeConclusion {
	t.Helper()
	a, err := job.Decode[card.FeeArgs](row)
	if err != nil {
		t.Fatal(err)
	}
	return a.Conclusion(row.Status, status, reason)
}

func TestConclusionGivesWayToAWorker(t *testing.T) {
	s := storetest.New(t)
	row := feeJob(t, s, job.Snooze(time.Hour))
	stale := row
	stale.Version--
	ada := card.OperatorContext{Operator: "ada"}
	done, err := s.FeeJobs().Conclude(t.Context(), stale, concluded(t, stale, job.Succeeded, ""), ada)
	if done || err != nil {
		t.Errorf("a stale reading was written: %v, %v", done, err)
	}
	done, err = s.FeeJobs().Conclude(t.Context(), row, concluded(t, row, job.Failed, "rejected"), ada)
	if !done || err != nil {
		t.Errorf("not concluded: %v, %v", done, err)
	}
	if got := find(t, s, row.ID); got.Status != job.Failed || got.LastError != "rejected" || got.FinishedAt == nil {
		t.Errorf("row %+v", got)
	}
}

func TestFeeJobsAreListedByWhatOutsidersSee(t *testing.T) {
	s := storetest.New(t)
	sent := feeJob(t, s, job.Snooze(time.Hour))
	failed := feeJob(t, s, job.Fail("rejected"))
	for status, want := range map[job.Status][]uuid.UUID{
		"": {failed.ID, sent.ID}, job.Processing: {sent.ID}, job.Failed: {failed.ID}, job.Queued: nil,
	} {
		rows, err := s.FeeJobs().FeeJobs(t.Context(), job.Query{Status: status, Limit: 10},
			card.OperatorContext{Operator: "ada"})
		if err != nil || len(rows) != len(want) {
			t.Fatalf("%s: %d rows, %v", status, len(rows), err)
		}
		for i, row := range rows {
			if row.ID != want[i] {
				t.Errorf("%s: row %d is %s", status, i, row.ID)
			}
		}
	}
	rows, err := s.FeeJobs().FeeJobs(t.Context(), job.Query{Before: failed.ID, Limit: 10},
		card.OperatorContext{Operator: "ada"})
	if err != nil || len(rows) != 1 || rows[0].ID != sent.ID {
		t.Errorf("the second page: %v, %v", rows, err)
	}
}
