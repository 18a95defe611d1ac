package settlement_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// signed waits until an order's refund is signed.
func signed(t *testing.T, s *checkouttest.Shop, id order.ID) payment.Refund {
	t.Helper()
	checkouttest.Until(t, "the refund is signed", func() bool {
		found, err := s.Store.Orders.Refunds(t.Context(), id)
		return err == nil && len(found) == 1
	})
	return refund(t, s, id)
}

// refund reads an order's refund.
func refund(t *testing.T, s *checkouttest.Shop, id order.ID) payment.Refund {
	t.Helper()
	found, err := s.Store.Orders.Refunds(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := found[id]
	if !ok {
		t.Fatalf("%s has no refund", id)
	}
	return r
}

func TestRefusedCardIsRefundedOnceAndFreesItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{}, 100_000_000)
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k~002")
		sold := s.MustBuy(t, p)
		s.Reaches(t, sold.Order.ID, order.Refunded)
		if s.Spent(b) != 0 || s.Chain.Balance(bank) != 75_000_000 {
			t.Errorf("spent %d, the treasury holds %d", s.Spent(b), s.Chain.Balance(bank))
		}
		r := refund(t, s, sold.Order.ID)
		of := payment.RefundNonce(sold.Payment.Authorization)
		if a := r.Authorization; r.Status != payment.RefundPaid || a.Nonce != of || a.To != b.Address || a.Value != price {
			t.Errorf("refund %+v", r)
		}
		again := s.MustBuy(t, p)
		if !again.Replayed || again.Refund == nil || again.Refund.Receipt == nil ||
			again.Refund.Receipt.Transaction != r.Receipt.Transaction {
			t.Errorf("again %+v", again)
		}
		for _, resource := range []string{"float/card", "card/" + b.Address.Lower()} {
			if held, err := s.Store.Cards.Reserved(t.Context(), resource, time.Now().Add(time.Minute)); err != nil || held != 0 {
				t.Errorf("%s: %d held, %v", resource, held, err)
			}
		}
		s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "another")).Order.ID, order.Fulfilled)
		if n := s.Chain.Calls().Transfers; n != 3 {
			t.Errorf("%d transfers: two payments and a refund were due", n)
		}
	})
}

// TestNothingIsRefundedToWhoIsNotServed refuses the card of a payer whom nobody can screen at first, and that of one
// who is listed since the payment.
func TestNothingIsRefundedToWhoIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listed x402.Address
		asked := 0
		s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{
			RefundsScreen: func(_ context.Context, wallet x402.Address) error {
				if asked++; asked < 3 {
					return fault.New(fault.DependencyDown, "no answer")
				}
				if wallet == listed {
					return fault.New(fault.PayerNotAccepted, "not accepted")
				}
				return nil
			},
		}, 100_000_000)
		b := s.NewBuyer(t)
		s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "k~002")).Order.ID, order.Refunded)
		if s.Spent(b) != 0 || s.Chain.Balance(bank) != 75_000_000 || asked != 4 {
			t.Errorf("spent %d, the treasury holds %d, asked %d times", s.Spent(b), s.Chain.Balance(bank), asked)
		}
		c := s.NewBuyer(t)
		listed = c.Address
		s.Reaches(t, s.MustBuy(t, s.PaidCard(t, c, "k~002")).Order.ID, order.OperatorReview)
		if s.Spent(c) != price || s.Chain.Balance(bank) != 75_000_000 {
			t.Errorf("spent %d, the treasury holds %d", s.Spent(c), s.Chain.Balance(bank))
		}
	})
}

// TestSignedRefundIsNotSentToWhoIsListedSince lets the first transaction of a refund get lost.
func TestSignedRefundIsNotSentToWhoIsListedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listed atomic.Bool
		s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{
			RefundsScreen: func(context.Context, x402.Address) error {
				if listed.Load() {
					return fault.New(fault.PayerNotAccepted, "not accepted")
				}
				return nil
			},
		}, 100_000_000)
		b := s.NewBuyer(t)
		s.Chain.Next(0, paymenttest.Drop)
		id := s.MustBuy(t, s.PaidCard(t, b, "k~002")).Order.ID
		signed(t, s, id)
		listed.Store(true)
		time.Sleep(checkouttest.RefundWindow)
		s.Reaches(t, id, order.OperatorReview)
		if s.Spent(b) != price || s.Chain.Balance(bank) != 100_000_000 || refund(t, s, id).Status != payment.RefundDead {
			t.Errorf("spent %d, the treasury holds %d, refund %+v", s.Spent(b), s.Chain.Balance(bank), refund(t, s, id))
		}
	})
}

func TestRefusedTopUpIsRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := checkouttest.OpenWithTreasury(t, checkouttest.Options{}, 100_000_000)
		b := s.NewBuyer(t)
		s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID, order.Fulfilled)
		c, err := s.Cards.Ensure(t.Context(), b.Address)
		if err != nil {
			t.Fatal(err)
		}
		s.FeeJob(t, c)
		s.Issuer.Fault(cardtest.Move, fulfilmenttest.Rejected)
		p := checkouttest.TopUp("t", 5000)
		p = s.Paid(t, b, p)
		s.Reaches(t, s.MustBuy(t, p).Order.ID, order.Refunded)
		if s.Spent(b) != price {
			t.Errorf("spent %d, want the card's price alone", s.Spent(b))
		}
		if bal, err := s.Cards.Balance(t.Context(), c.ID, b.Address); err != nil || bal.Available != card.Remaining {
			t.Errorf("balance %v, %v", bal.Available, err)
		}
	})
}

func TestChainFaultsLeaveOneRefund(t *testing.T) {
	for name, f := range map[string]paymenttest.Fault{
		"answer lost": paymenttest.Lose, "refused": paymenttest.Refuse, "dropped": paymenttest.Drop,
		"reverted": paymenttest.Revert, "sent by a third party": paymenttest.Preempt,
	} {
		checkouttest.Run(t, name, func(t *testing.T) {
			s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{}, 100_000_000)
			b := s.NewBuyer(t)
			p := s.PaidCard(t, b, "k~002")
			// The first submission is the payment's.
			s.Chain.Next(0, f)
			s.Reaches(t, s.MustBuy(t, p).Order.ID, order.Refunded)
			if s.Spent(b) != 0 || s.Chain.Balance(bank) != 75_000_000 || s.Chain.Calls().Transfers != 2 {
				t.Errorf("spent %d, the treasury holds %d after %d transfers", s.Spent(b), s.Chain.Balance(bank),
					s.Chain.Calls().Transfers)
			}
		})
	}
}

func TestRefundWaitsForTheTreasuryAndIsSignedAgainWithItsNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{}, 0)
		b := s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k~002"))
		first := signed(t, s, sold.Order.ID)
		s.Offset.Store(int64(checkouttest.RefundWindow + time.Minute))
		checkouttest.Until(t, "the refund is signed again", func() bool {
			return refund(t, s, sold.Order.ID).Authorization.ValidBefore > first.Authorization.ValidBefore
		})
		if again := refund(t, s, sold.Order.ID); again.Authorization.Nonce != first.Authorization.Nonce ||
			again.ID != first.ID {
			t.Errorf("signed again as %+v", again)
		}
		s.Chain.Fund(bank, price)
		s.Reaches(t, sold.Order.ID, order.Refunded)
		if s.Spent(b) != 0 || s.Chain.Balance(bank) != 0 {
			t.Errorf("spent %d, the treasury holds %d", s.Spent(b), s.Chain.Balance(bank))
		}
	})
}

// TestRefundOutlastsTheChain: an outage of the nodes for hours is nothing that an operator decides.
func TestRefundOutlastsTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{}, 0)
		b := s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k~002"))
		signed(t, s, sold.Order.ID)
		s.Chain.Fund(bank, price)
		s.Chain.Down(true)
		time.Sleep(12 * time.Hour)
		s.Chain.Down(false)
		s.Reaches(t, sold.Order.ID, order.Refunded)
		if s.Spent(b) != 0 || s.Chain.Balance(bank) != 0 {
			t.Errorf("spent %d, the treasury holds %d", s.Spent(b), s.Chain.Balance(bank))
		}
	})
}

func TestLateRefundGoesToAnOperatorOnceItIsDead(t *testing.T) {
	s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{Postgres: true}, 0)
	b := s.NewBuyer(t)
	sold := s.MustBuy(t, s.PaidCard(t, b, "k~002"))
	signed(t, s, sold.Order.ID)
	s.Offset.Store(int64(checkouttest.RefundDeadline + time.Minute))
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	if r := refund(t, s, sold.Order.ID); r.Status != payment.RefundDead {
		t.Errorf("an operator may decide, and the refund is %s", r.Status)
	}
	s.Chain.Fund(bank, price)
	s.Decide(t, sold.Order.ID, "refund", "topped up the treasury")
	s.Reaches(t, sold.Order.ID, order.Refunded)
	if s.Spent(b) != 0 || s.Chain.Calls().Transfers != 2 {
		t.Errorf("spent %d, %d transfers", s.Spent(b), s.Chain.Calls().Transfers)
	}
}

func TestCancelledRefundGoesToAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, bank := checkouttest.OpenWithTreasury(t, checkouttest.Options{}, 100_000_000)
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k~002")
		s.Chain.Next(0, paymenttest.Cancel)
		sold := s.MustBuy(t, p)
		s.Reaches(t, sold.Order.ID, order.OperatorReview)
		if r := refund(t, s, sold.Order.ID); r.Status != payment.RefundDead || s.Chain.Balance(bank) != 100_000_000 {
			t.Errorf("refund %+v", r)
		}
	})
}

func TestRefundWithoutASettlerGoesToAnOperatorUnsigned(t *testing.T) {
	s, _ := checkouttest.OpenWithTreasury(t, checkouttest.Options{Postgres: true, RefundsUnsent: true}, 100_000_000)
	b := s.NewBuyer(t)
	sold := s.MustBuy(t, s.PaidCard(t, b, "k~002"))
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	if found, err := s.Store.Orders.Refunds(t.Context(), sold.Order.ID); err != nil || len(found) != 0 {
		t.Errorf("refunds %v, %v", found, err)
	}
	history, err := s.Admin.Inspect(t.Context(), sold.Order.ID, order.OperatorContext{Operator: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	last := history.Timeline[len(history.Timeline)-1]
	if last.Evidence["refusal"] != card.RefusedHolder || last.Evidence["not_refunded"] == "" {
		t.Errorf("evidence %v", last.Evidence)
	}
	_, err = s.Admin.Decide(t.Context(), sold.Order.ID, "refund",
		order.OperatorContext{Operator: "ada", Key: "1", Reason: "please"})
	checkouttest.WantFault(t, err, fault.RefundUnavailable)
}

func TestReorganisedRefundIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		treasury := authtest.NewWallet(t, "treasury")
		bank := treasury.Address()
		chain := paymenttest.NewChain(checkouttest.Domain(), time.Now)
		chain.Fund(bank, 100_000_000)
		var undone atomic.Bool
		s := checkouttest.Open(t,
			checkouttest.Options{Treasury: treasury.Key(), Chain: chain, Final: undoing{chain, bank, &undone}})
		b := s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k~002"))
		s.Reaches(t, sold.Order.ID, order.Refunded)
		checkouttest.Until(t, "the refund is there again", func() bool {
			return undone.Load() && s.Spent(b) == 0 && chain.Balance(bank) == 75_000_000 && chain.Calls().Transfers == 3
		})
	})
}

// undoing is a final block in which the first refund is reorganised away.
type undoing struct {
	*paymenttest.Chain
	bank   x402.Address
	undone *atomic.Bool
}

func (u undoing) Verdict(ctx context.Context, a x402.Authorization, since time.Time) (payment.Verdict, error) {
	if a.From == u.bank && u.undone.CompareAndSwap(false, true) {
		u.Undo(a.From, a.Nonce)
		return payment.Verdict{State: payment.Unused}, nil
	}
	return u.Chain.Verdict(ctx, a, since)
}

func TestUndonePaymentIsNotRefunded(t *testing.T) {
	s, bank := checkouttest.OpenWithTreasury(t,
		checkouttest.Options{Postgres: true, Traits: fulfilment.Traits{VisibilityDelay: time.Millisecond}}, 100_000_000)
	b := s.NewBuyer(t)
	p := s.PaidCard(t, b, "k")
	s.Issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
	sold := s.MustBuy(t, p)
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	a := sold.Payment.Authorization
	s.Chain.Undo(a.From, a.Nonce)
	s.Chain.Cancel(a.From, a.Nonce)
	s.Decide(t, sold.Order.ID, "refund", "as the buyer asked")
	checkouttest.Until(t, "the order is in review again",
		func() bool { return s.Moves(t, sold.Order.ID, order.OperatorReview) == 2 })
	if s.Chain.Balance(bank) != 100_000_000 {
		t.Errorf("the treasury holds %d", s.Chain.Balance(bank))
	}
	if found, err := s.Store.Orders.Refunds(t.Context(), sold.Order.ID); err != nil || len(found) != 0 {
		t.Errorf("refunds %v, %v", found, err)
	}
}
