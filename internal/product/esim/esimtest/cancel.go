package esimtest

import (
	"context"
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
)

func (h Harness) canceller(t *testing.T) esim.Canceller {
	t.Helper()
	c, ok := h.Supplier.(esim.Canceller)
	if !ok {
		t.Fatal("the supplier declares what it does not have")
	}
	return c
}

// float is our prepaid balance at the supplier.
func (h Harness) float(t *testing.T) money.USDC {
	t.Helper()
	stock, err := h.Supplier.Check(fulfilmenttest.Context(t), h.cheapest(t).Code)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return stock.Float
}

func (h Harness) unusedProfileIsGivenBackOnce(t *testing.T) {
	ctx, c := fulfilmenttest.Context(t), h.canceller(t)
	r, p := h.ordering().Finished(t, h.Handles)
	before := h.float(t)
	for range 3 {
		credit, err := c.Cancel(ctx, held(p))
		if err != nil || credit <= 0 || credit > p.Cost {
			t.Fatalf("credited %s of %s, %v", credit.Dollars(), p.Cost.Dollars(), err)
		}
		if got := h.float(t) - before; got != credit {
			t.Errorf("the float rose by %s, the supplier says %s", got.Dollars(), credit.Dollars())
		}
	}
	if state, err := h.controls(t).State(ctx, held(p)); err != nil || state.Status != esim.ProfileCancelled {
		t.Errorf("then the profile is %+v, %v", state, err)
	}
	if again, err := h.Supplier.Ordered(ctx, r.Ref); err != nil || again.State == esim.PurchaseReady {
		t.Errorf("then the order is %+v, %v", again.State, err)
	}
}

func (h Harness) installedProfileIsNotTakenBack(t *testing.T) {
	ctx, c := fulfilmenttest.Context(t), h.canceller(t)
	_, p := h.ordering().Finished(t, h.Handles)
	h.Use(p, 0)
	before := h.float(t)
	credit, err := c.Cancel(ctx, held(p))
	no, refused := errors.AsType[*fulfilment.Refusal](err)
	if !refused || no.Code != esim.RefusedInstalled || credit != 0 || h.float(t) != before {
		t.Errorf("Cancel = %s, %v; want %s", credit.Dollars(), err, esim.RefusedInstalled)
	}
	credit, err = c.Cancel(ctx, esim.Held{ID: "no-such-profile", Code: p.Code, Cost: p.Cost})
	if h.WantUnknown(t, err); credit != 0 {
		t.Errorf("credited %s for a profile that is not there", credit.Dollars())
	}
}

func (h Harness) lostCancellationIsUnknown(t *testing.T) {
	ctx, c := fulfilmenttest.Context(t), h.canceller(t)
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore, fulfilmenttest.TimeoutAfter,
		fulfilmenttest.Malformed, fulfilmenttest.Truncated, fulfilmenttest.RateLimited, fulfilmenttest.Unauthorized,
	} {
		t.Run(string(mode), func(t *testing.T) {
			_, p := h.ordering().Finished(t, h.Handles)
			before := h.float(t)
			h.Inject(t, Cancel, mode)
			credit, err := c.Cancel(ctx, held(p))
			if h.WantUnknown(t, err); credit != 0 {
				t.Errorf("credited %s by an unclear answer", credit.Dollars())
			}
			credit, err = c.Cancel(ctx, held(p))
			if err != nil || credit <= 0 || h.float(t)-before != credit {
				t.Errorf("asked again: %s, %v; the float rose by %s", credit.Dollars(), err, (h.float(t) - before).Dollars())
			}
		})
	}
}

var _ esim.Canceller = (*Supplier)(nil)

// Cancel implements esim.Canceller.
func (s *Supplier) Cancel(ctx context.Context, h esim.Held) (money.USDC, error) {
	s.Lock()
	defer s.Unlock()
	var credit money.USDC
	err := s.Play(ctx, Cancel, func() error {
		b := s.named(h.ID)
		switch {
		case b == nil:
			return errors.New("there is no such profile")
		case b.state.Status == esim.ProfileCancelled:
		case b.state.Status != "" && b.state.Status != esim.ProfileNotInstalled:
			return &fulfilment.Refusal{Code: esim.RefusedInstalled, Message: "a device has the profile"}
		default:
			b.state, b.State = esim.State{Status: esim.ProfileCancelled}, esim.PurchaseRejected
			b.Refusal = &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: "the order is cancelled"}
			b.ActivationData = nil
			s.float += b.Cost
		}
		credit = b.Cost
		return nil
	})
	if err != nil {
		return 0, err
	}
	return credit, nil
}
