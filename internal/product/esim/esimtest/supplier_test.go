package esimtest

import (
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
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

func TestJournalInMemoryKeepsToTheRules(t *testing.T) {
	RunJournal(t, func(*testing.T) esim.Journal { return &Journal{} })
}
