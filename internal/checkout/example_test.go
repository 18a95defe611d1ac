package checkout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// postcard is a product with a fixed price and nothing to reserve.
type postcard struct{}

func (postcard) Kind() order.Kind { return "postcard" }

func (postcard) Path() string { return "/api/postcard/purchase" }

func (postcard) Availability() availability.Product { return availability.Product{Kind: "postcard"} }

func (postcard) Offer(context.Context, order.OfferRequest) (order.Offer, error) {
	return order.Offer{Price: 90, Item: json.RawMessage(`{}`), Description: "A postcard"}, nil
}

func (postcard) Reserve(_ context.Context, _ x402.Address, o order.Offer) (order.Claim, error) {
	return order.Claim{Item: o.Item}, nil
}

// A product is sold through its port. Without a payment the answer is a challenge with the terms, and nothing is
// stored.
func ExampleProduct() {
	c := checkout.New(checkout.Config{
		Products: []checkout.Product{postcard{}}, Now: time.Now, QuoteKey: make([]byte, 32),
		Terms: payment.Terms{Network: x402.NetworkID, MaxTimeout: time.Minute},
	})
	purchase := checkout.Purchase{Kind: "postcard", Key: "key-1", Request: json.RawMessage(`{}`)}
	_, err := c.Buy(context.Background(), purchase)
	challenge, ok := errors.AsType[*checkout.Challenge](err)
	if !ok {
		log.Fatal(err)
	}
	required, err := x402.DecodeRequired(challenge.Headers().Get(x402.HeaderRequired))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(required.Resource.Description, "costs", required.Accepts[0].Amount, "on", required.Accepts[0].Network)
	// Output:
	// A postcard costs 900000 on eip155:8453
}
