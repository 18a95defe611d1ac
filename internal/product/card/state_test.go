package card_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

var credit = order.Offer{Price: 2500,
	Item: []byte(`{"grossUsdCents":2500,"loadFeeUsdCents":50,"cardCreditUsdCents":2450}`)}

// unpaid is an order for the same top-up that is to be paid later.
func unpaid(owner x402.Address) order.Order {
	return order.Order{Kind: topup.Kind, Owner: owner, Price: credit.Price, Item: credit.Item}
}

func TestWhatTheIssuerLockedOrTerminatedIsNotUsed(t *testing.T) {
	for state, want := range map[card.AccountState]card.Status{card.AccountFrozen: card.Frozen,
		card.AccountClosed: card.Closed} {
		t.Run(string(state), func(t *testing.T) {
			uses := map[string]struct {
				refused fault.Code
				use     func(*shelf, uuid.UUID) error
			}{
				"balance": {fault.CardNotActive, func(s *shelf, id uuid.UUID) error {
					_, err := s.Balance(t.Context(), id, owner)
					return err
				}},
				"credentials": {fault.CardNotActive, func(s *shelf, id uuid.UUID) error {
					_, err := s.Credentials(t.Context(), id, owner)
					return err
				}},
				"reveal": {fault.CardNotActive, func(s *shelf, id uuid.UUID) error {
					_, err := s.Own(t.Context(), id, owner)
					return err
				}},
				"top-up": {fault.ActiveCardMissing, func(s *shelf, _ uuid.UUID) error {
					_, err := topup.Topups{Cards: s.Cards}.Reserve(t.Context(), owner, credit)
					return err
				}},
				"invitation": {fault.ActiveCardMissing, func(s *shelf, _ uuid.UUID) error {
					return topup.Topups{Cards: s.Cards}.Invite(t.Context(), unpaid(owner))
				}},
			}
			for name, use := range uses {
				s, id := owned(t, card.Active)
				s.issuer.SetState(s.ref(id), state)
				err := use.use(s, id)
				if fault.Of(err) != use.refused {
					t.Errorf("%s: %v, want %s", name, err, use.refused)
				}
				// Whoever waits for a card that is closed waits for ever.
				if f, _ := fault.As(err); f.Code == fault.CardNotActive && f.Retryable != (want == card.Frozen) {
					t.Errorf("%s, %s: %+v", name, want, f)
				}
				if mine, err := s.List(t.Context(), owner); err != nil || mine[0].Status != want {
					t.Errorf("after %s the card is %s, %v", name, mine[0].Status, err)
				}
			}
		})
	}
}

// ref is the reference of a card's opening.
func (s *shelf) ref(id uuid.UUID) fulfilment.Ref {
	s.Helper()
	c, err := s.store.Card(s.Context(), id, owner)
	if err != nil {
		s.Fatal(err)
	}
	return c.Ref
}

func TestWhatTheIssuerClosedMakesRoomForAnotherCard(t *testing.T) {
	for state, want := range map[card.AccountState]fault.Code{
		card.AccountActive: fault.CardAlreadyExists, card.AccountFrozen: fault.CardAlreadyExists, card.AccountClosed: "",
	} {
		s, id := owned(t, card.Active)
		s.issuer.SetState(s.ref(id), state)
		wantFault(t, s.Invite(t.Context(), order.Order{Kind: card.Kind, Owner: owner, Price: card.Price}), want)
		_, err := s.Reserve(t.Context(), owner, order.Offer{Price: card.Price})
		wantFault(t, err, want)
	}
}

func TestWhatTheIssuerUnlocksIsActiveAgain(t *testing.T) {
	s, id := owned(t, card.Frozen)
	if _, err := s.Balance(t.Context(), id, owner); err != nil {
		t.Error(err)
	}
	if _, err := (topup.Topups{Cards: s.Cards}).Reserve(t.Context(), owner, credit); err != nil {
		t.Error(err)
	}
	// What is closed stays closed, whatever is said later.
	s, id = owned(t, card.Closed)
	_, err := s.Balance(t.Context(), id, owner)
	wantFault(t, err, fault.CardNotActive)
}

func TestWhatIsKnownDecidesWhileTheIssuerIsSilent(t *testing.T) {
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.TimeoutBefore, fulfilmenttest.ErrorBefore, fulfilmenttest.UnknownState,
	} {
		s, id := owned(t, card.Active)
		s.issuer.SetState(s.ref(id), card.AccountFrozen)
		s.issuer.Fault(cardtest.Account, mode)
		if mine, err := s.List(t.Context(), owner); err != nil || mine[0].Status != card.Active {
			t.Errorf("%s: listed %+v, %v", mode, mine, err)
		}
	}
	s, _ := owned(t, card.Active)
	s.issuer.Fault(cardtest.Account, fulfilmenttest.ErrorBefore)
	if _, err := (topup.Topups{Cards: s.Cards}).Reserve(t.Context(), owner, credit); err != nil {
		t.Errorf("a top-up: %v", err)
	}
}

