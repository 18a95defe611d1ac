package settlement_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
)

func TestDeadProcessLeavesItsOrderToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := checkouttest.Open(t, checkouttest.Options{Dead: true, Wait: 50 * time.Millisecond})
		b := dead.NewBuyer(t)
		p := dead.PaidCard(t, b, "k")
		_, err := dead.Buy(t.Context(), p)
		f := checkouttest.WantFault(t, err, fault.SettlementUnknown)
		if dead.Spent(b) != 0 {
			t.Fatal("money moved without a worker")
		}
		alive := checkouttest.Open(t, checkouttest.Options{Store: dead.Store, Chain: dead.Chain, Issuer: dead.Issuer})
		alive.TakeOver(t)
		alive.Reaches(t, order.ID(f.OrderID), order.Fulfilled)
		if sold := alive.MustBuy(t, p); !sold.Replayed || alive.Spent(b) != price {
			t.Errorf("sold %+v, spent %d", sold, alive.Spent(b))
		}
	})
}

func TestIssuerFaultsLeaveOneCardAndOneFee(t *testing.T) {
	for _, op := range []fulfilmenttest.Op{cardtest.Open, cardtest.Move} {
		for _, mode := range []fulfilmenttest.Mode{
			fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore,
			fulfilmenttest.TimeoutAfter,
			fulfilmenttest.Malformed, fulfilmenttest.RateLimited, fulfilmenttest.UnknownState, fulfilmenttest.Duplicate,
		} {
			checkouttest.Run(t, fmt.Sprint(op, " ", mode), func(t *testing.T) {
				s := checkouttest.Open(t, checkouttest.Options{})
				b := s.NewBuyer(t)
				p := s.PaidCard(t, b, "k")
				if !s.Issuer.Fault(op, mode) {
					t.Skip("the issuer in memory cannot do that")
				}
				sold := s.MustBuy(t, p)
				s.Reaches(t, sold.Order.ID, order.Fulfilled)
				got, err := s.Cards.Ensure(t.Context(), b.Address)
				if err != nil {
					t.Fatal(err)
				}
				fee := s.FeeJob(t, got)
				args, err := job.Decode[card.FeeArgs](fee)
				if err != nil {
					t.Fatal(err)
				}
				if opened, taken := s.Issuer.Executed(got.Ref), s.Issuer.Executed(args.Ref()); opened != 1 || taken != 1 ||
					fee.Status != job.Succeeded {
					t.Errorf("opened %d times, fee taken %d times, job %s (%s)", opened, taken, fee.Status, fee.LastError)
				}
			})
		}
	}
}

func TestRefusedCardGoesToAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k~002"))
		s.Reaches(t, sold.Order.ID, order.OperatorReview)
		if _, err := s.Cards.Ensure(t.Context(), b.Address); fault.Of(err) != fault.PaidIssueRequired {
			t.Errorf("the refused card lives: %v", err)
		}
	})
}

func TestOpeningWithoutATraceGoesToAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// An issuer that does not deduplicate is never asked twice.
		s := checkouttest.Open(t, checkouttest.Options{Traits: fulfilment.Traits{VisibilityDelay: time.Millisecond}})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		s.Issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
		sold := s.MustBuy(t, p)
		s.Reaches(t, sold.Order.ID, order.OperatorReview)
		if n := s.Issuer.Calls(cardtest.Open); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestDeliveryThatIsGivenUpSaysWhatWasAwaited: to the operator whom it goes to.
func TestDeliveryThatIsGivenUpSaysWhatWasAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		s.Issuer.Fault(cardtest.Open, fulfilmenttest.StaysPending)
		sold := s.MustBuy(t, p)
		time.Sleep(2 * time.Hour)
		s.Reaches(t, sold.Order.ID, order.OperatorReview)
		moves := s.Store.Memory.Orders().Timeline(sold.Order.ID)
		last := moves[len(moves)-1]
		if last.Reason != "for too long the issuer did not say that the card is there" ||
			last.Evidence["last"] != "the issuer has it and has not finished it" {
			t.Errorf("%+v", last)
		}
	})
}

func TestIssuerFaultsLeaveOneLoad(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore,
		fulfilmenttest.TimeoutAfter, fulfilmenttest.Malformed, fulfilmenttest.UnknownState, fulfilmenttest.Duplicate,
	} {
		checkouttest.Run(t, string(mode), func(t *testing.T) {
			s := checkouttest.Open(t, checkouttest.Options{})
			b := s.NewBuyer(t)
			s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID, order.Fulfilled)
			got, err := s.Cards.Ensure(t.Context(), b.Address)
			if err != nil {
				t.Fatal(err)
			}
			s.FeeJob(t, got)
			p := checkouttest.TopUp("t", 25_000)
			p = s.Paid(t, b, p)
			if !s.Issuer.Fault(cardtest.Move, mode) {
				t.Skip("the issuer in memory cannot do that")
			}
			s.Reaches(t, s.MustBuy(t, p).Order.ID, order.Fulfilled)
			if bal, err := s.Cards.Balance(t.Context(), got.ID, b.Address); err != nil || bal.Available != 1500+24_500 {
				t.Errorf("balance %v, %v", bal.Available, err)
			}
		})
	}
}
