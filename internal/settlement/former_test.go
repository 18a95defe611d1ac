package settlement_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// remembering is a chain that knows more of a treasury than our record.
type remembering struct {
	*returning
	by    x402.Address
	of    payment.Verdict
	asked x402.Authorization
	since time.Time
	ended bool
}

func (r *remembering) Verdict(
	ctx context.Context, a x402.Authorization, since time.Time,
) (payment.Verdict, error) {
	if a.From == r.by {
		r.asked, r.since = a, since
		return r.of, nil
	}
	return r.returning.Verdict(ctx, a, since)
}

func (r *remembering) Returned(context.Context, job.Fence, payment.Refund, payment.Return, job.New) error {
	r.ended = true
	return nil
}

// TestRefundThatATreasuryHasPaidIsFound: the record of a refund was lost with the database, hours after it was paid.
// It is recorded as it was made, and nothing is signed in addition: another treasury's nonce would be another payer's,
// which the token does not refuse.
func TestRefundThatATreasuryHasPaidIsFound(t *testing.T) {
	former, next := authtest.NewWallet(t, "former"), authtest.NewWallet(t, "next")
	const amount = 15_000_000
	paidAt := time.Now().Add(-3 * time.Hour)
	paid := payment.Verdict{
		State: payment.Settled, Receipt: &payment.Receipt{Transaction: x402.Hash{7}, SettledAt: paidAt},
	}
	cancelled := payment.Verdict{State: payment.Void, Reason: payment.ReasonCancelled}
	for name, tc := range map[string]struct {
		by     x402.Address
		of     payment.Verdict
		gone   bool
		found  bool
		signer x402.Address
		fails  bool
	}{
		"a former one, whose key is here":              {by: former.Address(), of: paid, found: true},
		"a former one, whose key is gone":              {by: former.Address(), of: paid, gone: true, found: true},
		"the one in use":                               {by: next.Address(), of: paid, found: true},
		"the nonce of a former one was cancelled":      {by: former.Address(), of: cancelled, gone: true},
		"the nonce of the one in use was cancelled":    {by: next.Address(), of: cancelled},
		"it is not known what a former one has done":   {by: former.Address(), gone: true, fails: true},
		"it is not known what the one in use has done": {by: next.Address(), fails: true},
		"a former one has done nothing": {
			by: former.Address(), of: payment.Verdict{State: payment.Unused}, signer: next.Address(),
		},
		"a former one has done nothing, and its key is gone": {
			by: former.Address(), of: payment.Verdict{State: payment.Unused}, gone: true, signer: next.Address(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := order.NewID(time.Now())
			r := &remembering{of: tc.of, by: tc.by, returning: &returning{
				sold: order.Order{ID: id, Status: order.Fulfilled}, now: time.Now(),
				paid: payment.Payment{ID: uuid.New(), Order: id, Status: payment.Paid, Authorization: x402.Authorization{
					From: x402.Address{1}, Value: 25_000_000, Nonce: x402.Hash{1},
				}},
				verdict: payment.Verdict{State: payment.Unused},
			}}
			of := payment.TreasuryConfig{
				Signer: curve.NewLocalSigner(next.Key()), Retired: []payment.Signer{curve.NewLocalSigner(former.Key())},
				Domain: checkouttest.Domain(), Window: time.Hour, Now: time.Now,
			}
			if tc.gone {
				of.Retired, of.Former = nil, []x402.Address{former.Address()}
			}
			s := settlement.New(settlement.Config{
				Store: r, Chain: r, Final: r, Collect: r, Log: slog.New(slog.DiscardHandler),
				Refunds: settlement.Refunds{Treasury: payment.NewTreasury(of), Collect: r, Deadline: 24 * time.Hour},
				Now:     func() time.Time { return r.now },
			})
			step := func() (order.Progress, error) {
				return s.Return(t.Context(), &job.Lease{}, payment.Return{Order: id, Amount: amount})
			}
			got, err := step()
			if (err != nil) != tc.fails {
				t.Fatalf("%+v, %v", got, err)
			}
			if want := payment.RefundNonce(r.paid.Authorization); r.asked.Nonce != want || r.asked.Value != amount ||
				r.asked.To != r.paid.Authorization.From {
				t.Errorf("asked about %+v", r.asked)
			}
			switch {
			case tc.found:
				if r.refund == nil || !r.refund.Found() || r.refund.Authorization.From != tc.by {
					t.Fatalf("recorded %+v", r.refund)
				}
				if got, err = step(); err != nil || got.State != order.Delivered || !r.ended || r.since.After(paidAt) {
					t.Errorf("%+v, %v, searched from %s", got, err, r.since)
				}
			case tc.signer.IsZero():
				if r.refund != nil {
					t.Errorf("signed %+v", r.refund.Authorization)
				}
				if !tc.fails && (got.State != order.Doubtful || !strings.Contains(got.Reason, tc.by.String())) {
					t.Errorf("%+v", got)
				}
			case r.refund == nil || r.refund.Authorization.From != tc.signer ||
				curve.Verify(checkouttest.Domain(), r.refund.Authorization, r.refund.Signature) != nil:
				t.Errorf("signed %+v, want from %s", r.refund, tc.signer)
			}
		})
	}
}

// TestRefundStaysWithTheTreasuryThatBeganIt, as long as its key is here: its authorizations have one nonce of one
// payer.
func TestRefundStaysWithTheTreasuryThatBeganIt(t *testing.T) {
	former, next := authtest.NewWallet(t, "former"), authtest.NewWallet(t, "next")
	p := payment.Payment{
		Order: order.NewID(time.Now()), Authorization: x402.Authorization{From: x402.Address{1}, Value: 9},
	}
	treasury := func(signer payment.Signer, retired ...payment.Signer) *payment.Treasury {
		return payment.NewTreasury(payment.TreasuryConfig{
			Signer: signer, Retired: retired, Domain: checkouttest.Domain(), Window: time.Hour, Now: time.Now,
		})
	}
	was, is := curve.NewLocalSigner(former.Key()), curve.NewLocalSigner(next.Key())
	first, err := treasury(was).Refund(t.Context(), was.Address(), p, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	both := treasury(is, was)
	if !both.Signs(first.Authorization.From) {
		t.Fatal("the former key is not known")
	}
	again, err := both.Refund(t.Context(), first.Authorization.From, p, &first, time.Now().Add(2*time.Hour))
	if err != nil || again.Authorization.From != was.Address() || again.Authorization.Nonce != first.Authorization.Nonce ||
		again.ID != first.ID || curve.Verify(checkouttest.Domain(), again.Authorization, again.Signature) != nil {
		t.Errorf("signed again as %+v, %v", again.Authorization, err)
	}
	if _, err := treasury(is).Refund(t.Context(), was.Address(), p, &first, time.Now()); err == nil {
		t.Error("signed for an account whose key is not here")
	}
}
