package card_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
)

// A card is opened, read back by our reference, and loaded. A reference that is sent again changes nothing more.
func ExampleIssuer() {
	ctx := context.Background()
	issuer := cardtest.NewIssuer(cardtest.Config{Instant: true})
	opening := card.Opening{Ref: fulfilment.DeriveRef(uuid.NameSpaceURL, "order-1"), Load: card.Price}

	_, err := issuer.Account(ctx, opening.Ref)
	fmt.Println("before:", errors.Is(err, fulfilment.ErrNoRef))
	for range 2 {
		if _, err := issuer.Open(ctx, opening); err != nil {
			log.Fatal(err)
		}
	}
	account, err := issuer.Account(ctx, opening.Ref)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("opened:", account.State, account.Loaded)

	_, err = issuer.Move(ctx, card.Movement{
		Ref: fulfilment.DeriveRef(uuid.NameSpaceURL, "fee-1"), Account: account.ID,
		Direction: card.Withdrawal, Amount: card.Fee,
	})
	if err != nil {
		log.Fatal(err)
	}
	balance, err := issuer.Balance(ctx, account.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left:", balance.Available)
	// Output:
	// before: true
	// opened: active 25.00
	// left: 15.00
}

// An owner freezes a card: a merchant's purchase is declined, and shows among the transactions.
func ExampleControls() {
	ctx := context.Background()
	issuer := cardtest.NewIssuer(cardtest.Config{Instant: true})
	account, err := issuer.Open(ctx, card.Opening{
		Ref: fulfilment.DeriveRef(uuid.NameSpaceURL, "order-2"), Load: card.Price,
	})
	if err != nil {
		log.Fatal(err)
	}
	state, err := issuer.SetFrozen(ctx, account.ID, true)
	if err != nil {
		log.Fatal(err)
	}
	issuer.Charge(account.ID, 450, card.Merchant{Name: "Corner shop"})
	page, _, err := issuer.Transactions(ctx, account.ID, "", 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state)
	fmt.Println(page[0].Amount, page[0].Merchant.Name, page[0].Status, page[0].Declined)
	// Output:
	// frozen
	// 4.50 Corner shop declined card_frozen
}
