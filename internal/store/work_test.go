package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// wantPruned prunes the jobs that fulfilled orders and ended before a time.
func wantPruned(t *testing.T, s *store.Store, before time.Time, want int) {
	t.Helper()
	n, err := s.Jobs().PruneOfFinal(t.Context(), settlement.Fulfilling, before, 10)
	if n != want || err != nil {
		t.Errorf("pruned %d, %v, want %d", n, err, want)
	}
}

// TestOnlyDoneJobsOfFinalOrdersArePruned: one whose order is with an operator stays, and so does one that is not done.
func TestOnlyDoneJobsOfFinalOrdersArePruned(t *testing.T) {
	s := storetest.New(t)
	ended := func(key string, outcome job.Outcome, along ...order.Status) {
		t.Helper()
		_, fence := paidOrder(t, s, key, along...)
		if err := s.Jobs().Finish(t.Context(), fence, outcome); err != nil {
			t.Fatal(err)
		}
	}
	ended("final", job.Done(), order.Provisioning, order.Fulfilled)
	ended("review", job.Done(), order.Provisioning, order.OperatorReview)
	ended("parked", job.Review("?"), order.Provisioning, order.Fulfilled)
	paidOrder(t, s, "working", order.Provisioning, order.Fulfilled)

	wantPruned(t, s, time.Now().Add(-time.Hour), 0)
	wantPruned(t, s, time.Now().Add(time.Hour), 1)
	wantPruned(t, s, time.Now().Add(time.Hour), 0)
	if n := rows(t, s, "SELECT count(*) FROM jobs WHERE kind = 'order_fulfill'"); n != 3 {
		t.Errorf("%d jobs are left, want 3", n)
	}
}

// TestDecisionOfAnOrderWithoutItsJob: after its job was pruned, a decision is what it was before: a repeat of it is no
// second one, and another one comes too late. An order that is not final always has its job.
func TestDecisionOfAnOrderWithoutItsJob(t *testing.T) {
	s := storetest.New(t)
	decidedOne, fence := paidOrder(t, s, "k", order.Provisioning, order.OperatorReview)
	decide := func() error { return s.Admin().Decide(t.Context(), decided(decidedOne, order.Fulfilled, ann), ann) }
	if err := decide(); err != nil {
		t.Fatal(err)
	}
	if err := s.Jobs().Finish(t.Context(), fence, job.Done()); err != nil {
		t.Fatal(err)
	}
	wantPruned(t, s, time.Now().Add(time.Hour), 1)
	if err := decide(); err != nil {
		t.Errorf("a repeat: %v", err)
	}
	late := order.OperatorContext{Operator: "ann", Key: "late", Reason: "because"}
	err := s.Admin().Decide(t.Context(), decided(decidedOne, order.Fulfilled, late), late)
	if !errors.Is(err, admin.ErrNotInReview) {
		t.Errorf("another decision: %v", err)
	}

	open, _ := paidOrder(t, s, "open", order.Provisioning, order.OperatorReview)
	rows(t, s, "WITH gone AS (DELETE FROM jobs RETURNING id) SELECT count(*) FROM gone")
	err = s.Admin().Decide(t.Context(), decided(open, order.Provisioning, ann), ann)
	if err == nil || errors.Is(err, admin.ErrNotInReview) {
		t.Errorf("decided without a job to work on it: %v", err)
	}
}

// TestReleasedReservationsArePruned: one that is held, or is to be taken again when its order is paid, stays.
func TestReleasedReservationsArePruned(t *testing.T) {
	s := storetest.New(t)
	paidOrder(t, s, "released", order.Provisioning, order.Fulfilled)
	paidOrder(t, s, "held", order.Provisioning)
	suspended, _ := paidOrder(t, s, "suspended")
	if _, err := s.Pool().Exec(t.Context(), `UPDATE reservations SET released_at = now(), suspended_at = now()
		WHERE order_id = $1`, suspended.Order.ID); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[time.Duration]int{-time.Hour: 0, time.Hour: 1} {
		if n, err := s.PruneReservations(t.Context(), time.Now().Add(before), 10); n != want || err != nil {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM reservations"); n != 2 {
		t.Errorf("%d reservations are left, want 2", n)
	}
}
