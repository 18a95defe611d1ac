package checkout_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestSmartAccountBuys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true})
		account, owner := s.NewSmartAccount(t)
		first := s.PaidCard(t, account, "a-key-that-nobody-guesses")
		sold := s.MustBuy(t, first)
		if !sold.ProvenCaller || sold.Order.Owner != account.Address || s.Spent(account) != price {
			t.Errorf("bought: %+v, for %d", sold.Order, s.Spent(account))
		}

		// Its settled payment is public, and can be signed again by an owner that was removed and came back.
		again := s.MustBuy(t, first)
		if !again.Replayed || again.ProvenCaller || again.Order.ID != sold.Order.ID {
			t.Errorf("the same payment: proven %v, %+v", again.ProvenCaller, again.Order)
		}
		fresh := first
		fresh.Payment = account.Pay(t, s.Challenge(t, checkouttest.Purchase(first.Key)))
		if again = s.MustBuy(t, fresh); !again.Replayed || !again.ProvenCaller {
			t.Errorf("a payment that nobody has seen: proven %v", again.ProvenCaller)
		}
		if s.Spent(account) != price {
			t.Errorf("paid %d in all", s.Spent(account))
		}

		s.Chain.Own(account.Address, x402.Address{})
		_, err := s.Buy(t.Context(), fresh)
		checkouttest.Required(t, err) // as for any payment that its payer did not sign
		if again := s.MustBuy(t, first); again.ProvenCaller || again.Order.ID != sold.Order.ID {
			t.Errorf("the payment that was claimed: proven %v, %+v", again.ProvenCaller, again.Order)
		}
		s.Chain.Own(account.Address, owner)
		s.MustBuy(t, fresh)
	})
}

// TestSmartAccountOfNoKindIsRefused for good: a client would sign a new challenge with the same account.
func TestSmartAccountOfNoKindIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true})
		other := checkouttest.Open(t, checkouttest.Options{})
		stranger, _ := other.NewSmartAccount(t)
		_, err := s.Buy(t.Context(), s.PaidCard(t, stranger, "k"))
		if f := checkouttest.WantFault(t, err, fault.PayerKindNotAccepted); f.SafeToPayAgain {
			t.Errorf("told to pay again: %v", f)
		}
		if _, asked := errors.AsType[*checkout.Challenge](err); asked {
			t.Error("asked again")
		}
	})
}

// TestOwnerOfASmartAccountIsNotGuessed: while the chain does not answer, nobody is taken for a payer, and the same
// request may be repeated.
func TestOwnerOfASmartAccountIsNotGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true})
		account, _ := s.NewSmartAccount(t)
		p := s.PaidCard(t, account, "k")
		s.Chain.Down(true)
		_, err := s.Buy(t.Context(), p)
		if f := checkouttest.WantFault(t, err, fault.DependencyDown); f.SafeToPayAgain {
			t.Errorf("told to pay again: %v", f)
		}
		s.Chain.Down(false)
		s.MustBuy(t, p)
	})
}

// TestSmartAccountHasOneUndecidedPayment: its owner can make all of them void at once.
func TestSmartAccountHasOneUndecidedPayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{
			SmartAccounts: true, Wait: time.Second, Limits: limit.Rates{limit.Undecided: {Count: 4}},
		})
		account, _ := s.NewSmartAccount(t)
		s.Chain.StallAll()
		_, err := s.Buy(t.Context(), s.PaidCard(t, account, "one"))
		checkouttest.WantFault(t, err, fault.SettlementUnknown)
		_, err = s.Buy(t.Context(), s.PaidCard(t, account, "two"))
		checkouttest.WantFault(t, err, fault.PaymentsUndecided)
	})
}

// TestSmartAccountIsNotAskedTwice: its owner is removed while the payment is on its way. Who repeats it is told that,
// and not to sign another one.
func TestSmartAccountIsNotAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true, Wait: time.Second})
		account, _ := s.NewSmartAccount(t)
		s.Chain.StallAll()
		p := s.PaidCard(t, account, "k")
		_, err := s.Buy(t.Context(), p)
		first := checkouttest.WantFault(t, err, fault.SettlementUnknown)
		s.Chain.Own(account.Address, x402.Address{})
		_, err = s.Buy(t.Context(), p)
		if again := checkouttest.WantFault(t, err, fault.SettlementUnknown); again.OrderID != first.OrderID {
			t.Errorf("it is about %s, and then %s", first.OrderID, again.OrderID)
		}
		s.Chain.Down(true)
		_, err = s.Buy(t.Context(), p)
		checkouttest.WantFault(t, err, fault.SettlementUnknown)
		s.Chain.Down(false)
		s.Chain.Release()
		if sold := s.MustBuy(t, p); sold.ProvenCaller || s.Spent(account) != price {
			t.Errorf("proven %v, paid %d", sold.ProvenCaller, s.Spent(account))
		}
	})
}

// TestSettledPaymentOfASmartAccountIsItsPayers: our data was lost, and the owner that signed is removed. The chain
// shows that the payment was made, which is told, as for a key.
func TestSettledPaymentOfASmartAccountIsItsPayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true})
		account, owner := s.NewSmartAccount(t)
		p := s.PaidCard(t, account, "a-key-that-nobody-guesses")
		pay, err := x402.DecodeAnyPayment(p.Payment)
		if err != nil {
			t.Fatal(err)
		}
		s.Chain.SettleSigned(pay)
		s.Chain.Own(account.Address, x402.Address{})
		_, err = s.Buy(t.Context(), p)
		checkouttest.WantFault(t, err, fault.PaymentUnclaimed) // as for a key: it is public, and proves nobody
		s.Chain.Own(account.Address, owner)
		p.Payment = account.Pay(t, s.Challenge(t, checkouttest.Purchase(p.Key)))
		if sold := s.MustBuy(t, p); !sold.ProvenCaller || s.Spent(account) != price {
			t.Errorf("proven %v, paid %d", sold.ProvenCaller, s.Spent(account))
		}
	})
}

// TestForgedRepeatLearnsNothing: an authorization is public once it is settled, and whoever repeats it without what its
// payer signed is told what is told of any payment that its payer did not sign. The payer may be an account with code
// or without.
func TestForgedRepeatLearnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true})
		account, _ := s.NewSmartAccount(t)
		for _, payer := range []checkouttest.Buyer{account, s.NewBuyer(t)} {
			p := s.PaidCard(t, payer, "k")
			s.MustBuy(t, p)
			pay, err := x402.DecodeAnyPayment(p.Payment)
			if err != nil {
				t.Fatal(err)
			}
			later := pay
			later.Authorization.ValidBefore++
			long, short := pay, pay
			long.Signature = x402.Signature(strings.Repeat("\x11", 320))
			short.Signature = x402.Signature(strings.Repeat("\x11", 64) + "\x1b")
			for name, forged := range map[string]x402.Payment{"changed": later, "long": long, "short": short} {
				for _, key := range []string{p.Key, "another"} {
					q := p
					q.Key = key
					if q.Payment, err = x402.EncodePayment(forged); err != nil {
						t.Fatal(err)
					}
					_, err := s.Buy(t.Context(), q)
					if _, asked := errors.AsType[*checkout.Challenge](err); asked {
						continue
					}
					checkouttest.WantFault(t, err, fault.PayerKindNotAccepted)
					if payer.Address == account.Address {
						t.Errorf("%s, for %q: %v", name, key, err)
					}
				}
			}
		}
	})
}
