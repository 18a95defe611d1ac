package esimtest

import (
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

func TestSupplierInMemoryKeepsToTheSuite(t *testing.T) {
	Run(t, NewSupplier(false, fulfilment.Traits{}).Harness())
}

func TestStoreInMemoryKeepsToTheRules(t *testing.T) {
	RunStore(t, func(*testing.T) StoreHarness {
		s := NewStore()
		return StoreHarness{Store: s, Put: s.Put}
	})
}
