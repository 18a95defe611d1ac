package checkout_test

import (
	"context"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// verdicts is a final block that says what it is told.
type verdicts struct {
	payment.Chain
	say func(a x402.Authorization) payment.Verdict
}

func (v verdicts) Verdict(_ context.Context, a x402.Authorization, _ time.Time) (payment.Verdict, error) {
	return v.say(a), nil
}

// followed waits until the job that follows a payment is final.
func (s *shop) followed(t *testing.T, p payment.Payment) job.Row {
	t.Helper()
	var row job.Row
	until(t, "the payment is followed to the end", func() bool {
		var found bool
		var err error
		if row, found, err = s.store.Jobs().Find(t.Context(), settlement.Confirming, p.ID.String()); err != nil {
			t.Fatal(err)
		}
		return found && row.FinishedAt != nil
	})
	return row
}

func TestAPaymentIsFollowedToWhereItStandsForGood(t *testing.T) {
	final := payment.Receipt{Transaction: x402.Hash{7}, BlockHash: x402.Hash{8}, Block: 9, LogIndex: 1,
		SettledAt: time.Unix(1_800_000_000, 0)}
	s := open(t, options{verdict: verdicts{say: func(a x402.Authorization) payment.Verdict {
		r := final
		r.Payer, r.PayTo, r.Amount = a.From, a.To, a.Value
		return payment.Verdict{State: payment.Settled, Receipt: &r}
	}}})
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k"))
	if row := s.followed(t, sold.Payment); row.Status != job.Succeeded {
		t.Fatalf("job %s: %s", row.Status, row.LastError)
	}
	found, err := s.store.Orders().Payments(t.Context(), sold.Order.ID)
	if err != nil || found[sold.Order.ID].Receipt.Transaction != final.Transaction {
		t.Errorf("the final transfer is not recorded: %+v, %v", found, err)
	}
}

func TestAPaymentThatWasUndoneGoesToAnOperator(t *testing.T) {
	s := open(t, options{verdict: verdicts{say: func(x402.Authorization) payment.Verdict {
		return payment.Verdict{State: payment.Void, Reason: payment.ReasonExpired}
	}}})
	b := s.newBuyer(t)
	// The issuer leaves the card pending, so that the delivery is under way.
	sold := s.mustBuy(t, s.paid(t, b, "k~001"))
	if row := s.followed(t, sold.Payment); row.Status != job.OperatorReview {
		t.Errorf("job %s", row.Status)
	}
	s.reaches(t, sold.Order.ID, order.OperatorReview)
}
