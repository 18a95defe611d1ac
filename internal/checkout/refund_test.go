package checkout_test

import (
	"context"
	"crypto/ecdsa"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
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

const (
	refundWindow   = time.Hour
	refundDeadline = 24 * time.Hour
)

// treasury is a key that refunds are paid with.
func treasury(t *testing.T) (*ecdsa.PrivateKey, x402.Address) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, curve.AddressOf(key)
}

// openWithTreasury is a shop whose treasury holds an amount.
func openWithTreasury(t *testing.T, o options, holds int64) (*shop, x402.Address) {
	t.Helper()
	key, address := treasury(t)
	o.treasury = key
	s := open(t, o)
	s.chain.Fund(address, moneyOf(holds))
	return s, address
}

// signed waits until an order's refund is signed.
func (s *shop) signed(t *testing.T, id order.ID) payment.Refund {
	t.Helper()
	until(t, "the refund is signed", func() bool {
		found, err := s.store.Orders().Refunds(t.Context(), id)
		return err == nil && len(found) == 1
	})
	return s.refund(t, id)
}

// refund reads an order's refund.
func (s *shop) refund(t *testing.T, id order.ID) payment.Refund {
	t.Helper()
	found, err := s.store.Orders().Refunds(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := found[id]
	if !ok {
		t.Fatalf("%s has no refund", id)
	}
	return r
}

func TestARefusedCardIsPaidBackOnceAndAnotherCanBeBought(t *testing.T) {
	s, bank := openWithTreasury(t, options{}, 100_000_000)
	b := s.newBuyer(t)
	p := s.paid(t, b, "k~002")
	sold := s.mustBuy(t, p)
	s.reaches(t, sold.Order.ID, order.Refunded)
	if s.spent(b) != 0 || s.chain.Balance(bank) != 75_000_000 {
		t.Errorf("spent %d, the treasury holds %d", s.spent(b), s.chain.Balance(bank))
	}
	r := s.refund(t, sold.Order.ID)
	if a := r.Authorization; r.Status != payment.RefundPaid || a.Nonce != payment.RefundNonce(sold.Order.ID) ||
		a.To != b.address || a.Value != price {
		t.Errorf("refund %+v", r)
	}
	again := s.mustBuy(t, p)
	if !again.Replayed || again.Refund == nil || again.Refund.Receipt == nil ||
		again.Refund.Receipt.Transaction != r.Receipt.Transaction {
		t.Errorf("again %+v", again)
	}
	for _, resource := range []string{"float/card", "card/" + b.address.Lower()} {
		if held, err := s.store.Cards().Reserved(t.Context(), resource, time.Now()); err != nil || held != 0 {
			t.Errorf("%s: %d held, %v", resource, held, err)
		}
	}
	s.reaches(t, s.mustBuy(t, s.paid(t, b, "another")).Order.ID, order.Fulfilled)
	if n := s.chain.Calls().Transfers; n != 3 {
		t.Errorf("%d transfers: two payments and a refund were due", n)
	}
}

func TestARefusedTopUpIsPaidBack(t *testing.T) {
	s, _ := openWithTreasury(t, options{}, 100_000_000)
	b := s.newBuyer(t)
	s.reaches(t, s.mustBuy(t, s.paid(t, b, "k")).Order.ID, order.Fulfilled)
	c, err := s.cards.Ensure(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	s.feeJob(t, c)
	s.issuer.Fault(cardtest.Move, fulfilmenttest.Rejected)
	p := topUp("t", 5000)
	p.Payment = b.pay(t, s.challenge(t, p))
	s.reaches(t, s.mustBuy(t, p).Order.ID, order.Refunded)
	if s.spent(b) != price {
		t.Errorf("spent %d, want the card's price alone", s.spent(b))
	}
	if bal, err := s.cards.Balance(t.Context(), c.ID, b.address); err != nil || bal.Available != card.Remaining {
		t.Errorf("balance %v, %v", bal.Available, err)
	}
}

func TestARefundIsMadeOnceWhateverBecomesOfItsSending(t *testing.T) {
	for name, f := range map[string]paymenttest.Fault{
		"answer lost": paymenttest.Lose, "refused": paymenttest.Refuse, "dropped": paymenttest.Drop,
		"reverted": paymenttest.Revert, "sent by a third party": paymenttest.Preempt,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, bank := openWithTreasury(t, options{}, 100_000_000)
			b := s.newBuyer(t)
			p := s.paid(t, b, "k~002")
			// The first submission is the payment's.
			s.chain.Next(0, f)
			s.reaches(t, s.mustBuy(t, p).Order.ID, order.Refunded)
			if s.spent(b) != 0 || s.chain.Balance(bank) != 75_000_000 || s.chain.Calls().Transfers != 2 {
				t.Errorf("spent %d, the treasury holds %d after %d transfers", s.spent(b), s.chain.Balance(bank),
					s.chain.Calls().Transfers)
			}
		})
	}
}

