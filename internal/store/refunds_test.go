package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

var ann = order.OperatorContext{Operator: "ann", Key: "k", Reason: "because"}

// decided is an order after the decision of an operator.
func decided(p checkout.ClaimRequest, to order.Status, act order.OperatorContext) order.Move {
	m := move(p, order.OperatorReview, to)
	m.Actor, m.Reason = "operator:"+act.Operator, act.Reason
	return m
}

func TestDecisionIsStoredWithItsAuditRowOrNotAtAll(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning, order.OperatorReview)
	carrier := func() job.Row {
		t.Helper()
		row, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
		if err != nil || !found {
			t.Fatalf("job: %v", err)
		}
		return row
	}
	if err := s.Jobs().Mark(t.Context(), fence, "open"); err != nil {
		t.Fatal(err)
	}
	decisions := make([]error, 8)
	var all sync.WaitGroup
	for i := range decisions {
		all.Go(func() { decisions[i] = s.Admin().Decide(t.Context(), decided(p, order.Provisioning, ann), ann) })
	}
	all.Wait()
	for _, err := range decisions {
		if err != nil {
			t.Errorf("a repeat of the decision: %v", err)
		}
	}
	// The job is due again, under no lease, and still has what the issuer may have been sent.
	if row := carrier(); row.Status != job.Queued || row.LeaseOwner != "" || row.Step != "open" || row.Used() != 0 {
		t.Errorf("job %+v", row)
	}
	// The worker that was closing it can no longer write.
	if err := errOf(s.Orders().Move(t.Context(), fence,
		move(p, order.Provisioning, order.Fulfilled))); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("moved without the lease: %v", err)
	}
	for name, act := range map[string]order.OperatorContext{
		"another reason":    {Operator: "ann", Key: "k", Reason: "other"},
		"nothing to decide": {Operator: "ann", Key: "k2", Reason: "because"},
	} {
		err := s.Admin().Decide(t.Context(), decided(p, order.Provisioning, act), act)
		if !errors.Is(err, order.KeyReused()) && !errors.Is(err, admin.ErrNotInReview) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, ann), ann); !errors.Is(err, order.KeyReused()) {
		t.Errorf("another decision with the key: %v", err)
	}
	history, err := s.Admin().History(t.Context(), p.Order.ID, order.OperatorContext{Operator: "ann"})
	if err != nil || len(history.Timeline) != 5 || history.Timeline[4].Actor != "operator:ann" ||
		history.Timeline[4].Reason != "because" {
		t.Errorf("timeline %+v, %v", history.Timeline, err)
	}
	if len(history.Payments) != 1 || history.Refund != nil || len(history.Jobs) != 2 {
		t.Errorf("history %+v", history)
	}
}

func TestNothingIsDecidedWhileARefundMayMoveMoney(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning, order.RefundPending)
	r := signedRefund(p, 1000)
	if err := s.Orders().SignRefund(t.Context(), fence, r, nil); err != nil {
		t.Fatal(err)
	}
	// Past the one way out of refund_pending that a worker has.
	if err := errOf(s.Orders().Move(t.Context(), fence, move(p, order.RefundPending, order.OperatorReview))); err != nil {
		t.Fatal(err)
	}
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, ann), ann); err == nil {
		t.Error("fulfilled while the refund is out")
	}
	other, fence := paidOrder(t, s, "k2", order.Provisioning, order.RefundPending)
	first := r.Authorization
	r = signedRefund(other, 1000)
	if err := s.Orders().SignRefund(t.Context(), fence, r, nil); err != nil {
		t.Fatal(err)
	}
	due, err := s.Orders().SignedRefunds(t.Context())
	if want := first.Value + r.Authorization.Value; err != nil || len(due) != 1 || due[first.From] != want {
		t.Errorf("signed refunds of %v, want %s: %v", due, want, err)
	}
	if err := errOf(s.Orders().MarkRefundDead(t.Context(), fence, r,
		move(other, order.RefundPending, order.OperatorReview))); err != nil {
		t.Fatalf("give up: %v", err)
	}
	if due, err = s.Orders().SignedRefunds(t.Context()); err != nil || due[first.From] != first.Value {
		t.Errorf("signed refunds of %v once one is dead: %v", due, err)
	}
	if err := s.Admin().Decide(t.Context(), decided(other, order.Fulfilled, ann), ann); err != nil {
		t.Errorf("decide: %v", err)
	}
}

func TestSwitchIsSetOncePerKeyAndSeenByAll(t *testing.T) {
	url := storetest.URL(t)
	s, other := storetest.Open(t, url), storetest.Open(t, url)
	all, err := other.Admin().Switches(t.Context())
	want := []availability.Switch{
		{Product: card.Kind}, {Product: topup.Kind}, {Product: esim.Kind}, {Product: esim.TopupKind},
	}
	if err != nil || !cmp.Equal(all, want) {
		t.Fatalf("switches %+v, %v", all, err)
	}
	for range 3 {
		set, err := s.Admin().SetSwitch(t.Context(), topup.Kind, true, ann)
		if err != nil || !set.Paused || set.Operator != "ann" || set.Reason != "because" {
			t.Fatalf("set %+v, %v", set, err)
		}
	}
	if _, err := s.Admin().SetSwitch(t.Context(), topup.Kind, false, ann); !errors.Is(err, order.KeyReused()) {
		t.Errorf("another change with the key: %v", err)
	}
	if all, err = other.Admin().Switches(t.Context()); err != nil || all[0].Paused || !all[1].Paused || all[2].Paused {
		t.Errorf("switches %+v, %v", all, err)
	}
	var changes sync.WaitGroup
	for i := range 8 {
		changes.Go(func() {
			act := order.OperatorContext{Operator: fmt.Sprint("op", i), Key: "k", Reason: "r"}
			if _, err := s.Admin().SetSwitch(t.Context(), esim.Kind, i%2 == 0, act); err != nil {
				t.Error(err)
			}
		})
	}
	changes.Wait()
}
