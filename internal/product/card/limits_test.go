package card_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestOwnerSetsAndReadsLimits(t *testing.T) {
	s, id := owned(t, card.Active)
	for _, want := range []card.Limits{
		{Transaction: 1, Month: card.MaxLimit}, {Allowed: []string{"0742", "5411"}}, {Blocked: []string{"7995"}}, {},
	} {
		for range 2 { // the second time changes nothing
			got, err := s.SetLimits(t.Context(), id, owner, want)
			if err != nil || !got.Equal(want) {
				t.Fatalf("set %+v: %+v, %v", want, got, err)
			}
		}
		if got, err := s.Limits(t.Context(), id, owner); err != nil || !got.Equal(want) {
			t.Errorf("read: %+v, %v; want %+v", got, err, want)
		}
	}
	if _, err := s.Freeze(t.Context(), id, owner); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetLimits(t.Context(), id, owner, card.Limits{Month: 5}); err != nil {
		t.Errorf("a frozen card: %v", err)
	}
}

func TestLimitsOutOfBoundsAreRefused(t *testing.T) {
	s, id := owned(t, card.Active)
	var many []string
	for n := range card.MaxCategories + 1 {
		many = append(many, fmt.Sprint(5000+n))
	}
	for name, l := range map[string]card.Limits{
		"below zero": {Transaction: -1}, "an amount too large": {Transaction: card.MaxLimit + 1},
		"a month too large": {Month: card.MaxLimit + 1}, "both lists": {Allowed: many[:1], Blocked: many[1:2]},
		"too many": {Blocked: many}, "one twice": {Allowed: []string{"5411", "5411"}},
		"three digits": {Allowed: []string{"541"}}, "no digits": {Blocked: []string{"54a1"}},
		"one that the issuer does not know": {Blocked: []string{"9999"}},
	} {
		if _, err := s.SetLimits(t.Context(), id, owner, l); fault.Of(err) != fault.SchemaInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.SetLimits(t.Context(), id, owner, card.Limits{Blocked: many[:card.MaxCategories]}); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
}

func TestOnlyTheOwnerLimitsACardThatIsLive(t *testing.T) {
	s, id := owned(t, card.Active)
	stranger := x402.Address{1}
	_, err := s.Limits(t.Context(), id, stranger)
	wantFault(t, err, fault.CardNotFound)
	_, err = s.SetLimits(t.Context(), id, stranger, card.Limits{})
	wantFault(t, err, fault.CardNotFound)
	s.issuer.SetState(s.ref(id), card.AccountClosed)
	_, err = s.SetLimits(t.Context(), id, owner, card.Limits{Month: 5})
	wantFault(t, err, fault.CardNotActive)
	if _, err := s.Limits(t.Context(), id, owner); err != nil {
		t.Errorf("a closed card's are read: %v", err)
	}
}

func TestLimitsThatTheIssuerDoesNotHaveAreMissing(t *testing.T) {
	s, id := owned(t, card.Active)
	has := &s.Providers[0].Capabilities.Limits
	all := []card.Limits{
		{Transaction: 5}, {Month: 5}, {Allowed: []string{"5411"}}, {Blocked: []string{"5411"}}, {Transaction: 5, Month: 5},
	}
	for _, c := range []struct {
		has  card.LimitKinds
		sets []int // of all
	}{
		{card.LimitKinds{Transaction: true}, []int{0}}, {card.LimitKinds{Month: true}, []int{1}},
		{card.LimitKinds{Merchants: true}, []int{2, 3}},
		{card.LimitKinds{Transaction: true, Month: true, OneAmount: true}, []int{0, 1}},
		{card.LimitKinds{Transaction: true, Month: true, Merchants: true}, []int{0, 1, 2, 3, 4}},
	} {
		*has = c.has
		for n, l := range all {
			switch _, err := s.SetLimits(t.Context(), id, owner, l); {
			case slices.Contains(c.sets, n) && err != nil:
				t.Errorf("%+v sets %+v: %v", c.has, l, err)
			case !slices.Contains(c.sets, n) && fault.Of(err) != fault.CardControlMissing:
				t.Errorf("%+v does not set %+v: %v", c.has, l, err)
			}
		}
	}
	*has = card.LimitKinds{}
	_, err := s.Limits(t.Context(), id, owner)
	wantFault(t, err, fault.CardControlMissing)
	_, err = s.SetLimits(t.Context(), id, owner, card.Limits{})
	wantFault(t, err, fault.CardControlMissing)
}

func TestLimitsOfSeveralIssuersAreWhatAllHave(t *testing.T) {
	all := card.LimitKinds{Transaction: true, Month: true, Merchants: true}
	one := card.LimitKinds{Transaction: true, Month: true, OneAmount: true}
	if got := all.And(one); got != one || one.And(all) != one || !got.Any() {
		t.Errorf("both have %+v", got)
	}
	if got := all.And(card.LimitKinds{}); got.Any() {
		t.Errorf("one without any leaves %+v", got)
	}
}

// A limit issuer replaces all limits at once, so that the owner's and the one that funds the card take turns.
func TestLimitsAndMovementsTakeTurns(t *testing.T) {
	s, id := owned(t, card.Active)
	s.Providers[0].Capabilities.Funding = card.Limit
	change := uuid.New()
	if err := s.store.BeginChange(t.Context(), id, change, time.Minute); err != nil {
		t.Fatal(err)
	}
	_, err := s.SetLimits(t.Context(), id, owner, card.Limits{Month: 5})
	wantFault(t, err, fault.DependencyDown)
	if n := s.issuer.Calls(cardtest.SetLimits); n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
	if err := s.store.EndChange(t.Context(), id, change); err != nil {
		t.Fatal(err)
	}
	turn := card.MovementLock{Card: id, Order: "ord_load", Ref: fulfilmenttest.NewRef(), Load: 100}
	fence := jobtest.Held(t, s.queue)
	take := func() error {
		_, err := s.store.TakeTurn(t.Context(), fence, turn)
		return err
	}
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.Refused, ""} {
		if mode != "" {
			s.issuer.Fault(cardtest.SetLimits, mode)
		}
		_, _ = s.SetLimits(t.Context(), id, owner, card.Limits{Month: 5})
		if err := take(); err != nil {
			t.Fatalf("%q: the card is kept after the issuer's answer: %v", mode, err)
		}
	}
	s.issuer.Fault(cardtest.SetLimits, fulfilmenttest.TimeoutAfter)
	_, err = s.SetLimits(t.Context(), id, owner, card.Limits{Month: money.Cents(6)})
	wantFault(t, err, fault.DependencyDown)
	if err := take(); err == nil {
		t.Error("a movement goes on while a change may still take effect")
	}
}
