package card_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

func wantFault(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != code {
		t.Errorf("got %q (%v), want %s", got, err, code)
	}
}

func TestCardsAreOfferedWhileTheyCanBeIssued(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*shelf)
		want   fault.Code
	}{
		"all is well":       {func(*shelf) {}, ""},
		"paused":            {func(s *shelf) { s.Paused = true }, fault.IssuePaused},
		"no open range":     {func(s *shelf) { s.issuer.SetBINs(card.BIN{Prefix: "400000"}) }, fault.BINUnavailable},
		"float for one":     {func(s *shelf) { s.issuer.SetFloat(card.Price) }, ""},
		"a cent too little": {func(s *shelf) { s.issuer.SetFloat(card.Price - 1) }, fault.FloatUnavailable},
		"float is promised": {func(s *shelf) {
			s.issuer.SetFloat(2 * card.Price)
			s.store.Hold("float/card", int64(card.Price)+1, true)
		}, fault.FloatUnavailable},
		"float is promised to who has not paid": {func(s *shelf) {
			s.issuer.SetFloat(2 * card.Price)
			s.store.Hold("float/card", int64(card.Price), true)
			s.store.Hold("float/card", 1, false)
		}, fault.FloatReserved},
		"issuer silent": {
			func(s *shelf) { s.issuer.Fault(cardtest.Stock, fulfilmenttest.TimeoutBefore) }, fault.DependencyDown,
		},
		"nobody to issue it": {func(s *shelf) { s.Workers = working(fault.New(fault.WorkersUnavailable, "")) },
			fault.WorkersUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t, careful)
			tc.change(s)
			offer, err := offered(t.Context(), s.Cards, nil)
			wantFault(t, err, tc.want)
			if err == nil && offer.Price != card.Price {
				t.Errorf("offered at %s", offer.Price)
			}
		})
	}
	s := newShelf(t, careful)
	broken := errors.New("no database")
	s.Workers = working(broken)
	if _, err := offered(t.Context(), s.Cards, nil); !errors.Is(err, broken) || fault.Of(err) != "" {
		t.Errorf("our own failure shows as %v", err)
	}
}

func TestOrderHoldsItsOwnersOneCardAndItsLoad(t *testing.T) {
	s := newShelf(t, careful)
	s.issuer.SetFloat(7000)
	before := time.Now()
	claim, err := s.Reserve(t.Context(), owner, order.Offer{Price: card.Price})
	reserved := claim.Reservations
	if err != nil || len(reserved) != 2 {
		t.Fatalf("reservations %+v, %v", reserved, err)
	}
	if one := reserved[0]; one.Resource != "card/"+owner.Lower() || one.Units != 1 || one.Limit != 1 ||
		one.Refusal != fault.CardAlreadyExists {
		t.Errorf("the owner's card: %+v", one)
	}
	if float := reserved[1]; float.Units != 2500 || float.Limit != 7000 || float.Refusal != fault.FloatUnavailable ||
		float.AsOf.After(before) {
		t.Errorf("the float: %+v", float)
	}
	for status, want := range map[card.Status]fault.Code{
		card.Pending: fault.CardAlreadyExists, card.Active: fault.CardAlreadyExists, card.Frozen: fault.CardAlreadyExists,
		card.Closed: "", card.Failed: "",
	} {
		s := newShelf(t, careful)
		s.store.Put(card.Card{ID: uuid.New(), Owner: owner, Status: status})
		_, err := s.Reserve(t.Context(), owner, order.Offer{Price: card.Price})
		wantFault(t, err, want)
		_, err = s.Reserve(t.Context(), x402.Address{1}, order.Offer{Price: card.Price})
		wantFault(t, err, "")
	}
}

func TestStockIsReadOnceAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, careful)
		for range 5 {
			if _, err := offered(t.Context(), s.Cards, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.issuer.Calls(cardtest.Stock); n != 1 {
			t.Errorf("%d calls", n)
		}
		time.Sleep(time.Second)
		s.issuer.SetFloat(0)
		_, err := offered(t.Context(), s.Cards, nil)
		wantFault(t, err, fault.FloatUnavailable)
	})
}

