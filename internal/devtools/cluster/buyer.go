package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// What is bought.
const (
	aCard  = "card"
	anESIM = "eSIM"
)

// bought is a purchase that was delivered.
type bought struct {
	Order, Payer, Key, Transaction string
	Amount                         roamcard.Cents
	// At is when the buyer knew that it was delivered.
	At time.Time
}

// purchase is one that has begun.
type purchase struct {
	// signed is closed once its payment is signed, and is about to be sent.
	signed chan struct{}
	ended  chan struct{} // closed when bought and err are set
	bought bought
	err    error
}

// shopper buys with the wallets of the development chain.
type shopper struct {
	url   string
	payee string
}

// begin begins a purchase, which goes on until it is delivered or ctx ends.
func (s shopper) begin(ctx context.Context, wallet devnet.Wallet, what string) *purchase {
	p := &purchase{signed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.bought, p.err = s.buy(ctx, wallet, what, sync.OnceFunc(func() { close(p.signed) }))
	}()
	return p
}

// buy buys one thing under one key, and calls again with it whatever happens: that never pays twice.
func (s shopper) buy(ctx context.Context, wallet devnet.Wallet, what string, signed func()) (bought, error) {
	client, err := s.client(wallet, signed)
	if err != nil {
		return bought{}, err
	}
	got := bought{Payer: wallet.Address, Key: roamcard.NewKey()}
	err = until(ctx, nil, func(context.Context) error {
		var paid *roamcard.Purchase
		switch what {
		case aCard:
			paid, err = client.Cards.Purchase(ctx, got.Key)
		default:
			esim, failed := client.ESIM.Purchase(ctx, "", got.Key)
			if err = failed; err == nil {
				paid = &esim.Purchase
			}
		}
		if err != nil {
			return err
		}
		got.Order, got.Transaction = paid.Order.GetOrderId(), paid.Transaction
		got.Amount = roamcard.Cents(paid.Order.GetAmountUsdCents())
		return nil
	})
	if err != nil {
		return got, fmt.Errorf("buy the %s: %w", what, err)
	}
	err = until(ctx, nil, func(ctx context.Context) error {
		order, err := client.Orders.Get(ctx, got.Order)
		if err == nil && roamcard.StatusOf(order) != roamcard.OrderFulfilled {
			err = fmt.Errorf("order %s is %s", got.Order, order.GetStatus())
		}
		return err
	})
	if err != nil {
		return got, fmt.Errorf("wait for the %s: %w", what, err)
	}
	got.At = time.Now()
	return got, nil
}

func (s shopper) client(wallet devnet.Wallet, signed func()) (*roamcard.Client, error) {
	signer, err := roamcard.NewKeySigner(wallet.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("open a wallet: %w", err)
	}
	const most = 1_000_000 // cents
	return roamcard.New(roamcard.Config{
		BaseURL: s.url, Signer: signer, Timeout: 30 * time.Second,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: most, MaxPerDay: most, PayTo: s.payee},
		Events: &roamcard.Events{Signed: func(roamcard.Quote) { signed() }},
	})
}
