package settlement_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// returning is a delivered order whose remainder goes back: the store and the chain of a settlement.
type returning struct {
	settlement.Store
	payment.Chain
	sold    order.Order
	paid    payment.Payment
	refund  *payment.Refund
	verdict payment.Verdict
	now     time.Time
	working time.Time
}

func (r *returning) Find(context.Context, order.ID) (order.Order, error) { return r.sold, nil }

func (r *returning) Payments(context.Context, ...order.ID) (map[order.ID]payment.Payment, error) {
	return map[order.ID]payment.Payment{r.sold.ID: r.paid}, nil
}

func (r *returning) Refunds(context.Context, ...order.ID) (map[order.ID]payment.Refund, error) {
	if r.refund == nil {
		return nil, nil
	}
	return map[order.ID]payment.Refund{r.sold.ID: *r.refund}, nil
}

func (r *returning) SignRefund(_ context.Context, _ job.Fence, signed payment.Refund, _ *payment.Refund) error {
	r.refund = &signed
	return nil
}

func (r *returning) MarkReturnDead(_ context.Context, _ job.Fence, dead payment.Refund) error {
	r.refund = &dead
	return nil
}

func (r *returning) Verdict(_ context.Context, a x402.Authorization, _ time.Time) (payment.Verdict, error) {
	if a.Nonce == r.paid.Authorization.Nonce {
		return payment.Verdict{State: payment.Settled, Receipt: &payment.Receipt{}}, nil
	}
	return r.verdict, nil
}

func (r *returning) Simulate(context.Context, x402.Authorization, x402.Signature) error { return nil }

// Collect implements settlement.Collector. Nothing is decided by sending.
func (r *returning) Collect(context.Context, payment.Payment) payment.Verdict { return r.verdict }

// TestReturnWhoseAuthorizationIsDeadWaitsForAnOperator, and one that has only expired is signed again in time.
func TestReturnWhoseAuthorizationIsDeadWaitsForAnOperator(t *testing.T) {
	const window, deadline = time.Hour, 24 * time.Hour
	const amount = money.USDC(15_000_000)
	wallet := authtest.NewWallet(t, "treasury")
	void := func(why string) payment.Verdict { return payment.Verdict{State: payment.Void, Reason: why} }
	keyless := func(settlement.Refunds) settlement.Refunds { return settlement.Refunds{} }
	listed := func(r settlement.Refunds) settlement.Refunds {
		r.Screen = func(context.Context, x402.Address) error { return fault.New(fault.PayerNotAccepted, "not accepted") }
		return r
	}
	for name, tc := range map[string]struct {
		verdict payment.Verdict
		after   time.Duration
		// outage says that nobody was there meanwhile.
		outage bool
		// refunds are made in another way meanwhile, where it is not nil.
		refunds func(settlement.Refunds) settlement.Refunds
		want    order.ProgressState
		status  payment.RefundStatus
	}{
		"unused": {payment.Verdict{State: payment.Unused}, 0, false, nil, order.Waiting,
			payment.RefundSigned},
		"not known": {payment.Verdict{State: payment.Unknown}, 0, false, nil, order.Waiting,
			payment.RefundSigned},
		"cancelled": {void(payment.ReasonCancelled), 0, false, nil, order.Doubtful, payment.RefundDead},
		"expired": {void(payment.ReasonExpired), 2 * window, false, nil, order.Waiting,
			payment.RefundSigned},
		"expired after the deadline": {void(payment.ReasonExpired), deadline + 1, false, nil, order.Doubtful,
			payment.RefundDead},
		"expired during an outage": {void(payment.ReasonExpired), deadline + 1, true, nil, order.Waiting,
			payment.RefundSigned},
		"expired, and the key is gone": {void(payment.ReasonExpired), 2 * window, false, keyless, order.Doubtful,
			payment.RefundDead},
		"expired, and its payer is not served": {void(payment.ReasonExpired), 2 * window, false, listed, order.Doubtful,
			payment.RefundDead},
		"unused, and its payer is not served": {payment.Verdict{State: payment.Unused}, 0, false, listed, order.Waiting,
			payment.RefundSigned},
		"its nonce was used by another": {void(payment.ReasonUsedElsewhere), 0, false, nil, order.Doubtful,
			payment.RefundDead},
	} {
		t.Run(name, func(t *testing.T) {
			id := order.NewID(time.Now())
			r := &returning{
				sold: order.Order{ID: id, Status: order.Fulfilled}, now: time.Now(),
				paid: payment.Payment{ID: uuid.New(), Order: id, Status: payment.Paid, Authorization: x402.Authorization{
					From: x402.Address{1}, Value: 25_000_000, Nonce: x402.Hash{1},
				}},
				verdict: payment.Verdict{State: payment.Unused},
			}
			made := func(refunds settlement.Refunds) *settlement.Settlement {
				refunds.Deadline = deadline
				return settlement.New(settlement.Config{
					Store: r, Chain: r, Final: r, Collect: r, Refunds: refunds, Log: slog.New(slog.DiscardHandler),
					Now: func() time.Time { return r.now }, Working: func() time.Time { return r.working },
				})
			}
			refunds := settlement.Refunds{
				Treasury: payment.NewTreasury(payment.TreasuryConfig{
					Signer: curve.NewLocalSigner(wallet.Key()), Domain: checkouttest.Domain(), Window: window, Now: time.Now,
				}), Collect: r,
			}
			step := func(s *settlement.Settlement) order.Progress {
				t.Helper()
				got, err := s.Return(t.Context(), &job.Lease{}, payment.Return{Order: id, Amount: amount})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := step(made(refunds)); got.State != order.Waiting || r.refund == nil {
				t.Fatalf("first: %+v, %+v", got, r.refund)
			}
			first := *r.refund
			r.verdict, r.now = tc.verdict, r.now.Add(tc.after)
			if tc.outage {
				r.working = r.now
			}
			able := refunds
			if tc.refunds != nil {
				refunds = tc.refunds(refunds)
			}
			if got := step(made(refunds)); got.State != tc.want || r.refund.Status != tc.status {
				t.Fatalf("%+v, and the refund is %s; want %v and %s", got, r.refund.Status, tc.want, tc.status)
			}
			if tc.status != payment.RefundDead {
				return
			}
			if used := tc.verdict.Reason != payment.ReasonExpired; used {
				if got := step(made(able)); got.State != order.Doubtful || r.refund.Status != payment.RefundDead {
					t.Errorf("begun again, although its nonce is used: %+v, %+v", got, r.refund)
				}
				return
			}
			// An operator lets it go on: a dead one is signed again with the same nonce, so that it can never pay twice.
			if got := step(made(able)); got.State != order.Waiting || r.refund.Status != payment.RefundSigned ||
				r.refund.ID != first.ID || r.refund.Authorization.Nonce != first.Authorization.Nonce ||
				r.refund.Authorization.Value != amount {
				t.Errorf("begun again: %+v, %+v", got, r.refund)
			}
			if got, err := made(able).Return(t.Context(), &job.Lease{}, payment.Return{
				Order: id, Amount: amount + 1,
			}); err != nil || got.State != order.Doubtful {
				t.Errorf("another amount: %+v, %v", got, err)
			}
		})
	}
}
