// Command buycard buys a card: WALLET_KEY=0x… go run ./clients/go/examples/buycard, with `roamcard dev` running.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func main() {
	ctx := context.Background()
	signer, err := roamcard.NewKeySigner(os.Getenv("WALLET_KEY")) // the payer becomes the owner
	if err != nil {
		log.Fatal(err)
	}
	store, err := roamcard.NewFileStore("roamcard-journal.json")
	if err != nil {
		log.Fatal(err)
	}
	client, err := roamcard.New(roamcard.Config{
		BaseURL: "http://127.0.0.1:8402",
		Signer:  signer,
		Policy:  roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000}, // cents
		Store:   store,
	})
	if err != nil {
		log.Fatal(err)
	}

	bought, err := client.Cards.Purchase(ctx, "my-first-card")
	if errors.Is(err, roamcard.ErrAmbiguousPayment) {
		log.Fatal("It is not known yet whether the payment was taken. Run this again: it pays at most once.")
	} else if err != nil {
		log.Fatal(err)
	}
	card, err := client.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("Card %s is ACTIVE.\n", card)
}
