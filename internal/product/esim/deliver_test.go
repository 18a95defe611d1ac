package esim_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
)

// The answers that leave open what happened: after the effect, or without any.
var (
	lostAfter  = []fulfilmenttest.Mode{fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutAfter}
	lostBefore = []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutBefore, fulfilmenttest.RateLimited,
	}
)

func TestPaidOrderBecomesAnESIM(t *testing.T) {
	story(t, careful, func(s *shop) {
		o := s.paid()
		s.pass(time.Second)
		p := s.profile(o.ID)
		if s.ended(o.ID).State != order.Delivered || p.Status != esim.Ready || p.Account == "" ||
			p.ActivationData.Key != "k1" {
			t.Errorf("delivery %+v of %+v", s.ended(o.ID), p)
		}
		got, err := s.Credentials(s.Context(), s.now(o))
		if err != nil || got.LPA.Reveal() != "LPA:1$smdp.example.com$MATCH-000001" {
			t.Errorf("credentials of %q, %v", got.LPA.Reveal(), err)
		}
	})
}

// TestLostPlanGoesToAPerson: who claimed the order had read the plan before the database was put back.
func TestLostPlanGoesToAPerson(t *testing.T) {
	story(t, careful, func(s *shop) {
		o := s.undelivered()
		item, err := esim.ItemOf(o)
		if err != nil {
			t.Fatal(err)
		}
		item.Plan += "-lost"
		if o.Item, err = json.Marshal(item); err != nil {
			t.Fatal(err)
		}
		got, err := s.Deliver(s.Context(), &job.Lease{}, o)
		if err != nil || got.State != order.Doubtful {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestPlanOfAnotherOrderIsNotBelieved: an order of the same key, which was lost, has asked for a dearer plan.
func TestPlanOfAnotherOrderIsNotBelieved(t *testing.T) {
	story(t, careful, func(s *shop) {
		o := s.undelivered()
		item, err := esim.ItemOf(o)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := s.store.Plan(s.Context(), item.Plan)
		if err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"fr-1": "jp-1", "jp-1": "fr-1"}[plan.Code]
		before := esim.Request{Ref: esim.OrderRef(o.Name(), o.Delivery), Code: other, MaxCost: 1_000_000_000}
		if _, err := s.supplier.Order(s.Context(), before); err != nil {
			t.Fatal(err)
		}
		s.made.Begin(t, o)
		s.pass(10 * time.Second)
		if at := s.ended(o.ID); at.State != order.Doubtful || s.profile(o.ID).Status == esim.Ready {
			t.Errorf("delivery %+v of %+v", at, s.profile(o.ID))
		}
	})
}

func TestOrderWhoseAnswerIsLostIsReadBack(t *testing.T) {
	for i, mode := range lostAfter {
		t.Run(names(lostAfter)[i], func(t *testing.T) {
			story(t, careful, func(s *shop) {
				s.supplier.Fault(esimtest.Order, mode)
				o := s.paid()
				s.pass(10 * time.Second)
				if s.ended(o.ID).State != order.Delivered || s.supplier.Calls(esimtest.Order) != 1 {
					t.Errorf("delivery %+v after %d orders", s.ended(o.ID), s.supplier.Calls(esimtest.Order))
				}
				if n := s.supplier.Executed(s.profile(o.ID).Ref); n != 1 {
					t.Errorf("the stored reference bought %d eSIMs", n)
				}
			})
		})
	}
}

func TestReferenceIsSentAgainOnceItCannotAppearAnyMore(t *testing.T) {
	for i, mode := range lostBefore {
		t.Run(names(lostBefore)[i], func(t *testing.T) {
			story(t, careful, func(s *shop) {
				s.supplier.Fault(esimtest.Order, mode)
				o := s.paid()
				s.pass(callTimeout + visibilityDelay - time.Second)
				if n := s.supplier.Calls(esimtest.Order); n != 1 {
					t.Errorf("%d orders within the visibility delay", n)
				}
				s.pass(time.Minute)
				if s.ended(o.ID).State != order.Delivered || s.supplier.Calls(esimtest.Order) != 2 ||
					s.supplier.Executed(s.profile(o.ID).Ref) != 1 {
					t.Errorf("delivery %+v after %d orders", s.ended(o.ID), s.supplier.Calls(esimtest.Order))
				}
			})
		})
	}
}

func TestSupplierThatDoesNotDeduplicateIsAskedOnce(t *testing.T) {
	story(t, fulfilment.Traits{VisibilityDelay: visibilityDelay}, func(s *shop) {
		s.supplier.Fault(esimtest.Order, fulfilmenttest.TimeoutBefore)
		o := s.paid()
		s.pass(time.Hour)
		if s.ended(o.ID).State != order.Doubtful || s.supplier.Calls(esimtest.Order) != 1 || s.ended(o.ID).
			Evidence["reference"] != s.profile(o.ID).Ref.String() {
			t.Errorf("delivery %+v after %d orders", s.ended(o.ID), s.supplier.Calls(esimtest.Order))
		}
	})
}

func TestDefiniteNoIsRefused(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.Refused, fulfilmenttest.Rejected} {
		t.Run(string(mode), func(t *testing.T) {
			story(t, careful, func(s *shop) {
				s.supplier.Fault(esimtest.Order, mode)
				o := s.paid()
				s.pass(10 * time.Second)
				if s.ended(o.ID).State != order.Refused || s.profile(o.ID).Status != esim.Failed || s.ended(o.ID).
					Evidence["refusal"] == "" {
					t.Errorf("delivery %+v of %+v", s.ended(o.ID), s.profile(o.ID))
				}
			})
		})
	}
}

func TestStockThatRunsOutBehindThePaymentIsRefused(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.supplier.SellOut("fr-1")
		o := s.paid()
		s.pass(10 * time.Second)
		if s.ended(o.ID).State != order.Refused || s.ended(o.ID).Reason != esim.RefusedStock {
			t.Errorf("delivery %+v", s.ended(o.ID))
		}
	})
}

