// Command oapi-codegen buys an eSIM from a development server through the client that oapi-codegen makes of the served
// OpenAPI document. It has one argument, the server's ready file.
//
// The client package is not kept: tools/conformance.sh generates it next to this file before it runs this.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
	"github.com/roamcard/roamcard/tools/conformance/oapi-codegen/client"
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
	c, err := client.NewClientWithResponses(server.BaseURL)
	if err != nil {
		return err
	}
	plans, err := c.ListEsimPlansWithResponse(ctx, &client.ListEsimPlansParams{})
	if err != nil {
		return err
	}
	if plans.JSON200 == nil || len(plans.JSON200.Plans) == 0 {
		return fmt.Errorf("the plans are answered with %s", plans.Status())
	}
	body := client.PurchaseEsimRequest{IdempotencyKey: "oapi-codegen-" + rand.Text(),
		PlanId: &plans.JSON200.Plans[0].PlanId}
	asked, err := c.PurchaseEsimWithResponse(ctx, &client.PurchaseEsimParams{}, body)
	if err != nil {
		return err
	}
	if asked.StatusCode() != http.StatusPaymentRequired || asked.ApplicationproblemJSON402 == nil {
		return fmt.Errorf("the purchase without a payment is answered with %s", asked.Status())
	}
	payment, err := sign(asked.HTTPResponse.Header.Get(x402.HeaderRequired), server.Wallets[0].PrivateKey)
	if err != nil {
		return err
	}
	bought, err := c.PurchaseEsimWithResponse(ctx, &client.PurchaseEsimParams{PAYMENTSIGNATURE: &payment}, body)
	if err != nil {
		return err
	}
	if bought.JSON200 == nil {
		return fmt.Errorf("the paid purchase is answered with %s: %s", bought.Status(), bought.Body)
	}
	again, err := c.PurchaseEsimWithResponse(ctx, &client.PurchaseEsimParams{PAYMENTSIGNATURE: &payment}, body)
	if err != nil {
		return err
	}
	order := again.JSON200
	if order == nil || order.OrderId != bought.JSON200.OrderId || order.Replayed == nil || !*order.Replayed {
		return fmt.Errorf("the repeat is answered with %s: %s", again.Status(), again.Body)
	}
	fmt.Printf("bought %s, which is %s\n", bought.JSON200.OrderId, bought.JSON200.Status)
	return nil
}

// sign is a payment of the terms in a PAYMENT-REQUIRED header, ready for PAYMENT-SIGNATURE.
func sign(terms, privateKey string) (string, error) {
	required, err := x402.DecodeRequired(terms)
	if err != nil {
		return "", err
	}
	if len(required.Accepts) != 1 {
		return "", errors.New("there is not one way to pay")
	}
	key, err := crypto.HexToECDSA(privateKey[len("0x"):])
	if err != nil {
		return "", err
	}
	accepted := required.Accepts[0]
	asset, err := x402.ParseAddress(accepted.Asset)
	if err != nil {
		return "", err
	}
	to, err := x402.ParseAddress(accepted.PayTo)
	if err != nil {
		return "", err
	}
	value, err := money.ParseUSDC(accepted.Amount)
	if err != nil {
		return "", err
	}
	a := x402.Authorization{
		From: curve.AddressOf(key), To: to, Value: value,
		ValidBefore: uint64(time.Now().Unix()) + uint64(accepted.MaxTimeoutSeconds),
	}
	if _, err := rand.Read(a.Nonce[:]); err != nil {
		return "", err
	}
	name, _ := accepted.Extra["name"].(string)
	version, _ := accepted.Extra["version"].(string)
	domain := x402.Domain{Name: name, Version: version, ChainID: x402.ChainID, Contract: asset}
	signature, err := curve.Sign(domain, a, key)
	if err != nil {
		return "", err
	}
	return x402.EncodePayment(x402.Payment{Accepted: accepted, Resource: required.Resource, Authorization: a,
		Signature: signature})
}
