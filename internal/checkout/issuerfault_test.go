package checkout_test

import (
	"context"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// refusing is a chain whose token refuses every transfer for one reason.
type refusing struct {
	payment.Chain
	reason string
	code   fault.Code
}

// Simulate implements payment.Chain.
func (r refusing) Simulate(context.Context, x402.Authorization, x402.Signature) error {
	return &payment.Rejection{Reason: r.reason, Detail: "the token refuses it", Code: r.code}
}

// TestTokenIssuersRefusalIsNotThePaymentsFault: nothing is claimed, no other signature is asked for, and
// the answer names the cause.
func TestTokenIssuersRefusalIsNotThePaymentsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		for reason, code := range map[string]fault.Code{
			payment.ReasonTokenPaused: fault.TokenPaused, payment.ReasonAccountBlocked: fault.AccountBlocked,
			payment.ReasonPayerBlocked: fault.PayerBlacklisted,
		} {
			s.Checkout.Chain = s.Chain
			p := s.PaidCard(t, s.NewBuyer(t), reason)
			s.Checkout.Chain = refusing{s.Chain, reason, ""}
			_, err := s.Buy(t.Context(), p)
			f := checkouttest.WantFault(t, err, code)
			if _, challenged := errors.AsType[*checkout.Challenge](err); challenged || f.SafeToPayAgain || f.OrderID != "" {
				t.Errorf("%s: %+v", reason, f)
			}
			if code != fault.PayerBlacklisted && f.NextAction != fault.RetrySameRequest {
				t.Errorf("%s: next action %s", reason, f.NextAction)
			}
			s.Checkout.Chain = s.Chain
			s.MustBuy(t, p)
		}
	})
}

// TestUnavailablePaymentsNameTheirCause: the check that fails names the cause, or the answer is general.
func TestUnavailablePaymentsNameTheirCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error
		now := time.Now()
		s := checkouttest.Open(t, checkouttest.Options{Payments: availability.NewPayments(availability.PaymentsConfig{
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
			now = now.Add(time.Minute) // the cached failure expires
			p := s.PaidCard(t, s.NewBuyer(t), "k")
			down = tt.err
			_, err := s.Buy(t.Context(), p)
			if f := checkouttest.WantFault(t, err, tt.code); f.NextAction != fault.RetrySameRequest {
				t.Errorf("paid: %+v", f)
			}
			p.Payment = ""
			_, err = s.Buy(t.Context(), p)
			if f := checkouttest.WantFault(t, err, tt.code); f.NextAction != fault.WaitAndRetry {
				t.Errorf("unpaid: %+v", f)
			}
		}
	})
}

// TestPayerOfAnotherKindIsNotAskedAgain: a client would sign a new challenge with the same account.
func TestPayerOfAnotherKindIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		text, err := base64.StdEncoding.DecodeString(p.Payment)
		if err != nil {
			t.Fatal(err)
		}
		for _, more := range []string{strings.Repeat("ab", 65), strings.Repeat("6492", 16)} {
			of := regexp.MustCompile(`("signature": ?"0x[0-9a-f]*)"`).ReplaceAll(text, []byte("${1}"+more+`"`))
			p.Payment = base64.StdEncoding.EncodeToString(of)
			_, err := s.Buy(t.Context(), p)
			if f := checkouttest.WantFault(t, err, fault.PayerKindNotAccepted); f.SafeToPayAgain {
				t.Errorf("told to pay again: %v", f)
			}
			if _, asked := errors.AsType[*checkout.Challenge](err); asked {
				t.Error("asked again")
			}
		}
		// Its own signature is a key's, and the chain shows that it has code.
		coded := s.PaidCard(t, s.NewBuyer(t), "coded")
		s.Checkout.Chain = refusing{s.Chain, x402.ReasonSignature, fault.PayerKindNotAccepted}
		_, err = s.Buy(t.Context(), coded)
		s.Checkout.Chain = s.Chain
		if _, asked := errors.AsType[*checkout.Challenge](err); asked {
			t.Error("an account with code is asked again")
		}
		if f := checkouttest.WantFault(t, err, fault.PayerKindNotAccepted); f.SafeToPayAgain {
			t.Errorf("told to pay again: %v", f)
		}
		s.MustBuy(t, s.PaidCard(t, b, "k"))
	})
}
