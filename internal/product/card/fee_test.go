package card_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
)

func TestFeeIsTakenOnceWhateverTheAnswer(t *testing.T) {
	modes := append(append([]fulfilmenttest.Mode{fulfilmenttest.UnknownState}, lostAfter...), lostBefore...)
	for _, mode := range modes {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			story(t, careful, func(s *shelf) {
				s.issuer.Fault(cardtest.Move, mode)
				id := s.paid()
				s.pass(10 * time.Minute)
				args, err := job.Decode[card.FeeArgs](s.fee(id))
				if err != nil {
					t.Fatal(err)
				}
				if n := s.issuer.Executed(args.Ref()); s.fee(id).Status != job.Succeeded || n != 1 {
					t.Errorf("fee job %s, taken %d times", s.fee(id).Status, n)
				}
				s.wantBalance(id, card.Remaining)
			})
		})
	}
}

func TestFeeWithoutATraceGoesToAPerson(t *testing.T) {
	story(t, fulfilment.Traits{VisibilityDelay: visibilityDelay}, func(s *shelf) {
		s.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutBefore)
		id := s.paid()
		s.pass(deadline)
		if fee := s.fee(id); fee.Status != job.OperatorReview || s.issuer.Calls(cardtest.Move) != 1 {
			t.Errorf("fee job %s after %d withdrawals", fee.Status, s.issuer.Calls(cardtest.Move))
		}
		s.wantBalance(id, card.Price)
		// The person asks the issuer, which may not show it at once, and has failed it when it shows nothing after that.
		r := &retries{row: s.fee(id)}
		admin := card.FeeAdmin{Jobs: r, Issuers: s.Cards, CallTimeout: callTimeout, Now: time.Now}
		sent, now := r.row.StepAt, time.Now()
		for want, at := range map[job.Status]*time.Time{job.OperatorReview: &now, job.Failed: sent} {
			r.row.StepAt = at
			if _, err := admin.Reconcile(s.Context(), r.row.ID, card.OperatorContext{}); err != nil ||
				r.concluded.Status != want {
				t.Errorf("sent at %s: concluded %+v, %v", at, r.concluded, err)
			}
		}
		r.row.Status, r.row.StepAt = job.Processing, sent
		if _, err := admin.Reconcile(s.Context(), r.row.ID, card.OperatorContext{}); err != nil ||
			r.concluded.Status != job.Processing {
			t.Errorf("while a worker has it: concluded %+v, %v", r.concluded, err)
		}
	})
}

func TestFeeFailsByTheIssuersWordOnly(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.Refused, fulfilmenttest.Rejected} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			story(t, careful, func(s *shelf) {
				s.issuer.Fault(cardtest.Move, mode)
				id := s.paid()
				s.pass(time.Minute)
				if fee := s.fee(id); fee.Status != job.Failed || fee.LastError != fulfilment.RefusedUnstated {
					t.Errorf("fee job %s: %s", fee.Status, fee.LastError)
				}
				s.wantBalance(id, card.Price)
			})
		})
	}
	story(t, careful, func(s *shelf) {
		s.issuer.Fault(cardtest.Move, fulfilmenttest.StaysPending)
		id := s.paid()
		s.pass(deadline + 10*time.Minute)
		if fee := s.fee(id); fee.Status != job.OperatorReview {
			t.Errorf("left pending: fee job %s", fee.Status)
		}
	})
}

func TestEachVersionOfAFeeHasItsOwnReference(t *testing.T) {
	one := card.FeeArgs{Card: uuid.New(), Version: 1}
	again, next, other := one, one, one
	next.Version, other.Card = 2, uuid.New()
	if one.Ref() != again.Ref() || one.Ref() == next.Ref() || one.Ref() == other.Ref() {
		t.Errorf("references %s, %s, %s, %s", one.Ref(), again.Ref(), next.Ref(), other.Ref())
	}
}

// limited is a shelf over an issuer with spending limits.
func limited(s *shelf) { s.limits.Store(true) }

