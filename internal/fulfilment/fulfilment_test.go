package fulfilment_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
)

const (
	ask  fulfilmenttest.Op = "ask"
	find fulfilmenttest.Op = "find"

	callTimeout     = 5 * time.Second
	visibilityDelay = time.Minute
	deadline        = time.Hour
)

// careful is a provider that shows a reference late, and deduplicates.
var careful = fulfilment.Traits{Deduplicates: true, VisibilityDelay: visibilityDelay}

// good is what the provider makes.
type good struct {
	ready   bool
	refusal *fulfilment.Refusal
}

var asked = fulfilment.Series{
	Namespace: uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), Name: "ask", Step: "asking",
}

// shop is a product that asks a provider in memory for one thing.
type shop struct {
	*testing.T
	*fulfilmenttest.Fake
	*fulfilmenttest.Deliveries
	goods fulfilmenttest.Records[good]
	order order.Order
	// notSent says which calls fail before they are sent, in order.
	notSent []bool
}

// story runs a test with a worker in a bubble of time of its own, one paid order being delivered.
func story(t *testing.T, traits fulfilment.Traits, prepare func(*shop), tell func(*shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shop{
			T: t, Fake: fulfilmenttest.NewFake(true, traits), Deliveries: fulfilmenttest.NewDeliveries(),
			goods: fulfilmenttest.Records[good]{},
			order: order.Order{ID: order.NewID(time.Now()), Delivery: 1, UpdatedAt: time.Now()},
		}
		s.Deliver = s.deliver
		prepare(s)
		s.Work(t, nil, func() {
			s.Begin(t, s.order)
			tell(s)
		})
	})
}

func (s *shop) ref() fulfilment.Ref { return asked.Ref(s.order.Name(), 1) }

func (s *shop) deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	a := fulfilment.Attempt{
		Provider: fulfilment.Provider{
			Name: "maker", Traits: s.Traits(), CallTimeout: callTimeout, Poll: time.Second, Deadline: deadline,
			Now: time.Now,
		},
		Since: o.UpdatedAt, Evidence: map[string]string{"reference": s.ref().String()},
		NoTrace: "no trace", TooLong: "too long",
	}
	got, err := fulfilment.Make(ctx, l, a.Provider, fulfilment.Call[good]{
		Step: asked.Marker(o.Delivery),
		Send: func(ctx context.Context) (good, error) {
			s.Lock()
			defer s.Unlock()
			if len(s.notSent) > 0 {
				fails := s.notSent[0]
				s.notSent = s.notSent[1:]
				if fails {
					return good{}, fmt.Errorf("too early: %w", fulfilment.ErrNotSent)
				}
			}
			return copied(s.goods.Take(ctx, s.Fake, fulfilmenttest.Entry[good]{
				Op: ask, Ref: s.ref(), Same: func(good) bool { return true },
				Refuse: func() *fulfilment.Refusal { return nil }, Make: s.make,
			}))
		},
		Read: func(ctx context.Context) (good, error) {
			s.Lock()
			defer s.Unlock()
			return copied(s.goods.Find(ctx, s.Fake, find, s.ref()))
		},
	})
	switch {
	case err != nil:
		return order.Progress{}, err
	case got.Kind == fulfilment.Refused:
		return a.Refused(got.Refusal), nil
	case got.Kind == fulfilment.Untraceable:
		return a.Untraceable(), nil
	case got.Kind == fulfilment.Known && got.Record.ready:
		return a.Delivered("ready"), nil
	case got.Kind == fulfilment.Known && got.Record.refusal != nil:
		return a.Refused(got.Record.refusal), nil
	}
	return a.Pending(), nil
}

func (s *shop) make(mode fulfilmenttest.Mode) *good {
	g := &good{}
	s.Complete(mode, "", func(rejected bool) {
		g.ready = !rejected
		if rejected {
			g.refusal = &fulfilment.Refusal{Code: "sold_out", Message: "none left"}
		}
	})
	return g
}

func copied(g *good, _ fulfilmenttest.Mode, err error) (good, error) {
	if err != nil {
		return good{}, err
	}
	return *g, nil
}

