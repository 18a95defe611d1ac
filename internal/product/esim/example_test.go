package esim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
)

// A plan of the catalogue is ordered at its present cost, and the order is read back by our reference.
func ExampleSupplier() {
	ctx := context.Background()
	var supplier esim.Supplier = esimtest.NewSupplier(true, fulfilment.Traits{Deduplicates: true})
	listings, err := supplier.Listings(ctx)
	if err != nil {
		log.Fatal(err)
	}
	now, err := supplier.Check(ctx, listings[0].Code)
	if err != nil {
		log.Fatal(err)
	}
	ref := fulfilment.DeriveRef(uuid.NameSpaceURL, "order-1")
	if _, err := supplier.Order(ctx, esim.Request{Ref: ref, Code: listings[0].Code, MaxCost: now.Cost}); err != nil {
		log.Fatal(err)
	}
	bought, err := supplier.Ordered(ctx, ref)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bought.State, bought.Cost == now.Cost)
	fmt.Println("the activation code is", bought.ActivationData.MatchingID) // shown to its owner only
	// Output:
	// ready true
	// the activation code is [redacted]
}