func TestARefundWaitsForTheTreasuryAndIsSignedAgainWithItsNonce(t *testing.T) {
	s, bank := openWithTreasury(t, options{}, 0)
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k~002"))
	first := s.signed(t, sold.Order.ID)
	s.now.Store(int64(refundWindow + time.Minute))
	until(t, "the refund is signed again", func() bool {
		return s.refund(t, sold.Order.ID).Authorization.ValidBefore > first.Authorization.ValidBefore
	})
	if again := s.refund(t, sold.Order.ID); again.Authorization.Nonce != first.Authorization.Nonce ||
		again.ID != first.ID {
		t.Errorf("signed again as %+v", again)
	}
	s.chain.Fund(bank, price)
	s.reaches(t, sold.Order.ID, order.Refunded)
	if s.spent(b) != 0 || s.chain.Balance(bank) != 0 {
		t.Errorf("spent %d, the treasury holds %d", s.spent(b), s.chain.Balance(bank))
	}
}

func TestARefundThatTakesTooLongGoesToAnOperatorOnceItIsDead(t *testing.T) {
	s, bank := openWithTreasury(t, options{}, 0)
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k~002"))
	s.signed(t, sold.Order.ID)
	s.now.Store(int64(refundDeadline + time.Minute))
	s.reaches(t, sold.Order.ID, order.OperatorReview)
	if r := s.refund(t, sold.Order.ID); r.Status != payment.RefundDead {
		t.Errorf("an operator may decide, and the refund is %s", r.Status)
	}
	s.chain.Fund(bank, price)
	s.decide(t, sold.Order.ID, "refund", "topped up the treasury")
	s.reaches(t, sold.Order.ID, order.Refunded)
	if s.spent(b) != 0 || s.chain.Calls().Transfers != 2 {
		t.Errorf("spent %d, %d transfers", s.spent(b), s.chain.Calls().Transfers)
	}
}

func TestACancelledRefundGoesToAnOperator(t *testing.T) {
	s, bank := openWithTreasury(t, options{}, 100_000_000)
	b := s.newBuyer(t)
	p := s.paid(t, b, "k~002")
	s.chain.Next(0, paymenttest.Cancel)
	sold := s.mustBuy(t, p)
	s.reaches(t, sold.Order.ID, order.OperatorReview)
	if r := s.refund(t, sold.Order.ID); r.Status != payment.RefundDead || s.chain.Balance(bank) != 100_000_000 {
		t.Errorf("refund %+v", r)
	}
}

func TestARefundThatNobodySendsGoesToAnOperatorUnsigned(t *testing.T) {
	s, _ := openWithTreasury(t, options{unsent: true}, 100_000_000)
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k~002"))
	s.reaches(t, sold.Order.ID, order.OperatorReview)
	if found, err := s.store.Orders().Refunds(t.Context(), sold.Order.ID); err != nil || len(found) != 0 {
		t.Errorf("refunds %v, %v", found, err)
	}
	life, err := s.admin.Inspect(t.Context(), sold.Order.ID, order.Act{Operator: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	last := life.Timeline[len(life.Timeline)-1]
	if last.Evidence["refusal"] != card.RefusedHolder || last.Evidence["not_refunded"] == "" {
		t.Errorf("evidence %v", last.Evidence)
	}
	_, err = s.admin.Decide(t.Context(), sold.Order.ID, "refund", order.Act{Operator: "ada", Key: "1", Reason: "please"})
	wantFault(t, err, fault.RefundUnavailable)
}

func TestARefundThatAReorganisationUndidIsSentAgain(t *testing.T) {
	key, bank := treasury(t)
	chain := paymenttest.NewChain(domain(), time.Now)
	chain.Fund(bank, 100_000_000)
	var undone atomic.Bool
	s := open(t, options{treasury: key, chain: chain, verdict: undoing{chain, bank, &undone}})
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k~002"))
	s.reaches(t, sold.Order.ID, order.Refunded)
	until(t, "the refund is there again", func() bool {
		return undone.Load() && s.spent(b) == 0 && chain.Balance(bank) == 75_000_000 && chain.Calls().Transfers == 3
	})
}

// undoing is a final block that does not know the first refund it is asked about: it is reorganised away.
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

func TestAPaymentThatWasUndoneIsNotRefunded(t *testing.T) {
	s, bank := openWithTreasury(t, options{habits: fulfilment.Traits{VisibilityDelay: time.Millisecond}}, 100_000_000)
	b := s.newBuyer(t)
	p := s.paid(t, b, "k")
	s.issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
	sold := s.mustBuy(t, p)
	s.reaches(t, sold.Order.ID, order.OperatorReview)
	a := sold.Payment.Authorization
	s.chain.Undo(a.From, a.Nonce)
	s.chain.Cancel(a.From, a.Nonce)
	s.decide(t, sold.Order.ID, "refund", "as the buyer asked")
	until(t, "the order is in review again", func() bool { return s.moved(t, sold.Order.ID, order.OperatorReview) == 2 })
	if s.chain.Balance(bank) != 100_000_000 {
		t.Errorf("the treasury holds %d", s.chain.Balance(bank))
	}
	if found, err := s.store.Orders().Refunds(t.Context(), sold.Order.ID); err != nil || len(found) != 0 {
		t.Errorf("refunds %v, %v", found, err)
	}
}