// want wants the delivery to have come to a state, after so many calls, of which so many took effect.
func (s *shop) want(state order.ProgressState, calls, executed int) {
	s.Helper()
	if at := s.Of(s.order.ID); at.State != state || s.Calls(ask) != calls || s.Executed(s.ref()) != executed {
		s.Errorf("%+v after %d calls, of which %d took effect; want state %d after %d and %d",
			at, s.Calls(ask), s.Executed(s.ref()), state, calls, executed)
	}
}

// wantCause wants the waiting job to say why it waits.
func (s *shop) wantCause(want string) {
	s.Helper()
	if rows := s.Store.Jobs().Rows(); len(rows) != 1 || !strings.HasPrefix(rows[0].LastError, want) {
		s.Errorf("%+v, want %q", rows, want)
	}
}

func failing(op fulfilmenttest.Op, modes ...fulfilmenttest.Mode) func(*shop) {
	return func(s *shop) {
		for _, mode := range modes {
			s.Fault(op, mode)
		}
	}
}

func TestCallWhoseAnswerIsLostIsReadBack(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutAfter} {
		t.Run(string(mode), func(t *testing.T) {
			story(t, careful, failing(ask, mode), func(s *shop) {
				fulfilmenttest.Pass(10 * time.Second)
				s.want(order.Delivered, 1, 1)
			})
		})
	}
}

func TestReferenceIsSentAgainOnlyAfterTheVisibilityDelay(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutBefore, fulfilmenttest.RateLimited,
	} {
		t.Run(string(mode), func(t *testing.T) {
			story(t, careful, failing(ask, mode), func(s *shop) {
				fulfilmenttest.Pass(callTimeout + visibilityDelay - time.Second)
				s.want(order.Waiting, 1, 0)
				s.wantCause("the maker has not said what became of it: ")
				fulfilmenttest.Pass(time.Minute)
				s.want(order.Delivered, 2, 1)
			})
		})
	}
}

func TestProviderThatDoesNotDeduplicateIsAskedOnce(t *testing.T) {
	careless := fulfilment.Traits{VisibilityDelay: visibilityDelay}
	story(t, careless, failing(ask, fulfilmenttest.TimeoutBefore), func(s *shop) {
		fulfilmenttest.Pass(deadline)
		s.want(order.Doubtful, 1, 0)
		if at := s.Of(s.order.ID); at.Reason != "no trace" || at.Evidence["reference"] != s.ref().String() {
			s.Errorf("delivery %+v", at)
		}
	})
}

// TestCallThatWasNotSentIsMadeAnew: the provider takes no reference twice, and none was taken.
func TestCallThatWasNotSentIsMadeAnew(t *testing.T) {
	careless := fulfilment.Traits{VisibilityDelay: visibilityDelay}
	unsent := func(s *shop) {
		s.notSent = []bool{true, true}
		s.Fault(ask, fulfilmenttest.TimeoutAfter)
	}
	story(t, careless, unsent, func(s *shop) {
		fulfilmenttest.Pass(10 * time.Second)
		s.want(order.Delivered, 1, 1)
	})
}

// TestCallThatWasSentBeforeIsNotMadeAnew: that a second send was none says nothing about the first.
func TestCallThatWasSentBeforeIsNotMadeAnew(t *testing.T) {
	spoil := func(s *shop) {
		s.notSent = []bool{false, true}
		s.Fault(ask, fulfilmenttest.TimeoutBefore)
	}
	story(t, careful, spoil, func(s *shop) {
		fulfilmenttest.Pass(callTimeout + visibilityDelay + 10*time.Second)
		if len(s.notSent) != 0 {
			t.Fatal("nothing was sent a second time")
		}
		s.want(order.Waiting, 1, 0)
		fulfilmenttest.Pass(visibilityDelay - 10*time.Second)
		s.want(order.Waiting, 1, 0)
		fulfilmenttest.Pass(time.Minute)
		s.want(order.Delivered, 2, 1)
	})
}

// TestCallFromBeforeTheBooksWereLostIsFound: nothing of it is on the job, and the provider would make another.
func TestCallFromBeforeTheBooksWereLostIsFound(t *testing.T) {
	before := func(s *shop) { s.goods[s.ref()] = &good{ready: true} }
	story(t, fulfilment.Traits{VisibilityDelay: visibilityDelay}, before, func(s *shop) {
		fulfilmenttest.Pass(time.Second)
		s.want(order.Delivered, 0, 0)
	})
}

