package checkout_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// TestMoneyOfAWalletPaysForOnePurchase: a wallet with 250 sends two top-ups of 250 at once. One is claimed; of the
// other nothing is stored, and it can be repeated once the first is decided.
func TestMoneyOfAWalletPaysForOnePurchase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gross, funds = 25_000, 250_000_000
		s := checkouttest.Open(t, checkouttest.Options{Wait: 300 * time.Millisecond})
		b := s.NewBuyer(t)
		checkouttest.Until(t, "the wallet's card is paid", func() bool {
			sold, err := s.Buy(t.Context(), s.PaidCard(t, b, "card"))
			if err == nil {
				s.Reaches(t, sold.Order.ID, order.Fulfilled)
			}
			return err == nil
		})
		c, err := s.Cards.Ensure(t.Context(), b.Address)
		if err != nil {
			t.Fatal(err)
		}
		s.FeeJob(t, c)
		if n := s.Chain.Calls().Funds; n != 0 {
			t.Errorf("the balance of a payer without undecided payments was read %d times", n)
		}
		s.Chain.Spend(b.Address)
		s.Chain.Fund(b.Address, funds)
		s.Chain.StallAll()
		topups, errs := make([]checkout.Purchase, 2), make([]error, 2)
		var all sync.WaitGroup
		for i := range topups {
			topups[i] = s.Paid(t, b, checkouttest.TopUp(fmt.Sprint("t", i), gross))
			all.Go(func() { _, errs[i] = s.Buy(t.Context(), topups[i]) })
		}
		all.Wait()
		first, second := 0, 1
		if fault.Of(errs[0]) != fault.SettlementUnknown {
			first, second = 1, 0
		}
		checkouttest.WantFault(t, errs[first], fault.SettlementUnknown)
		f := checkouttest.WantFault(t, errs[second], fault.PaymentsUndecided)
		if f.NextAction != fault.RetrySameRequest || f.RetryAfter <= 0 || f.SafeToPayAgain {
			t.Errorf("told %+v", f)
		}
		if _, err := s.Store.Orders.FindByKey(t.Context(), topups[second].Kind, b.Address,
			topups[second].Key); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("the other was stored: %v", err)
		}
		held, err := s.Store.Cards.Reserved(t.Context(), "float/card", time.Now().Add(time.Minute))
		if err != nil || held != gross*98/100 {
			t.Errorf("%d held, %v", held, err)
		}
		s.Chain.Release()
		checkouttest.Until(t, "the first is paid", func() bool {
			_, err := s.Buy(t.Context(), topups[first])
			return err == nil
		})
		_, err = s.Buy(t.Context(), topups[second])
		checkouttest.WantFault(t, err, fault.PaymentRejected)
		s.Chain.Fund(b.Address, funds)
		checkouttest.Until(t, "the same request pays once the money is there", func() bool {
			_, err := s.Buy(t.Context(), topups[second])
			return err == nil
		})
		if s.Chain.Balance(b.Address) != 0 {
			t.Errorf("%s left", s.Chain.Balance(b.Address))
		}
	})
}