// owned is a shelf with one card of the owner, opened at the issuer.
func owned(t *testing.T, status card.Status) (*shelf, uuid.UUID) {
	t.Helper()
	s := newShelf(t, careful)
	ref := fulfilmenttest.NewRef()
	a, err := s.issuer.Open(t.Context(), card.Opening{Ref: ref, Load: card.Price})
	if err != nil {
		t.Fatal(err)
	}
	c := card.Card{ID: uuid.New(), Order: "ord_1", Owner: owner, Status: status, Ref: ref, Account: a.ID, Last4: a.Last4}
	s.store.Put(c)
	return s, c.ID
}

func TestCardIsItsOwnersAndUsedWhileItIsActive(t *testing.T) {
	s, id := owned(t, card.Active)
	stranger := x402.Address{1}
	if b, err := s.Balance(t.Context(), id, owner); err != nil || b.Available != card.Price {
		t.Errorf("balance %+v, %v", b, err)
	}
	if c, err := s.Credentials(t.Context(), id, owner); err != nil || len(c.Number.Reveal()) != 16 ||
		len(c.SecurityCode.Reveal()) != 3 {
		t.Errorf("credentials of %d digits, %v", len(c.Number.Reveal()), err)
	}
	for name, who := range map[string]struct {
		id    uuid.UUID
		owner x402.Address
	}{"another's card": {id, stranger}, "no card": {uuid.New(), owner}} {
		calls := s.issuer.Calls(cardtest.Sensitive) + s.issuer.Calls(cardtest.Balance)
		_, err := s.Balance(t.Context(), who.id, who.owner)
		wantFault(t, err, fault.CardNotFound)
		_, err = s.Credentials(t.Context(), who.id, who.owner)
		wantFault(t, err, fault.CardNotFound)
		if got := s.issuer.Calls(cardtest.Sensitive) + s.issuer.Calls(cardtest.Balance); got != calls {
			t.Errorf("%s: the issuer was asked", name)
		}
	}
	for _, status := range []card.Status{card.Pending, card.Frozen, card.Closed, card.Failed} {
		s, id := owned(t, status)
		if status == card.Frozen {
			s.issuer.SetState(s.ref(id), card.AccountFrozen)
		}
		_, err := s.Credentials(t.Context(), id, owner)
		wantFault(t, err, fault.CardNotActive)
	}
	if mine, err := s.List(t.Context(), owner); err != nil || len(mine) != 1 {
		t.Errorf("the owner lists %d cards, %v", len(mine), err)
	}
	if theirs, err := s.List(t.Context(), stranger); err != nil || len(theirs) != 0 {
		t.Errorf("a stranger lists %d cards, %v", len(theirs), err)
	}
}

func TestIssuerThatDoesNotAnswerIsNotOurFailure(t *testing.T) {
	s, id := owned(t, card.Active)
	s.issuer.Fault(cardtest.Balance, fulfilmenttest.TimeoutBefore)
	_, err := s.Balance(t.Context(), id, owner)
	wantFault(t, err, fault.DependencyDown)
	s.issuer.Fault(cardtest.Sensitive, fulfilmenttest.ErrorBefore)
	_, err = s.Credentials(t.Context(), id, owner)
	wantFault(t, err, fault.DependencyDown)
}

// TestLoadOfALostCardGoesToAPerson: who claimed the order had read the card before the database was put back.
func TestLoadOfALostCardGoesToAPerson(t *testing.T) {
	story(t, careful, func(s *shelf) {
		got, err := s.Load(s.Context(), &job.Lease{}, order.Order{Owner: owner}, order.Call{Card: uuid.New()})
		if err != nil || got.State != order.Doubtful || s.issuer.Calls(cardtest.Move) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestEnsureNeverIssues(t *testing.T) {
	s := newShelf(t, careful)
	_, err := s.Ensure(t.Context(), owner)
	wantFault(t, err, fault.PaidIssueRequired)
	s.Paused = true
	_, err = s.Ensure(t.Context(), owner)
	wantFault(t, err, fault.IssuePaused)
	s.store.Put(card.Card{ID: uuid.New(), Owner: owner, Status: card.Frozen})
	if c, err := s.Ensure(t.Context(), owner); err != nil || c.Status != card.Frozen {
		t.Errorf("%+v, %v", c, err)
	}
	if n := s.issuer.Calls(cardtest.Open); n != 0 {
		t.Errorf("%d cards opened", n)
	}
}

func TestFeeAndTheRestMakeThePrice(t *testing.T) {
	if want := []money.Cents{2500, 1000, 1500}; card.Price != want[0] || card.Fee != want[1] || card.Remaining != want[2] {
		t.Errorf("%s = %s + %s", card.Price, card.Fee, card.Remaining)
	}
}
