package esim_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
)

// delivered is a fulfilled order.
func (s *shop) delivered() order.Order {
	s.Helper()
	o := s.paid()
	s.pass(time.Minute)
	if o = s.now(o); o.Status != order.Fulfilled {
		s.Fatalf("the order is %s", o.Status)
	}
	return o
}

func TestOwnerReadsHowTheProfileStands(t *testing.T) {
	story(t, careful, func(s *shop) {
		early := s.paid()
		if _, err := s.Condition(s.Context(), early); fault.Of(err) != fault.OrderNotFulfilled {
			t.Errorf("before it is delivered: %v", err)
		}
		s.pass(time.Minute)
		o := s.now(early)
		c, err := s.Condition(s.Context(), o)
		if err != nil || c.Status != esim.ProfileNotInstalled || c.Usage != nil || !c.ReadAt.Equal(time.Now()) {
			t.Errorf("at first %+v, %v", c, err)
		}
		expires := time.Now().Add(time.Hour).UTC()
		s.supplier.Become(s.profile(o.ID).Account, esim.State{
			Status: esim.ProfileActive, Usage: &esim.Usage{Used: 7, Total: 9, MeasuredAt: time.Now()}, ExpiresAt: expires,
		})
		s.pass(esim.ConditionTTL)
		c, err = s.Condition(s.Context(), o)
		if err != nil || c.Status != esim.ProfileActive || c.Usage == nil || c.Usage.Used != 7 || c.Usage.Total != 9 ||
			!c.ExpiresAt.Equal(expires) {
			t.Errorf("in use %+v, %v", c, err)
		}
	})
}

func TestSupplierIsAskedOnceAMinuteAboutAProfile(t *testing.T) {
	story(t, careful, func(s *shop) {
		o, other := s.delivered(), s.delivered()
		flood := func() {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { _, _ = s.Condition(s.Context(), o) })
			}
			all.Wait()
		}
		flood()
		s.pass(esim.ConditionTTL - time.Second)
		flood()
		if n := s.supplier.Looks(); n != 1 {
			t.Errorf("the supplier was asked %d times within a minute", n)
		}
		if _, err := s.Condition(s.Context(), other); err != nil || s.supplier.Looks() != 2 {
			t.Errorf("of another order: %v, asked %d times", err, s.supplier.Looks())
		}
		s.pass(time.Second)
		flood()
		if n := s.supplier.Looks(); n != 3 {
			t.Errorf("the supplier was asked %d times after the minute", n)
		}
	})
}

func TestUnansweredLooksAreNotRepeatedAtOnce(t *testing.T) {
	story(t, careful, func(s *shop) {
		o := s.delivered()
		for range 2 {
			s.supplier.Fault(esimtest.Profile, fulfilmenttest.TimeoutBefore)
		}
		for range 5 {
			if _, err := s.Condition(s.Context(), o); fault.Of(err) != fault.DependencyDown {
				t.Errorf("without an answer: %v", err)
			}
		}
		if n := s.supplier.Looks(); n != 1 {
			t.Errorf("the supplier was asked %d times", n)
		}
		s.pass(10 * time.Second)
		_, _ = s.Condition(s.Context(), o)
		s.pass(10 * time.Second)
		if c, err := s.Condition(s.Context(), o); err != nil || c.Status != esim.ProfileNotInstalled {
			t.Errorf("after it answers again: %+v, %v", c, err)
		}
	})
}

func TestSupplierWithoutStatusIsNotAsked(t *testing.T) {
	for _, of := range []esim.Capabilities{{}, {Usage: true}, {Status: true}} {
		t.Run(fmt.Sprintf("%+v", of), func(t *testing.T) {
			story(t, careful, func(s *shop) {
				o := s.delivered()
				s.supplier.Use(esim.Purchase{ID: s.profile(o.ID).Account}, 5)
				s.Providers[0].Capabilities = of
				c, err := s.Condition(s.Context(), o)
				if !of.Status && (fault.Of(err) != fault.EsimControlMissing || s.supplier.Looks() != 0) {
					t.Errorf("%v, asked %d times", err, s.supplier.Looks())
				}
				if of.Status && (err != nil || c.Usage != nil) {
					t.Errorf("usage that is not declared: %+v, %v", c.Usage, err)
				}
			})
		})
	}
}

// named is a supplier whose events name profiles by what it calls their purchase.
type named struct{ *esimtest.Supplier }

// EventName implements esim.EventNamer.
func (n named) EventName(h esim.Held) string { return "event of " + h.ID }

// TestEventMakesAProfileBeReadAgain: that of which it is about, at its own supplier.
func TestEventMakesAProfileBeReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, careful, func(p *esim.Provider) {
			p.Name, p.Controls = "one", named{p.Supplier.(*esimtest.Supplier)}
		})
		s.made.Work(t, nil, func() {
			o, other := s.delivered(), s.delivered()
			looks := func(what string, want int) {
				t.Helper()
				for _, of := range []order.Order{o, other} {
					if _, err := s.Condition(s.Context(), of); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				if n := s.supplier.Looks(); n != want {
					t.Errorf("%s: the supplier was asked %d times, want %d", what, n, want)
				}
			}
			name := "event of " + s.profile(o.ID).Account
			s.Refresh("one", []string{name})
			looks("at first", 2)
			s.Refresh("two", []string{name})
			s.Refresh("one", []string{"event of nobody", s.profile(o.ID).Account})
			looks("after events about others", 2)
			s.Refresh("one", []string{name})
			looks("after an event", 3)
		})
	})
}