func TestSilentSupplierEndsWithAPerson(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
		o := s.paid()
		s.pass(deadline / 2)
		if early := s.ended(o.ID); early.State != order.Waiting {
			t.Errorf("given up early: %+v", early)
		}
		s.pass(deadline)
		if s.ended(o.ID).State != order.Doubtful {
			t.Errorf("left pending: %+v", s.ended(o.ID))
		}
	})
}

func TestRequestWaitsForItsESIMAtMostAsLongAsItMay(t *testing.T) {
	story(t, careful, func(s *shop) {
		quick, began := s.paid(), time.Now()
		if got := s.Await(s.Context(), quick, began.Add(esim.InlineWait)); got.Status != order.Fulfilled ||
			time.Since(began) > time.Second {
			t.Errorf("%s after %s", got.Status, time.Since(began))
		}
		s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
		slow, began := s.paid(), time.Now()
		if got := s.Await(s.Context(), slow, began.Add(esim.InlineWait)); got.Status != order.Provisioning ||
			time.Since(began) != esim.InlineWait {
			t.Errorf("%s after %s", got.Status, time.Since(began))
		}
	})
}

// TestAboveTheirBoundRequestsDoNotWait, for all orders together and for each.
func TestAboveTheirBoundRequestsDoNotWait(t *testing.T) {
	for name, bounded := range map[string]func(*esim.Config){
		"for all": func(c *esim.Config) { c.Waiters = 3 },
		"for one order": func(c *esim.Config) {
			c.Limits = limit.New(limit.Rates{limit.Waiting: {Count: 3}}, time.Now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, careful, func(s *shop) {
				bounded(&s.Config)
				s.Esims = esim.New(s.Config)
				s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
				o := s.paid()
				until := time.Now().Add(esim.InlineWait)
				var waiting sync.WaitGroup
				for range 3 {
					waiting.Go(func() { s.Await(s.Context(), o, until) })
				}
				synctest.Wait()
				began := time.Now()
				s.Await(s.Context(), o, until)
				if took := time.Since(began); took != 0 {
					t.Errorf("the fourth waited %s", took)
				}
				waiting.Wait()
				if took := time.Since(began); took != esim.InlineWait {
					t.Errorf("the others waited %s", took)
				}
			})
		})
	}
}

// TestOnlyTheProvenPayerIsHandedSecrets, even when the call's own deadline has passed.
func TestOnlyTheProvenPayerIsHandedSecrets(t *testing.T) {
	story(t, careful, func(s *shop) {
		delivered := s.paid()
		s.pass(10 * time.Second)
		s.supplier.Fault(esimtest.Order, fulfilmenttest.StaysPending)
		open := s.paid()
		late, cancel := context.WithCancel(s.Context())
		cancel()
		for name, c := range map[string]struct {
			order              order.Order
			proven             bool
			token, credentials bool
		}{
			"a delivered order":               {delivered, true, true, true},
			"a delivered order of a stranger": {delivered, false, false, false},
			"an open order":                   {open, true, true, false},
		} {
			o, err := s.Store.Order(s.Context(), c.order.ID)
			if err != nil {
				s.Fatal(err)
			}
			got, err := s.HandOver(late, o, c.proven, time.Now().Add(esim.InlineWait))
			if err != nil || got.Order.ID != o.ID ||
				(got.Token != nil) != c.token || (got.Credentials != nil) != c.credentials {
				s.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	})
}
