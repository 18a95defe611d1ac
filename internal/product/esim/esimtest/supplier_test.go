package esimtest

import (
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

func TestSupplierInMemoryKeepsToTheSuite(t *testing.T) {
	Run(t, NewSupplier(false, fulfilment.Traits{}).Harness())
}
