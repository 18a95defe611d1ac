package x402_test

import (
	"fmt"
	"log"

	"github.com/roamcard/roamcard/internal/x402"
)

// The terms of a 402 are a header: the service encodes them, a payer decodes them.
func ExamplePaymentRequired() {
	header, err := x402.EncodeRequired(x402.PaymentRequired{
		X402Version: x402.Version,
		Resource:    x402.Resource{URL: "https://roamcard.example/api/card/purchase"},
		Accepts: []x402.Requirements{{
			Scheme: x402.Scheme, Network: x402.NetworkID, Amount: "25000000", MaxTimeoutSeconds: 120,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	terms, err := x402.DecodeRequired(header)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(terms.Resource.URL)
	for _, way := range terms.Accepts {
		fmt.Println(way.Scheme, way.Network, way.Amount)
	}
	// Output:
	// https://roamcard.example/api/card/purchase
	// exact eip155:8453 25000000
}

// However often a purchase is signed, its payments share a nonce, and the token takes a nonce once.
func ExampleDerivedNonce() {
	payer, err := x402.ParseAddress("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
	if err != nil {
		log.Fatal(err)
	}
	nonce := func(key string) x402.Hash {
		return x402.DerivedNonce("https://roamcard.example", "/api/card/purchase", payer, key, 0)
	}
	first, again, other := nonce("my-first-card"), nonce("my-first-card"), nonce("my-second-card")
	fmt.Println("the same key:", again == first)
	fmt.Println("another key:", other == first)
	// Output:
	// the same key: true
	// another key: false
}
