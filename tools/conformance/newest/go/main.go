// Command go buys an eSIM from a development server with the client of the official x402 package for Go, twice
// under one key. It has one argument, the server's ready file.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	x402 "github.com/x402-foundation/x402/go"
	x402http "github.com/x402-foundation/x402/go/http"
	evm "github.com/x402-foundation/x402/go/mechanisms/evm/exact/client"
	signers "github.com/x402-foundation/x402/go/signers/evm"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := buy(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ready is what the development server writes of itself.
type ready struct {
	BaseURL string
	Wallets []struct{ PrivateKey string }
}

func buy(ctx context.Context, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var server ready
	if err := json.Unmarshal(raw, &server); err != nil {
		return err
	}
	signer, err := signers.NewClientSignerFromPrivateKey(server.Wallets[9].PrivateKey)
	if err != nil {
		return err
	}
	payer := x402.Newx402Client().Register("eip155:*", evm.NewExactEvmScheme(signer, nil))
	paying := x402http.WrapHTTPClientWithPayment(&http.Client{}, x402http.Newx402HTTPClient(payer))
	body, err := json.Marshal(map[string]string{"idempotencyKey": "x402-go-" + rand.Text()})
	if err != nil {
		return err
	}
	first, err := purchase(ctx, paying, server.BaseURL, body)
	if err != nil {
		return err
	}
	again, err := purchase(ctx, paying, server.BaseURL, body)
	if err != nil {
		return err
	}
	if first.Replayed || !again.Replayed || again.order() != first.order() {
		return fmt.Errorf("the key was bought by %+v, and again by %+v", first, again)
	}
	fmt.Printf("%s bought %s by %s\n", first.Payment.Payer, first.OrderID, first.Payment.Transaction)
	return nil
}

// paid is what the service answers of an order.
type paid struct {
	OrderID  string
	Replayed bool
	Payment  struct{ Payer, Transaction string }
}

// order is what a repeat must answer, too.
func (p paid) order() [2]string { return [2]string{p.OrderID, p.Payment.Transaction} }

// purchase buys an eSIM and holds the order against the settlement that the answer proves.
func purchase(ctx context.Context, c *http.Client, base string, body []byte) (bought paid, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/esim/purchase", bytes.NewReader(body))
	if err != nil {
		return bought, err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(req)
	if err != nil {
		return bought, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return bought, err
	}
	if answer.StatusCode != http.StatusOK {
		return bought, fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err := json.Unmarshal(text, &bought); err != nil {
		return bought, err
	}
	settled, err := x402http.Newx402HTTPClient(x402.Newx402Client()).GetPaymentSettleResponse(
		map[string]string{"PAYMENT-RESPONSE": answer.Header.Get("PAYMENT-RESPONSE")})
	if err != nil {
		return bought, err
	}
	if !settled.Success || settled.Transaction != bought.Payment.Transaction || bought.OrderID == "" {
		return bought, fmt.Errorf("the settlement is %+v of %+v", settled, bought)
	}
	return bought, nil
}
