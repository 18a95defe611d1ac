package settlement_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// verdicts is a final block with given verdicts.
type verdicts struct {
	payment.Chain
	say func(a x402.Authorization) payment.Verdict
}

func (v verdicts) Verdict(_ context.Context, a x402.Authorization, _ time.Time) (payment.Verdict, error) {
	return v.say(a), nil
}

// watched waits until the job that watches a payment is final.
func watched(t *testing.T, s *checkouttest.Shop, p payment.Payment) job.Row {
	t.Helper()
	return s.FinalJob(t, settlement.Confirming, p.ID.String())
}

func TestConfirmationRecordsTheFinalTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final := payment.Receipt{Transaction: x402.Hash{7}, BlockHash: x402.Hash{8}, Block: 9, LogIndex: 1,
			SettledAt: time.Unix(1_800_000_000, 0)}
		s := checkouttest.Open(t, checkouttest.Options{Final: verdicts{say: func(a x402.Authorization) payment.Verdict {
			r := final
			r.Payer, r.PayTo, r.Amount = a.From, a.To, a.Value
			return payment.Verdict{State: payment.Settled, Receipt: &r}
		}}})
		b := s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		if row := watched(t, s, sold.Payment); row.Status != job.Succeeded {
			t.Fatalf("job %s: %s", row.Status, row.LastError)
		}
		found, err := s.Store.Orders.Payments(t.Context(), sold.Order.ID)
		if err != nil || found[sold.Order.ID].Receipt.Transaction != final.Transaction {
			t.Errorf("the final transfer is not recorded: %+v, %v", found, err)
		}
	})
}

func TestUndonePaymentGoesToAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Final: verdicts{say: func(x402.Authorization) payment.Verdict {
			return payment.Verdict{State: payment.Void, Reason: payment.ReasonExpired}
		}}})
		b := s.NewBuyer(t)
		// The issuer leaves the card pending, so that the delivery is under way.
		sold := s.MustBuy(t, s.PaidCard(t, b, "k~001"))
		if row := watched(t, s, sold.Payment); row.Status != job.OperatorReview {
			t.Errorf("job %s", row.Status)
		}
		s.Reaches(t, sold.Order.ID, order.OperatorReview)
	})
}
