package checkout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// evidence is what transactions hold, by their hashes.
type evidence map[x402.Hash]payment.Receipt

// Prove implements checkout.Evidence.
func (e evidence) Prove(_ context.Context, _ x402.Authorization, transaction x402.Hash) (payment.Verdict, error) {
	r, shown := e[transaction]
	if !shown {
		return payment.Verdict{}, nil
	}
	return payment.Verdict{State: payment.Settled, Receipt: &r}, nil
}

// TestATransactionIsBelievedOnlyAsTheChainShowsIt: an operator names transactions for a payment that nobody can decide.
func TestATransactionIsBelievedOnlyAsTheChainShowsIt(t *testing.T) {
	s := open(t, options{dead: true, wait: 50 * time.Millisecond})
	b := s.newBuyer(t)
	_, err := s.Buy(t.Context(), s.paid(t, b, "k"))
	id := order.ID(wantFault(t, err, fault.SettlementUnknown).OrderID)
	right, wrong := x402.Hash{1}, x402.Hash{2}
	s.admin.Evidence = evidence{right: {Transaction: right, Block: 7, BlockHash: x402.Hash{3}, LogIndex: 4,
		SettledAt: time.Now().UTC()}}
	act := order.Act{Operator: "ada", Key: "key", Reason: "the logs are gone"}
	prove := func(id order.ID, transaction x402.Hash, act order.Act) (admin.ReviewItem, error) {
		return s.admin.Prove(t.Context(), id, transaction, act)
	}
	_, err = prove(id, wrong, act)
	wantFault(t, err, fault.TransferUnproven)
	if n := s.moved(t, id, order.Settled); n != 0 {
		t.Fatal("a transaction that proves nothing settled the order")
	}
	if err := faultpoint.Arm("prove.before_commit:error"); err != nil { // once
		t.Fatal(err)
	}
	if _, err = prove(id, right, act); err == nil || s.moved(t, id, order.Settled) != 0 {
		t.Fatalf("%v, and the order is settled, though its transaction failed", err)
	}
	for range 2 { // the same key does it once
		q, err := prove(id, right, act)
		if err != nil || q.Order.Status != order.Settled || s.moved(t, id, order.Settled) != 1 {
			t.Fatalf("%+v, %v, want settled once", q, err)
		}
	}
	_, err = prove(id, wrong, act)
	wantFault(t, err, fault.IdempotencyKeyReused)
	_, err = prove(id, right, order.Act{Operator: "ada", Key: "another", Reason: "again"})
	wantFault(t, err, fault.OrderNotPayable)
	_, err = prove("ord_none", right, order.Act{Operator: "ada", Key: "third", Reason: "none"})
	wantFault(t, err, fault.OrderNotFound)
	run(t, s.runner) // the job goes on from there
	s.reaches(t, id, order.Fulfilled)
	life, err := s.admin.Inspect(t.Context(), id, order.Act{Operator: "ada"})
	if err != nil || len(life.Payments) != 1 || life.Payments[0].Receipt == nil ||
		life.Payments[0].Receipt.Transaction != right {
		t.Errorf("payments %+v, %v", life.Payments, err)
	}
	if e := life.Timeline[1]; e.To != order.Settled || e.Actor != "operator:ada" ||
		e.Evidence["transaction"] != right.String() {
		t.Errorf("the move %+v", e)
	}
}

// refusing is a chain whose token refuses every transfer for one reason.
type refusing struct {
	payment.Chain
	reason string
}

// Simulate implements payment.Chain.
func (r refusing) Simulate(context.Context, x402.Authorization, x402.Signature) error {
	return &payment.Rejection{Reason: r.reason, Detail: "the token refuses it"}
}

// TestWhatTheTokensIssuerDoesIsNotThePaymentsFault: nothing is claimed, nobody is asked for another signature, and
// whose fault it is is named.
func TestWhatTheTokensIssuerDoesIsNotThePaymentsFault(t *testing.T) {
	s := open(t, options{})
	for reason, code := range map[string]fault.Code{
		payment.ReasonTokenPaused: fault.TokenPaused, payment.ReasonAccountBlocked: fault.AccountBlocked,
		payment.ReasonPayerBlocked: fault.PayerBlacklisted,
	} {
		s.Checkout.Chain = s.chain
		p := s.paid(t, s.newBuyer(t), reason)
		s.Checkout.Chain = refusing{s.chain, reason}
		_, err := s.Buy(t.Context(), p)
		f := wantFault(t, err, code)
		if _, challenged := errors.AsType[*checkout.Challenge](err); challenged || f.SafeToPayAgain || f.OrderID != "" {
			t.Errorf("%s: %+v", reason, f)
		}
		if code != fault.PayerBlacklisted && f.NextAction != fault.RetrySameRequest {
			t.Errorf("%s: next action %s", reason, f.NextAction)
		}
		s.Checkout.Chain = s.chain
		s.mustBuy(t, p)
	}
}

// TestWhoseFaultItIsIsNamed: what keeps payments from settling knows whose fault it is, or nobody does.
func TestWhoseFaultItIsIsNamed(t *testing.T) {
	var down error
	now := time.Now()
	s := open(t, options{payments: availability.NewPayments(availability.PaymentsConfig{
		Settler: func(context.Context) error { return down }, Now: func() time.Time { return now },
	})})
	for _, tt := range []struct {
		err  error
		code fault.Code
	}{
		{errors.New("anything"), fault.DependencyDown},
		{errors.Join(fault.New(fault.FacilitatorDown, "It fails."), errors.New("why")), fault.FacilitatorDown},
		{errors.Join(nil, fault.New(fault.ChainUnsettled, "It is reorganised.")), fault.ChainUnsettled},
	} {
		now = now.Add(time.Minute) // what failed before is forgotten
		p := s.paid(t, s.newBuyer(t), "k")
		down = tt.err
		_, err := s.Buy(t.Context(), p)
		if f := wantFault(t, err, tt.code); f.NextAction != fault.RetrySameRequest {
			t.Errorf("paid: %+v", f)
		}
		p.Payment = ""
		_, err = s.Buy(t.Context(), p)
		if f := wantFault(t, err, tt.code); f.NextAction != fault.WaitAndRetry {
			t.Errorf("unpaid: %+v", f)
		}
	}
}