func TestLookUpThatFailsSaysNothing(t *testing.T) {
	down := func(s *shop) {
		s.Fault(ask, fulfilmenttest.TimeoutAfter)
		for range 5 {
			s.Fault(find, fulfilmenttest.ErrorBefore)
		}
	}
	story(t, careful, down, func(s *shop) {
		fulfilmenttest.Pass(10 * time.Minute)
		s.want(order.Delivered, 1, 1)
	})
}

func TestRefusalIsReportedWithItsEvidence(t *testing.T) {
	for mode, want := range map[fulfilmenttest.Mode]fulfilment.Refusal{
		fulfilmenttest.Refused:  {Code: fulfilment.RefusedUnstated, Message: "the request is declined"},
		fulfilmenttest.Rejected: {Code: "sold_out", Message: "none left"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			story(t, careful, failing(ask, mode), func(s *shop) {
				fulfilmenttest.Pass(10 * time.Second)
				evidence := map[string]string{
					"reference": s.ref().String(), "refusal": want.Code, "maker_message": want.Message,
				}
				if at := s.Of(s.order.ID); at.State != order.Refused || at.Reason != want.Code ||
					!maps.Equal(at.Evidence, evidence) {
					s.Errorf("delivery %+v", at)
				}
			})
		})
	}
}

func TestPendingCallIsReadUpToTheDeadline(t *testing.T) {
	story(t, careful, failing(ask, fulfilmenttest.StaysPending), func(s *shop) {
		fulfilmenttest.Pass(deadline / 2)
		s.want(order.Waiting, 1, 1)
		s.wantCause("the maker has it and has not finished it")
		// A look each second for the first twenty, then each a twentieth of the time later than the one before.
		if n := s.Calls(find); n < 20 || n > 200 {
			s.Errorf("looked %d times in %s", n, deadline/2)
		}
		fulfilmenttest.Pass(deadline)
		s.want(order.Doubtful, 1, 1)
		if at := s.Of(s.order.ID); at.Reason != "too long" {
			s.Errorf("delivery %+v", at)
		}
	})
}

// TestNobodyGivesUpRightAfterAnInterruption: nobody has asked for all the time about what is pending for long. It is
// looked at anew, at once and then ever more seldom.
func TestNobodyGivesUpRightAfterAnInterruption(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		deadline, pending, working time.Duration // the last one is how long
		after                      time.Duration
		waits                      bool
	}{
		{time.Hour, 59 * time.Minute, 20 * time.Hour, 59 * time.Minute / 20, true},
		{time.Hour, 61 * time.Minute, 20 * time.Hour, 61 * time.Minute / 20, false},
		{time.Hour, 20 * time.Hour, time.Second, time.Second, true},
		{time.Hour, 20 * time.Hour, 10 * time.Minute, 5 * time.Minute, true},
		{time.Hour, 20 * time.Hour, 11 * time.Minute, 330 * time.Second, false},
		{24 * time.Hour, 20 * time.Hour, 3 * time.Second, 1500 * time.Millisecond, true},
		{time.Minute, 20 * time.Hour, 61 * time.Second, 30500 * time.Millisecond, false},
	} {
		p := fulfilment.Provider{
			Poll: time.Second, Deadline: c.deadline, Now: func() time.Time { return noon },
			Working: func() time.Time { return noon.Add(-c.working) },
		}
		if after, ok := p.Wait(noon.Add(-c.pending)); after != c.after || ok != c.waits {
			t.Errorf("%+v: waits %s, %t", c, after, ok)
		}
	}
}

func TestRefusalWithoutAReasonIsUnstated(t *testing.T) {
	var none *fulfilment.Refusal
	if no := none.Stated(); no.Code != fulfilment.RefusedUnstated {
		t.Errorf("none is stated as %+v", no)
	}
	at := fulfilment.Attempt{Provider: fulfilment.Provider{Name: "maker"}}.Refused(nil)
	if at.State != order.Refused || at.Reason != fulfilment.RefusedUnstated {
		t.Errorf("%+v", at)
	}
}
