package esimtest

import (
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

func TestSupplierInMemoryKeepsToTheSuite(t *testing.T) {
	s := NewSupplier(false, fulfilment.Traits{})
	Run(t, Harness{Supplier: s, Traits: s.Traits(), Settle: s.Settle, Fault: s.Fault, Executed: s.Executed, SellOut: s.SellOut})
}

func TestStoreInMemoryKeepsToTheRules(t *testing.T) {
	RunStore(t, func(*testing.T) StoreHarness {
		s := NewStore()
		return StoreHarness{Store: s, Put: s.Put}
	})
}