func TestOwnersListAsksTheIssuerOnceAMoment(t *testing.T) {
	s, id := owned(t, card.Active)
	now := time.Now()
	s.Now = func() time.Time { return now }
	for range 5 {
		if _, err := s.List(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.issuer.Calls(cardtest.Account); n != 1 {
		t.Errorf("%d calls", n)
	}
	now = now.Add(5 * time.Second)
	s.issuer.SetState(s.ref(id), card.AccountFrozen)
	if mine, err := s.List(t.Context(), owner); err != nil || mine[0].Status != card.Frozen {
		t.Errorf("%+v, %v", mine, err)
	}
}

// TestWhatTheIssuerListsIsWritten page by page, without asking for each card.
func TestWhatTheIssuerListsIsWritten(t *testing.T) {
	s := newShelf(t, careful)
	want := map[uuid.UUID]card.Status{}
	for i := range 7 {
		ref := fulfilmenttest.NewRef()
		a, err := s.issuer.Open(t.Context(), card.Opening{Ref: ref, Load: card.Price})
		if err != nil {
			t.Fatal(err)
		}
		c := card.Card{ID: uuid.New(), Owner: owner, Status: card.Active, Ref: ref, Account: a.ID}
		s.store.Put(c)
		want[c.ID] = []card.Status{card.Active, card.Frozen, card.Closed}[i%3]
		s.issuer.SetState(ref, []card.AccountState{card.AccountActive, card.AccountFrozen, card.AccountClosed}[i%3])
	}
	// A foreign card in the list is none of ours.
	if _, err := s.issuer.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: card.Price}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadStates(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	cards, err := s.store.Cards(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cards {
		if c.Status != want[c.ID] {
			t.Errorf("card %s is %s, want %s", c.ID, c.Status, want[c.ID])
		}
	}
	if n := s.issuer.Calls(cardtest.Account); n != 0 {
		t.Errorf("%d cards were asked for", n)
	}
	s.issuer.Fault(cardtest.Accounts, fulfilmenttest.ErrorBefore)
	if out, err := s.ReadStates(t.Context(), nil); err != nil || out.Status != "succeeded" {
		t.Errorf("an issuer that is down leaves an alarm: %+v, %v", out, err)
	}
}

func TestOurOwnFailureIsNotTheIssuersWord(t *testing.T) {
	s, id := owned(t, card.Active)
	s.issuer.SetState(s.ref(id), card.AccountClosed)
	broken := errors.New("no database")
	s.Cards.Store = brokenStore{s.store, broken}
	if _, err := s.Balance(t.Context(), id, owner); !errors.Is(err, broken) {
		t.Errorf("balance: %v", err)
	}
	if _, err := s.List(t.Context(), owner); err != nil {
		t.Errorf("the list: %v", err)
	}
}

type brokenStore struct {
	card.Store
	err error
}

func (b brokenStore) Observe(context.Context, ...card.Seen) ([]card.Card, error) { return nil, b.err }

// TestCardsMoveOnlyForward: but for a lock that is taken off again, no card is ever what it was.
func TestCardsMoveOnlyForward(t *testing.T) {
	for _, m := range card.Moves() {
		if m[0] == m[1] || m[0] == card.Closed || m[0] == card.Failed || m[1] == card.Pending || m[1] == card.Failed {
			t.Errorf("an issuer's report moves a card from %s to %s", m[0], m[1])
		}
	}
	if len(card.Moves()) != 4 {
		t.Errorf("%d moves", len(card.Moves()))
	}
}

// TestBalanceIsReadOnceInAWhile, however often its owner asks, and at once after what moves it.
func TestBalanceIsReadOnceInAWhile(t *testing.T) {
	story(t, careful, func(s *shelf) {
		id := s.paid()
		s.pass(time.Minute)
		calls := func() int { return s.issuer.Calls(cardtest.Balance) + s.issuer.Calls(cardtest.Account) }
		s.wantBalance(id, card.Remaining)
		before := calls()
		for range 50 {
			s.wantBalance(id, card.Remaining)
		}
		if more := calls() - before; more != 0 {
			t.Errorf("50 looks made %d calls", more)
		}
		s.issuer.Spend(s.card(id).Ref, card.Remaining)
		if err := s.Refresh(s.Context(), "", []string{s.card(id).Account}, nil); err != nil {
			t.Fatal(err)
		}
		s.wantBalance(id, 0)
		before = calls()
		s.pass(card.BalanceTTL)
		s.wantBalance(id, 0)
		if more := calls() - before; more != 2 {
			t.Errorf("%d calls for a look after %s", more, card.BalanceTTL)
		}
	})
}
