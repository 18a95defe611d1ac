package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// evidence are the transfers of transactions, by hash.
type evidence map[x402.Hash]payment.Receipt

// Prove implements admin.Evidence.
func (e evidence) Prove(_ context.Context, _ x402.Authorization, transaction x402.Hash) (payment.Verdict, error) {
	r, shown := e[transaction]
	if !shown {
		return payment.Verdict{}, nil
	}
	return payment.Verdict{State: payment.Settled, Receipt: &r}, nil
}

// TestNamedTransactionIsBelievedOnlyAsTheChainShowsIt: an operator names transactions for a payment whose verdict is
// unknown.
func TestNamedTransactionIsBelievedOnlyAsTheChainShowsIt(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true, Dead: true, Wait: 50 * time.Millisecond})
	b := s.NewBuyer(t)
	_, err := s.Buy(t.Context(), s.PaidCard(t, b, "k"))
	id := order.ID(checkouttest.WantFault(t, err, fault.SettlementUnknown).OrderID)
	right, wrong := x402.Hash{1}, x402.Hash{2}
	s.Admin.Evidence = evidence{right: {Transaction: right, Block: 7, BlockHash: x402.Hash{3}, LogIndex: 4,
		SettledAt: time.Now().UTC()}}
	act := order.OperatorContext{Operator: "ada", Key: "key", Reason: "the logs are gone"}
	prove := func(id order.ID, transaction x402.Hash, act order.OperatorContext) (admin.ReviewItem, error) {
		return s.Admin.Prove(t.Context(), id, transaction, act)
	}
	_, err = prove(id, wrong, act)
	checkouttest.WantFault(t, err, fault.TransferUnproven)
	if n := s.Moves(t, id, order.Settled); n != 0 {
		t.Fatal("a transaction that proves nothing settled the order")
	}
	if err := faultpoint.Arm("prove.before_commit:error"); err != nil { // once
		t.Fatal(err)
	}
	if _, err = prove(id, right, act); err == nil || s.Moves(t, id, order.Settled) != 0 {
		t.Fatalf("%v, and the order is settled, though its transaction failed", err)
	}
	for range 2 { // the same key does it once
		q, err := prove(id, right, act)
		if err != nil || q.Order.Status != order.Settled || s.Moves(t, id, order.Settled) != 1 {
			t.Fatalf("%+v, %v, want settled once", q, err)
		}
	}
	_, err = prove(id, wrong, act)
	checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
	_, err = prove(id, right, order.OperatorContext{Operator: "ada", Key: "another", Reason: "again"})
	checkouttest.WantFault(t, err, fault.OrderNotPayable)
	_, err = prove("ord_none", right, order.OperatorContext{Operator: "ada", Key: "third", Reason: "none"})
	checkouttest.WantFault(t, err, fault.OrderNotFound)
	s.Run(t) // the job goes on from there
	s.Reaches(t, id, order.Fulfilled)
	history, err := s.Admin.Inspect(t.Context(), id, order.OperatorContext{Operator: "ada"})
	if err != nil || len(history.Payments) != 1 || history.Payments[0].Receipt == nil ||
		history.Payments[0].Receipt.Transaction != right {
		t.Errorf("payments %+v, %v", history.Payments, err)
	}
	if e := history.Timeline[1]; e.To != order.Settled || e.Actor != "operator:ada" ||
		e.Evidence["transaction"] != right.String() {
		t.Errorf("the move %+v", e)
	}
}
