package roamcard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

// newBuyer is a client of a fake of the service. A program names its own service and key, and keeps a FileStore.
func newBuyer(service *roamcardtest.Service) *roamcard.Client {
	signer, err := roamcard.NewKeySigner("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d")
	if err != nil {
		log.Fatal(err)
	}
	client, err := roamcard.New(roamcard.Config{
		BaseURL: service.URL(), HTTP: service.Transport(), Signer: signer,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 5000, MaxPerDay: 20_000}, // cents
		Poll:   time.Millisecond, MaxReplays: new(0),
	})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func ExampleCards_Purchase() {
	ctx := context.Background()
	client := newBuyer(roamcardtest.New(roamcardtest.Config{}))

	bought, err := client.Cards.Purchase(ctx, "my-first-card")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("paid %s, the card is active\n", roamcard.Cents(bought.Order.GetAmountUsdCents()))

	// The same key returns the same order.
	again, err := client.Cards.Purchase(ctx, "my-first-card")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same order:", again.Order.GetOrderId() == bought.Order.GetOrderId())
	// Output:
	// paid 25.00, the card is active
	// the same order: true
}

func ExampleCards_TopUp() {
	ctx := context.Background()
	client := newBuyer(roamcardtest.New(roamcardtest.Config{}))
	card, err := client.Cards.Purchase(ctx, "card")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Cards.WaitUntilActive(ctx, card.Order.GetOrderId()); err != nil {
		log.Fatal(err)
	}

	bought, err := client.Cards.TopUp(ctx, 3000, "thirty-dollars")
	if err != nil {
		log.Fatal(err)
	}
	topUp := bought.Order.GetTopup()
	fmt.Printf("paid %s, the card gets %s after the fee\n",
		roamcard.Cents(topUp.GetGrossUsdCents()), roamcard.Cents(topUp.GetCardCreditUsdCents()))
	// Output:
	// paid 30.00, the card gets 29.40 after the fee
}

// phone stands for a screen that a person sees.
type phone struct{}

func (phone) PresentESIM(_ context.Context, e roamcard.ESIM) (roamcard.Presented, error) {
	// A real presenter shows e.QRPNG, or e.LPA.Reveal() as text.
	fmt.Println("shown once:", e.LPA)
	return roamcard.Presented{Seen: true}, nil
}

func ExampleESIMs_Purchase() {
	ctx := context.Background()
	client := newBuyer(roamcardtest.New(roamcardtest.Config{}))

	bought, err := client.ESIM.Purchase(ctx, "", "tokyo") // no plan is named: the cheapest one
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(roamcard.StatusOf(bought.Order))
	shown, err := client.ESIM.Install(ctx, bought.Order.GetOrderId(), phone{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("seen:", shown.Seen)
	// Output:
	// fulfilled
	// shown once: [redacted]
	// seen: true
}

func ExampleClient_Resume() {
	ctx := context.Background()
	service := roamcardtest.New(roamcardtest.Config{})
	client := newBuyer(service)

	// The service is paid, and its answer is lost. This client does not send the payment again by itself, see MaxReplays.
	service.Faults.LoseAnswer(roamcardtest.When{On: roamcardtest.Paid})
	_, err := client.ESIM.Purchase(ctx, "", "tokyo")
	fmt.Println("unclear:", errors.Is(err, roamcard.ErrAmbiguousPayment))

	resumed, err := client.Resume(ctx, "tokyo")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("resumed:", roamcard.StatusOf(resumed.Order))
	fmt.Println("payments:", len(service.Token.Transfers()))
	// Output:
	// unclear: true
	// resumed: fulfilled
	// payments: 1
}

// The number goes from the service to the terminal of a person. It is sealed to a key that is made for this one view,
// so the program never has it. The fake of the service shows no card, therefore this example is compiled only.
func ExampleCards_Reveal() {
	ctx := context.Background()
	client, err := roamcard.FromEnv(roamcard.Config{})
	if err != nil {
		log.Fatal(err)
	}
	shown, err := client.Cards.Reveal(ctx, os.Args[1], roamcard.TerminalPresenter{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("seen:", shown.Seen)
}
