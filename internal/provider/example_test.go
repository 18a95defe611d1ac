package provider_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/testing/paperissuer"
)

// An issuer is what its adapter registers: a name, settings of its own, and a client that is made of them. The program
// does this with each line of internal/app/providers.go.
func ExampleIssuer() {
	var issuer provider.Issuer = paperissuer.NewOffice(10_000, time.Now).Register()
	own := provider.Values{}
	for _, s := range issuer.Settings {
		fmt.Printf("%s (%s), required: %v, secret: %v\n", s.Key, s.Help, s.Default == "" && !s.Optional, s.Secret)
		own[s.Key] = secret.New(s.Default)
	}
	if _, err := issuer.Dial(provider.Config{Own: own}); err != nil {
		fmt.Println(err)
	}

	own["paper.stamp"] = secret.New("a stamp")
	client, err := issuer.Dial(provider.Config{Own: own})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	opening := card.Opening{Ref: fulfilment.DeriveRef(uuid.NameSpaceURL, "order-1"), Load: card.Price}
	if _, err := client.Open(ctx, opening); err != nil {
		log.Fatal(err)
	}
	stock, err := client.Stock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the float has", stock.Float)
	// Output:
	// paper.bin (the first six digits of all card numbers), required: false, secret: false
	// paper.stamp (what orders to the office are stamped with), required: true, secret: true
	// dial the paper issuer: it needs paper.bin and paper.stamp
	// the float has 75.00
}
