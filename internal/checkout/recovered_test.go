package checkout_test

import (
	"context"
	"testing"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/x402"
)

// recovering is a store whose orders are lost at first, and recreated, without their keys, while a request is answered.
type recovering struct {
	kept
	lost  bool
	looks int
}

// FindByKey implements checkout.Store.
func (r *recovering) FindByKey(
	ctx context.Context, kind order.Kind, owner x402.Address, key string,
) (order.Order, error) {
	if r.lost {
		return order.Order{}, order.ErrNotFound
	}
	return r.kept.FindByKey(ctx, kind, owner, key)
}

// Rebind implements checkout.RecoveredStore.
func (r *recovering) Rebind(ctx context.Context, b checkout.Rebinding) (order.Order, error) {
	if r.looks++; r.looks == 1 {
		return order.Order{}, order.ErrNotFound
	}
	r.lost = false
	return r.kept.FindByKey(ctx, b.Kind, b.Owner, b.Key)
}

// TestOrderThatIsRecoveredMeanwhileIsAnswered: the order of a repeated request is recreated after it was looked for.
// Its buyer gets it, and is not told that the payment pays for something else.
func TestOrderThatIsRecoveredMeanwhileIsAnswered(t *testing.T) {
	checkouttest.Run(t, "", func(t *testing.T) {
		disk := memory.New(nil)
		store := &recovering{kept: disk.Orders()}
		in := checkouttest.InMemory(disk)
		in.Orders = store
		s := checkouttest.Open(t, checkouttest.Options{Store: in})
		request := s.PaidCard(t, s.NewBuyer(t), "k")
		sold, err := s.Buy(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		store.lost, store.looks = true, 0
		again, err := s.Buy(t.Context(), request)
		if err != nil || again.Order.ID != sold.Order.ID || !again.Replayed {
			t.Errorf("got %+v, %v, want order %s again", again, err, sold.Order.ID)
		}
	})
}
