package checkout_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/x402"
)

type kept = memory.Orders

// unanswered is a store of orders that commits claims and never says so. Once it has one, reading may fail, too.
type unanswered struct {
	kept
	claimed, down bool
}

var errConnection = errors.New("the connection is lost")

// Claim implements checkout.Store.
func (u *unanswered) Claim(ctx context.Context, req checkout.ClaimRequest) (checkout.ClaimResult, error) {
	if _, err := u.kept.Claim(ctx, req); err != nil {
		return checkout.ClaimResult{}, err
	}
	u.claimed = true
	return checkout.ClaimResult{}, errConnection
}

// FindByKey implements checkout.Store.
func (u *unanswered) FindByKey(
	ctx context.Context, kind order.Kind, owner x402.Address, key string,
) (order.Order, error) {
	if u.claimed && u.down {
		return order.Order{}, errConnection
	}
	return u.kept.FindByKey(ctx, kind, owner, key)
}

// TestClaimWithoutAnAnswerIsLookedUp: the buyer gets the goods at once when the claim turns out to be committed, and is
// told to repeat the request when that cannot be read.
func TestClaimWithoutAnAnswerIsLookedUp(t *testing.T) {
	for name, down := range map[string]bool{"and the store answers": false, "and the store is down": true} {
		checkouttest.Run(t, name, func(t *testing.T) {
			disk := memory.New(nil)
			in := checkouttest.InMemory(disk)
			in.Orders = &unanswered{kept: disk.Orders(), down: down}
			s := checkouttest.Open(t, checkouttest.Options{Store: in})
			b := s.NewBuyer(t)
			sold, err := s.Buy(t.Context(), s.PaidCard(t, b, "k"))
			if down {
				f := checkouttest.WantFault(t, err, fault.SettlementUnknown)
				if f.SafeToPayAgain {
					t.Errorf("told to pay again: %v", f)
				}
				return
			}
			if err != nil || sold.Payment.Receipt == nil || !sold.Replayed || s.Spent(b) != sold.Order.Price.USDC() {
				t.Errorf("sold %+v, spent %s, %v", sold, s.Spent(b), err)
			}
			synctest.Wait()
		})
	}
}
