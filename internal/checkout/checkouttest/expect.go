package checkouttest

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Until polls a condition.
func Until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(maxTimeout); time.Now().Before(deadline); time.Sleep(pause) {
		if ok() {
			return
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// Reaches waits until an order has a status.
func (s *Shop) Reaches(t *testing.T, id order.ID, want order.Status) {
	t.Helper()
	Until(t, string(id)+" "+string(want), func() bool {
		o, err := s.Store.Orders.Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return o.Status == want
	})
}

// FeeJob waits until a card's fee job is final.
func (s *Shop) FeeJob(t *testing.T, c card.Card) job.Row {
	t.Helper()
	return s.FinalJob(t, card.FeeJob, c.ID.String())
}

// FinalJob waits until a job is final.
func (s *Shop) FinalJob(t *testing.T, kind job.Kind, key string) job.Row {
	t.Helper()
	var row job.Row
	Until(t, string(kind)+" of "+key+" is final", func() bool {
		var found bool
		var err error
		if row, found, err = s.Store.Jobs.Find(t.Context(), kind, key); err != nil {
			t.Fatal(err)
		}
		return found && row.FinishedAt != nil
	})
	return row
}

// WantFault ends the test unless an error is the fault of a code.
func WantFault(t *testing.T, err error, code fault.Code) *fault.Fault {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return f
}

// Decide runs an operator's decision, under a key made of its reason.
func (s *Shop) Decide(t *testing.T, id order.ID, d admin.Decision, reason string) admin.ReviewItem {
	t.Helper()
	q, err := s.Admin.Decide(t.Context(), id, d, order.OperatorContext{Operator: "ada", Key: reason, Reason: reason})
	if err != nil {
		t.Fatalf("decide %s: %v", d, err)
	}
	return q
}

// Moves counts the moves of an order to a status.
func (s *Shop) Moves(t *testing.T, id order.ID, to order.Status) (n int) {
	t.Helper()
	for _, e := range s.timeline(t, id) {
		if e.To == to {
			n++
		}
	}
	return n
}

func (s *Shop) timeline(t *testing.T, id order.ID) []order.Event {
	t.Helper()
	if kept := s.Store.Memory; kept != nil {
		return kept.Orders().Timeline(id)
	}
	history, err := s.Admin.Inspect(t.Context(), id, order.OperatorContext{Operator: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return history.Timeline
}
