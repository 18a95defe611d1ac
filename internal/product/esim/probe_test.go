package esim_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
)

// TestNobodyIsAskedToPayForWhatTheSupplierCannotMake: with a quote or without one.
func TestNobodyIsAskedToPayForWhatTheSupplierCannotMake(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*shop)
		want   fault.Code
	}{
		"all is well": {func(*shop) {}, ""},
		"it does not answer": {
			func(s *shop) { s.supplier.Fault(esimtest.Check, fulfilmenttest.TimeoutBefore) }, fault.DependencyDown,
		},
		"it fails": {
			func(s *shop) { s.supplier.Fault(esimtest.Check, fulfilmenttest.ErrorBefore) }, fault.DependencyDown,
		},
		"the float is empty":     {func(s *shop) { s.supplier.SetFloat(0) }, fault.FloatUnavailable},
		"a millionth too little": {func(s *shop) { s.supplier.SetFloat(799_999) }, fault.FloatUnavailable},
		"just enough":            {func(s *shop) { s.supplier.SetFloat(800_000) }, ""},
		"promised to others": {func(s *shop) { s.supplier.SetFloat(1_600_000); s.hold(800_001, true) },
			fault.FloatUnavailable},
		"promised to who has not paid": {
			func(s *shop) { s.supplier.SetFloat(1_600_000); s.hold(800_000, true); s.hold(1, false) },
			fault.FloatReserved},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, careful, func(s *shop) {
				quoted, err := s.offered(`{}`, nil)
				if err != nil {
					s.Fatal(err)
				}
				s.pass(3 * time.Second) // what was known is old
				tc.change(s)
				for leg, promised := range map[string]*order.Offer{"unpaid": nil, "quoted": &quoted} {
					if _, err := s.offered(`{}`, promised); fault.Of(err) != tc.want {
						s.Errorf("%s: %v, want %q", leg, err, tc.want)
					}
				}
				if err := s.shown("float"); tc.want != fault.DependencyDown && fault.Of(err) != tc.want {
					s.Errorf("readiness: %v", err)
				}
			})
		})
	}
}

func TestFloatIsEnoughForSomePlansOnly(t *testing.T) {
	story(t, careful, func(s *shop) {
		s.supplier.SetFloat(1_000_000)
		plans, err := s.Plans(s.Context(), esim.Filter{})
		if err != nil || len(plans) != 3 {
			s.Fatalf("%d plans, %v", len(plans), err)
		}
		for i, want := range []fault.Code{"", fault.FloatUnavailable, fault.FloatUnavailable} {
			if _, err := s.offered(`{"planId":"`+string(plans[i].ID)+`"}`, nil); fault.Of(err) != want {
				s.Errorf("%s: %v, want %q", plans[i].Name, err, want)
			}
		}
		if err := s.shown("float"); err != nil {
			s.Errorf("something can be sold, and readiness says %v", err)
		}
	})
}

func TestSupplierIsAskedOnceAMoment(t *testing.T) {
	story(t, careful, func(s *shop) {
		before := s.supplier.Calls(esimtest.Check)
		for range 20 {
			if _, err := s.offered(`{}`, nil); err != nil {
				s.Fatal(err)
			}
		}
		if n := s.supplier.Calls(esimtest.Check) - before; n != 1 {
			s.Errorf("%d calls", n)
		}
		s.supplier.Fault(esimtest.Check, fulfilmenttest.ErrorBefore)
		s.pass(2 * time.Second)
		for range 20 {
			if _, err := s.offered(`{}`, nil); fault.Of(err) != fault.DependencyDown {
				s.Fatalf("offered while it is down: %v", err)
			}
		}
		s.pass(2 * time.Second)
		if _, err := s.offered(`{}`, nil); err != nil {
			s.Errorf("it answers again: %v", err)
		}
	})
}