func TestFeeIsNeverOnACardWithALimit(t *testing.T) {
	story(t, careful, func(s *shelf) {
		limited(s)
		id := s.paid()
		s.pass(time.Minute)
		if fee := s.fee(id); fee.Status != job.Succeeded || s.issuer.Calls(cardtest.Move) != 0 {
			t.Errorf("fee job %s after %d withdrawals", fee.Status, s.issuer.Calls(cardtest.Move))
		}
		s.wantBalance(id, card.Remaining)
		s.issuer.Spend(s.card(id).Ref, card.Remaining)
		s.pass(card.BalanceTTL)
		s.wantBalance(id, 0)
		if owed, err := s.store.Owes(s.Context(), owner); err != nil || owed != 0 {
			t.Errorf("owed %s, %v", owed, err)
		}
	})
}

// TestCardOpensAsItBegan: the capability may change while the issuer is asked.
func TestCardOpensAsItBegan(t *testing.T) {
	story(t, careful, func(s *shelf) {
		s.issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
		id := s.paid()
		s.pass(time.Second)
		limited(s)
		s.pass(10 * time.Minute)
		if c := s.card(id); c.Status != card.Active || c.Load != card.Price {
			t.Errorf("card %+v", c)
		}
		s.wantBalance(id, card.Remaining)
	})
}

type feeJobs interface{ card.FeeJobs }

// retries is where an operator's retry goes.
type retries struct {
	feeJobs
	row       job.Row
	next      card.FeeArgs
	concluded card.FeeConclusion
}

func (r *retries) FeeJob(context.Context, uuid.UUID) (job.Row, error) { return r.row, nil }

func (r *retries) Conclude(_ context.Context, _ job.Row, c card.FeeConclusion, _ card.OperatorContext) (bool, error) {
	r.concluded = c
	return true, nil
}

func (r *retries) Retry(_ context.Context, _ job.Row, next card.FeeArgs, _ card.OperatorContext) error {
	r.next = next
	return nil
}

// TestRetriedFeeHasTheIssuersWholeTime: a fee may be owed for weeks, until an operator asks for it again.
func TestRetriedFeeHasTheIssuersWholeTime(t *testing.T) {
	story(t, careful, func(s *shelf) {
		s.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutBefore)
		id := s.paid()
		s.pass(time.Second)
		s.issuer.Spend(s.card(id).Ref, card.Price)
		s.pass(10 * time.Minute)
		s.issuer.Hold(s.T, s.card(id).Account, -card.Fee)(true)
		r := &retries{row: s.fee(id)}
		admin := card.FeeAdmin{Jobs: r, Now: time.Now}
		if _, err := admin.Retry(s.Context(), r.row.ID, card.OperatorContext{}); err != nil {
			t.Fatal(err)
		}
		if !r.next.Since.Equal(time.Now()) || r.next.Version != 2 {
			t.Errorf("retried as %+v", r.next)
		}
		// As if it had been asked for two deadlines later.
		r.next.Since = r.next.Since.Add(2 * deadline)
		again := job.New{Args: r.next, UniqueKey: "again", RunAt: r.next.Since}
		if _, err := s.queue.Enqueue(s.Context(), again); err != nil {
			t.Fatal(err)
		}
		s.pass(deadline)
		s.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutAfter)
		s.pass(deadline + 10*time.Minute)
		if row, _, err := s.queue.Find(s.Context(), card.FeeJob, "again"); err != nil || row.Status != job.Succeeded {
			t.Errorf("asked again long after the fee fell due, it is %s: %s, %v", row.Status, row.LastError, err)
		}
	})
}

func TestFeeThatWasSpentIsOwed(t *testing.T) {
	story(t, careful, func(s *shelf) {
		s.issuer.Fault(cardtest.Move, fulfilmenttest.TimeoutBefore) // the holder is quicker than the withdrawal
		id := s.paid()
		s.pass(time.Second)
		s.issuer.Spend(s.card(id).Ref, card.Price)
		s.pass(10 * time.Minute)
		if fee := s.fee(id); fee.Status != job.Failed || fee.LastError != card.RefusedFunds {
			t.Errorf("fee job %s: %s", fee.Status, fee.LastError)
		}
		if owed, err := s.store.Owes(s.Context(), owner); err != nil || owed != card.Fee {
			t.Errorf("owed %s, %v", owed, err)
		}
		_, err := (topup.Topups{Cards: s.Cards}).Reserve(s.Context(), owner, credit)
		wantFault(t, err, fault.FeeOutstanding)
		wantFault(t, topup.Topups{Cards: s.Cards}.Invite(s.Context(), unpaid(owner)), fault.FeeOutstanding)
	})
}
