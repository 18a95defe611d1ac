package esimtest

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// wantUnknown accepts every error that leaves the outcome open.
func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("the call succeeded; want an unknown outcome")
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		t.Errorf("the outcome is unknown and not refused: %v", no)
	}
	if errors.Is(err, fulfilment.ErrNoRef) || errors.Is(err, esim.ErrNoPlan) {
		t.Errorf("the outcome is unknown and not absent: %v", err)
	}
}

func (h Harness) unknownOutcomesAreReadBack(t *testing.T) {
	for mode, happened := range map[Mode]bool{TimeoutBefore: false, ErrorBefore: false, TimeoutAfter: true, ErrorAfter: true} {
		t.Run(string(mode), func(t *testing.T) {
			r := request(h.cheapest(t))
			h.fault(t, Order, mode)
			_, err := h.Supplier.Order(background(t), r)
			wantUnknown(t, err)
			_, err = h.Supplier.Ordered(background(t), r.Ref)
			if happened && err != nil {
				t.Errorf("what happened is not found: %v", err)
			}
			if !happened && !errors.Is(err, fulfilment.ErrNoRef) {
				t.Errorf("what did not happen reads as %v, want ErrNoRef", err)
			}
			h.wantExecuted(t, r.Ref, map[bool]int{true: 1}[happened])
		})
	}
}

func (h Harness) unreadableAnswersAreNotRefusals(t *testing.T) {
	for _, mode := range []Mode{Malformed, Truncated, Huge, RateLimited, Unauthorized, WrongAmount, Inexact, WrongCurrency, WrongOwner} {
		t.Run(string(mode), func(t *testing.T) {
			r := request(h.cheapest(t))
			h.fault(t, Order, mode)
			_, err := h.Supplier.Order(background(t), r)
			wantUnknown(t, err)
		})
	}
}

func (h Harness) definiteNoIsARefusal(t *testing.T) {
	r := request(h.cheapest(t))
	h.fault(t, Order, Refused)
	_, err := h.Supplier.Order(background(t), r)
	if no := refusal(err, nil); no == nil || no.Code == "" {
		t.Errorf("Order = %v, want a refusal with its code", err)
	}
	h.wantExecuted(t, r.Ref, 0)
}

// ready orders a profile and sees it through.
func (h Harness) ready(t *testing.T) esim.Purchase {
	t.Helper()
	r := request(h.cheapest(t))
	if _, err := h.Supplier.Order(background(t), r); err != nil {
		t.Fatalf("order: %v", err)
	}
	h.Settle()
	got, err := h.Supplier.Ordered(background(t), r.Ref)
	if err != nil || got.State != esim.PurchaseReady {
		t.Fatalf("reads back as %+v, %v", got, err)
	}
	return got
}

func (h Harness) unfamiliarStateIsPending(t *testing.T) {
	p := h.ready(t)
	h.fault(t, Ordered, UnknownState)
	got, err := h.Supplier.Ordered(background(t), p.Ref)
	if err != nil || got.State != esim.PurchasePending || got.ActivationData != nil {
		t.Errorf("an unfamiliar state is %s, %v; want pending", got.State, err)
	}
}

func (h Harness) failedReadsAreNotErrNoRef(t *testing.T) {
	p := h.ready(t)
	for _, mode := range []Mode{ErrorBefore, TimeoutBefore, Malformed, Truncated, Huge, RateLimited, Unauthorized, WrongOwner} {
		t.Run(string(mode), func(t *testing.T) {
			h.fault(t, Ordered, mode)
			_, err := h.Supplier.Ordered(background(t), p.Ref)
			wantUnknown(t, err)
		})
	}
	t.Run(string(Duplicate), func(t *testing.T) {
		h.fault(t, Ordered, Duplicate)
		if got, err := h.Supplier.Ordered(background(t), p.Ref); err != nil || got.ID != p.ID || got.State != p.State {
			t.Errorf("the same report twice reads as %+v, %v", got, err)
		}
	})
}
