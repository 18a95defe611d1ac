package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/store/memory"
)

func TestJobsPassTheKit(t *testing.T) {
	jobtest.RunQueue(t, func(*testing.T) job.Queue { return memory.New(nil).Jobs() })
}

func TestEsimsPassTheKit(t *testing.T) {
	esimtest.RunStore(t, func(t *testing.T) esimtest.StoreHarness {
		s := memory.New(nil)
		return esimtest.StoreHarness{Store: s.Esims(), Fence: jobtest.Held(t, s.Jobs()), Put: s.Orders().Put}
	})
}

func TestSupplierJournalKeepsToTheRules(t *testing.T) {
	esimtest.RunJournal(t, func(*testing.T) esim.Journal { return memory.New(nil).SupplierJournal("one") })
}

func TestOrdersPassTheKit(t *testing.T) {
	checkouttest.RunStore(t, func(*testing.T) checkouttest.Database {
		disk := memory.NewDisk(nil, nil)
		return checkouttest.Database{Open: func(_ *testing.T, now func() time.Time) checkouttest.Store {
			return checkouttest.InMemory(disk.Open("", now))
		}}
	})
}

// TestHookDecidesWhetherACallHappens and what is heard of it: a call that is refused stores nothing, and one whose
// answer is lost has stored all of it.
func TestHookDecidesWhetherACallHappens(t *testing.T) {
	refused, lost := errors.New("refused"), errors.New("lost")
	var fate error
	disk := memory.NewDisk(nil, func(_ context.Context, process, op string) (func(error) error, error) {
		if process != "dying" || op != "jobs.enqueue" {
			return func(err error) error { return err }, nil
		}
		if errors.Is(fate, refused) {
			return nil, fate
		}
		return func(error) error { return fate }, nil
	})
	dying, other := disk.Open("dying", nil).Jobs(), disk.Open("other", nil).Jobs()
	for i, want := range []error{refused, lost} {
		fate = want
		n := job.New{Args: jobtest.Args{Name: "work"}, UniqueKey: fmt.Sprint(i)}
		if _, err := dying.Enqueue(t.Context(), n); !errors.Is(err, want) {
			t.Errorf("answered %v, want %v", err, want)
		}
		if _, found, err := other.Find(t.Context(), "work", n.UniqueKey); err != nil || found != errors.Is(want, lost) {
			t.Errorf("%v: it is there: %t, %v", want, found, err)
		}
	}
}

// TestFailedTransactionLeavesNothing: what was inserted, changed and deleted before it failed.
func TestFailedTransactionLeavesNothing(t *testing.T) {
	s := checkouttest.InMemory(memory.New(nil))
	first := checkouttest.NewClaim("first")
	checkouttest.Claim(t, s, first)
	reused := checkouttest.NewClaim("second", checkouttest.PaidBy(first))
	if got := checkouttest.Claim(t, s, reused); got.Claim != checkout.Reused {
		t.Fatalf("claim %d", got.Claim)
	}
	if got := s.Memory.Orders().Timeline(reused.Order.ID); len(got) != 0 || len(s.Memory.Jobs().Rows()) != 1 {
		t.Errorf("a claim that was refused has left %v and %d jobs", got, len(s.Memory.Jobs().Rows()))
	}
}
