package card_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// The answers that leave open what happened: after the effect, or without any.
var (
	lostAfter  = []fulfilmenttest.Mode{fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutAfter}
	lostBefore = []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutBefore, fulfilmenttest.RateLimited,
	}
)

func TestPaidOrderBecomesACardWithFifteenDollars(t *testing.T) {
	story(t, careful, func(s *shelf) {
		id := s.paid()
		s.pass(time.Second)
		got := s.card(id)
		if s.ended(id).State != order.Delivered || got.Status != card.Active || got.Owner != owner ||
			got.Account == "" || len(got.Last4) != 4 {
			t.Errorf("delivery %+v of %+v", s.ended(id), got)
		}
		if fee := s.fee(id); fee.Status != job.Succeeded {
			t.Errorf("fee job %s: %s", fee.Status, fee.LastError)
		}
		s.wantBalance(id, card.Remaining)
	})
}

func TestOpeningWhoseAnswerIsLostIsReadBack(t *testing.T) {
	for _, mode := range lostAfter {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			story(t, careful, func(s *shelf) {
				s.issuer.Fault(cardtest.Open, mode)
				id := s.paid()
				s.pass(10 * time.Second)
				if s.ended(id).State != order.Delivered || s.issuer.Calls(cardtest.Open) != 1 {
					t.Errorf("delivery %+v after %d openings", s.ended(id), s.issuer.Calls(cardtest.Open))
				}
				if n := s.issuer.Executed(s.card(id).Ref); n != 1 {
					t.Errorf("the stored reference opened %d cards", n)
				}
			})
		})
	}
}

func TestReferenceIsSentAgainOnceItCannotAppearAnyMore(t *testing.T) {
	for _, mode := range lostBefore {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			story(t, careful, func(s *shelf) {
				s.issuer.Fault(cardtest.Open, mode)
				id := s.paid()
				s.pass(callTimeout + visibilityDelay - time.Second)
				if n := s.issuer.Calls(cardtest.Open); n != 1 {
					t.Errorf("%d openings within the visibility delay", n)
				}
				s.pass(time.Minute)
				if s.ended(id).State != order.Delivered || s.issuer.Calls(cardtest.Open) != 2 ||
					s.issuer.Executed(s.card(id).Ref) != 1 {
					t.Errorf("delivery %+v after %d openings", s.ended(id), s.issuer.Calls(cardtest.Open))
				}
			})
		})
	}
}

func TestIssuerThatDoesNotDeduplicateIsAskedOnce(t *testing.T) {
	story(t, fulfilment.Traits{VisibilityDelay: visibilityDelay}, func(s *shelf) {
		s.issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
		id := s.paid()
		s.pass(time.Hour)
		if s.ended(id).State != order.Doubtful || s.issuer.Calls(cardtest.Open) != 1 ||
			s.ended(id).Evidence["reference"] != s.card(id).Ref.String() {
			t.Errorf("delivery %+v after %d openings", s.ended(id), s.issuer.Calls(cardtest.Open))
		}
	})
}

func TestLookUpThatFailsSaysNothing(t *testing.T) {
	story(t, careful, func(s *shelf) {
		s.issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutAfter)
		for range 5 {
			s.issuer.Fault(cardtest.Account, fulfilmenttest.ErrorBefore)
		}
		id := s.paid()
		s.pass(10 * time.Minute)
		if s.ended(id).State != order.Delivered || s.issuer.Calls(cardtest.Open) != 1 {
			t.Errorf("delivery %+v after %d openings", s.ended(id), s.issuer.Calls(cardtest.Open))
		}
	})
}

func TestDefiniteNoFreesTheOwner(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.Refused, fulfilmenttest.Rejected} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			story(t, careful, func(s *shelf) {
				s.issuer.Fault(cardtest.Open, mode)
				first := s.paid()
				s.pass(10 * time.Second)
				if s.ended(first).State != order.Refused || s.card(first).Status != card.Failed ||
					s.ended(first).Evidence["refusal"] == "" {
					t.Errorf("delivery %+v of %+v", s.ended(first), s.card(first))
				}
				second := s.paid()
				s.pass(10 * time.Second)
				if s.ended(second).State != order.Delivered {
					t.Errorf("the next one: %+v", s.ended(second))
				}
			})
		})
	}
}

func TestCardThatNeverBecomesActiveGoesToAPerson(t *testing.T) {
	story(t, careful, func(s *shelf) {
		s.issuer.Fault(cardtest.Open, fulfilmenttest.StaysPending)
		pending := s.paid()
		s.pass(deadline / 2)
		if s.ended(pending).State != order.Waiting || s.card(pending).Status != card.Pending {
			t.Errorf("given up early: %+v", s.ended(pending))
		}
		s.pass(deadline)
		if s.ended(pending).State != order.Doubtful {
			t.Errorf("left pending: %+v", s.ended(pending))
		}
		s.issuer.Fault(cardtest.Open, fulfilmenttest.StaysPending)
		closed := s.paidBy(x402.Address{1})
		s.pass(time.Second)
		s.issuer.SetState(s.card(closed).Ref, card.AccountClosed)
		s.pass(time.Minute)
		if s.ended(closed).State != order.Doubtful {
			t.Errorf("closed unseen: %+v", s.ended(closed))
		}
	})
}
