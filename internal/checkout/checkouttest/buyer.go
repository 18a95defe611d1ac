package checkouttest

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// funds is what a buyer begins with.
const funds money.USDC = 1000_000_000

// Buyer is a wallet with money.
type Buyer struct {
	Address x402.Address
	key     *ecdsa.PrivateKey
	// owns says that the address is a smart account, and the key its owner's.
	owns bool
}

// NewSmartAccount is a smart account that the shop's chain gives money, and its owner.
func (s *Shop) NewSmartAccount(t *testing.T) (account Buyer, owner x402.Address) {
	t.Helper()
	w := newWallet(t)
	account = Buyer{Address: newWallet(t).Address(), key: w.Key(), owns: true}
	s.Chain.Own(account.Address, w.Address())
	s.Chain.Fund(account.Address, funds)
	return account, w.Address()
}

// NewBuyer is a buyer whom the shop's chain gives money.
func (s *Shop) NewBuyer(t *testing.T) Buyer {
	t.Helper()
	w := newWallet(t)
	s.Chain.Fund(w.Address(), funds)
	return Buyer{Address: w.Address(), key: w.Key()}
}

// Spent is how much of its money a buyer no longer has.
func (s *Shop) Spent(b Buyer) money.USDC { return funds - s.Chain.Balance(b.Address) }

// Purchase is a card purchase of a key, not yet paid.
func Purchase(key string) checkout.Purchase {
	return checkout.Purchase{
		Kind: card.Kind, Key: key, Request: json.RawMessage(`{}`),
		Resource: x402.Resource{URL: "https://shop.example/api/card/purchase"},
	}
}

// TopUp is a top-up purchase of a key, not yet paid.
func TopUp(key string, gross money.Cents) checkout.Purchase {
	p := Purchase(key)
	p.Kind = topup.Kind
	p.Request, _ = json.Marshal(topup.Request{Gross: gross})
	return p
}

// Challenge asks for the terms of a purchase.
func (s *Shop) Challenge(t *testing.T, p checkout.Purchase) x402.PaymentRequired {
	t.Helper()
	p.Payment = ""
	_, err := s.Buy(t.Context(), p)
	return Required(t, err)
}

// Required reads the terms of a challenge.
func Required(t *testing.T, err error) x402.PaymentRequired {
	t.Helper()
	ch, ok := errors.AsType[*checkout.Challenge](err)
	if !ok {
		t.Fatalf("want a challenge, got %v", err)
	}
	required, err := x402.DecodeRequired(ch.Headers().Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	return required
}

// Pay signs what a challenge asks for, with a new nonce and after the changes, and returns the header.
func (b Buyer) Pay(t *testing.T, required x402.PaymentRequired, change ...func(*x402.Authorization)) string {
	t.Helper()
	r := required.Accepts[0]
	to, err := x402.ParseAddress(r.PayTo)
	if err != nil {
		t.Fatal(err)
	}
	value, err := money.ParseUSDC(r.Amount)
	if err != nil {
		t.Fatal(err)
	}
	a := x402.Authorization{From: b.Address, To: to, Value: value,
		ValidBefore: uint64(time.Now().Add(2 * time.Minute).Unix())}
	_, _ = rand.Read(a.Nonce[:])
	for _, f := range change {
		f(&a)
	}
	sig, err := curve.Sign(Domain(), a, b.key)
	if err != nil {
		t.Fatal(err)
	}
	if b.owns {
		sig = paymenttest.OfAccount(sig)
	}
	header, err := x402.EncodePayment(x402.Payment{Accepted: r, Resource: required.Resource, Authorization: a,
		Signature: sig})
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// Paid is a purchase with a fresh payment of the buyer.
func (s *Shop) Paid(t *testing.T, b Buyer, p checkout.Purchase) checkout.Purchase {
	t.Helper()
	p.Payment = b.Pay(t, s.Challenge(t, p))
	return p
}

// PaidCard is a card purchase of a key with a fresh payment of the buyer.
func (s *Shop) PaidCard(t *testing.T, b Buyer, key string) checkout.Purchase {
	t.Helper()
	return s.Paid(t, b, Purchase(key))
}

// MustBuy buys, or ends the test.
func (s *Shop) MustBuy(t *testing.T, p checkout.Purchase) checkout.PaidOrder {
	t.Helper()
	sold, err := s.Buy(t.Context(), p)
	if err != nil {
		t.Fatalf("Buy: %v", err)
	}
	return sold
}

// WithCard lets a buyer have an active card whose fee is withdrawn.
func (s *Shop) WithCard(t *testing.T, b Buyer) card.Card {
	t.Helper()
	s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "card")).Order.ID, order.Fulfilled)
	c, err := s.Cards.Ensure(t.Context(), b.Address)
	if err != nil {
		t.Fatal(err)
	}
	s.FeeJob(t, c)
	return c
}
