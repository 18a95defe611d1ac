package payment_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// A collector asks the chain first, and submits a payment while it is unused. Calling it again is safe: it never
// submits a settled payment.
func ExampleCollector() {
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	payer, payee := x402.Address{1}, x402.Address{2}
	chain := paymenttest.NewChain(x402.Domain{}, now) // in memory; the service's chain asks several nodes
	chain.Fund(payer, 25_000_000)
	collector := payment.NewCollector(payment.CollectorConfig{
		Chain: chain, Settler: chain, Timeout: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	p := payment.Payment{
		ID: uuid.New(), Status: payment.Claimed, Signature: "signed", CreatedAt: now(),
		Authorization: x402.Authorization{
			From: payer, To: payee, Value: 25_000_000, ValidBefore: uint64(now().Add(time.Minute).Unix()), Nonce: x402.Hash{3},
		},
	}
	ctx := context.Background()
	chain.Next(paymenttest.Lose) // the transaction is included, but the settler's answer is lost
	for range 3 {
		verdict := collector.Collect(ctx, p)
		fmt.Println("settled:", verdict.State == payment.Settled, "submitted:", chain.Calls().Submit)
	}
	fmt.Println("the payee has", chain.Balance(payee).Dollars(), "USDC")
	// Output:
	// settled: false submitted: 1
	// settled: true submitted: 1
	// settled: true submitted: 1
	// the payee has 25.000000 USDC
}

// Terms say why a payment is not accepted, before anything is sent.
func ExampleTerms_Check() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	terms := payment.Terms{
		Network: x402.NetworkID, Asset: x402.Address{1}, PayTo: x402.Address{2}, MaxTimeout: time.Minute,
		Margin: payment.MinMargin, MaxValidity: time.Hour,
	}
	signed := payment.Signed{Payment: x402.Payment{
		Accepted: terms.Requirements(25_000_000, nil),
		Authorization: x402.Authorization{
			From: x402.Address{3}, To: terms.PayTo, Value: 25_000_000, ValidBefore: uint64(now.Add(time.Minute).Unix()),
		},
	}}
	fmt.Println(terms.Check(signed, 25_000_000, now))
	rejection, _ := errors.AsType[*payment.Rejection](terms.Check(signed, 25_000_000, now.Add(time.Minute)))
	fmt.Println(rejection.Detail)
	// Output:
	// <nil>
	// authorization.validBefore must lie at least 20 s ahead
}
