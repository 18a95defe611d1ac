// Command tour does what the README shows: WALLET_KEY=0x… go run ./clients/go/examples/tour, with `roamcard dev`
// running.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func main() {
	ctx := context.Background()
	signer, err := roamcard.NewKeySigner(os.Getenv("WALLET_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := configured(signer)
	if os.Getenv("ROAMCARD_URL") != "" {
		client, err = fromEnvironment()
	}
	if err != nil {
		log.Fatal(err)
	}
	stops := []func(context.Context, *roamcard.Client) error{quote, cards, esim, asJSON, orders, failures, raw, once}
	for _, stop := range stops {
		if err := stop(ctx, client); err != nil {
			log.Fatal(err)
		}
	}
	if account := os.Getenv("ACCOUNT"); account != "" {
		if err := smartAccount(ctx, signer, account); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("The tour is over.")
}

func configured(signer roamcard.Signer) (*roamcard.Client, error) {
	replays := 6
	return roamcard.New(roamcard.Config{
		BaseURL:    "http://127.0.0.1:8402",
		Signer:     signer,
		Policy:     roamcard.Policy{Mode: roamcard.PolicyGated, MaxPerDay: 20_000, ApproveAbove: 5000, Approve: ask},
		HTTP:       &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4},
		Timeout:    20 * time.Second, // for one answer
		MaxReplays: &replays,
		MaxRetries: &replays,
		Logger:     slog.New(slog.NewJSONHandler(os.Stderr, nil)), // no signature and no secret is ever in it
		Events:     &roamcard.Events{Settled: func(key, transaction string) { fmt.Println(key, "was paid in", transaction) }},
	})
}

func smartAccount(ctx context.Context, owner roamcard.Signer, address string) error {
	account, err := roamcard.NewCoinbaseSmartAccount(owner, address, 0) // 0 is the first of the account's owners
	if err != nil {
		return err
	}
	client, err := configured(account)
	if err != nil {
		return err
	}
	bought, err := client.Cards.Purchase(ctx, "my-accounts-card")
	if err != nil {
		return err
	}
	fmt.Println(bought.Order.GetPayment().GetPayer(), "paid and owns")
	return nil
}

func fromEnvironment() (*roamcard.Client, error) {
	return roamcard.FromEnv(roamcard.Config{Policy: roamcard.Policy{Approve: ask}})
}

func ask(ctx context.Context, q roamcard.Quote) (bool, error) {
	fmt.Printf("Pay %s USD to %s for %s? ", q.Amount, q.PayTo, q.Description)
	var answer string
	_, err := fmt.Scanln(&answer)
	return answer == "yes", err
}

func quote(ctx context.Context, client *roamcard.Client) error {
	verdict, err := client.Quote.Card(ctx)
	if err != nil {
		return err
	}
	fmt.Println(verdict.Quote.Amount, verdict.Quote.PayTo, verdict.Denied, verdict.Asks) // nothing is signed
	return nil
}

func cards(ctx context.Context, client *roamcard.Client) error {
	bought, err := client.Cards.Purchase(ctx, roamcard.NewKey()) // a new key, which comes back
	if err != nil {
		return err
	}
	fmt.Println(bought.IdempotencyKey, bought.Order.GetOrderId(), bought.Transaction, bought.RequestID)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	card, err := client.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId())
	if err != nil {
		return err
	}
	if _, err := client.Cards.TopUp(ctx, 2500, "my-first-topup"); err != nil { // 25.00, of which 2 % are the fee
		return err
	}
	balance, err := client.Cards.Balance(ctx, card)
	if err != nil {
		return err
	}
	fmt.Println(balance.GetAvailableUsdCents())
	shown, err := client.Cards.Reveal(ctx, card, roamcard.BrowserPresenter{Open: openBrowser})
	if err != nil {
		return err
	}
	fmt.Println(shown.Seen) // and nothing else: the number never comes here
	return nil
}

func esim(ctx context.Context, client *roamcard.Client) error {
	for plan, err := range client.Plans.List(ctx, "JP", "country") {
		if err != nil {
			return err
		}
		fmt.Println(plan.GetPlanId(), plan.GetName(), plan.GetPriceUsdCents())
	}
	bought, err := client.ESIM.Purchase(ctx, "", "my-trip") // an empty plan is the cheapest there is
	if err != nil {
		return err
	}
	order := bought.Order.GetOrderId()
	err = client.Orders.Watch(ctx, order, func(o *roamcardv1.Order) bool {
		fmt.Println(o.GetStatus(), o.GetDelivery().GetStatus())
		return true // until it is final
	})
	if err != nil {
		return err
	}
	// Its delivery token opens the order for whoever holds it; without one the wallet signs in.
	shown, err := client.ESIM.Install(roamcard.WithDeliveryToken(ctx, bought.DeliveryToken), order,
		roamcard.BrowserPresenter{Open: openBrowser})
	if err != nil {
		return err
	}
	fmt.Println(shown.Seen)
	return nil
}

func orders(ctx context.Context, client *roamcard.Client) error {
	for order, err := range client.Orders.List(ctx, false) { // the next page is read when this one is used up
		if err != nil {
			return err
		}
		fmt.Println(order.GetOrderId(), order.GetKind(), order.GetStatus())
	}
	page, err := client.Orders.Page(ctx, false, "") // and the next one with page.Next
	if err != nil {
		return err
	}
	fmt.Println(len(page.Items), page.Next != "")
	return nil
}

func asJSON(ctx context.Context, client *roamcard.Client) error {
	bought, err := client.ESIM.Purchase(ctx, "", "my-trip") // the same order as before
	if err != nil {
		return err
	}
	if roamcard.StatusOf(bought.Order) == roamcard.OrderFulfilled {
		fmt.Println("nothing more will come")
	}
	return json.NewEncoder(os.Stdout).Encode(bought)
}

func once(ctx context.Context, client *roamcard.Client) error {
	ctx = roamcard.WithTimeout(ctx, 5*time.Second) // for one answer; the deadline of ctx is for them all
	ctx = roamcard.WithHeader(ctx, "X-Request-Id", "my-request")
	_, err := client.Discovery.Config(ctx)
	return err
}

func failures(ctx context.Context, client *roamcard.Client) error {
	_, err := client.Cards.Purchase(ctx, "another-card")
	switch {
	case errors.Is(err, roamcard.ErrAmbiguousPayment):
		fmt.Println("call again with the same key")
	case errors.Is(err, roamcard.ErrPolicyDenied), errors.Is(err, roamcard.ErrInsufficientFunds):
		fmt.Println("nothing was paid")
	case errors.Is(err, &roamcard.APIError{Code: "card_already_exists"}):
		fmt.Println("one wallet owns one card")
	case err != nil:
		return err
	}
	if told, ok := errors.AsType[*roamcard.APIError](err); ok {
		fmt.Println(told.Status, told.Code, told.RequestID, told.NextAction)
	}
	return nil
}

func raw(ctx context.Context, client *roamcard.Client) error {
	var answer roamcard.RawResponse
	if _, err := client.Cards.List(roamcard.WithRawResponse(ctx, &answer)); err != nil {
		return err
	}
	fmt.Println(answer.Status, answer.RequestID(), answer.Header.Get("Date"))
	return nil
}

// openBrowser is the person of this tour: it opens the file, and presses the button of the page that it leads to.
func openBrowser(ctx context.Context, url string) error {
	_, err := roamcardtest.Look(ctx, url)
	return err
}
