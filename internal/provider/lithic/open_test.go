package lithic_test

import (
	"context"
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

func refusalOf(err error) *fulfilment.Refusal {
	no, _ := errors.AsType[*fulfilment.Refusal](err)
	return no
}

// TestOpeningThatWasInterruptedIsFinished: the card was made, and its load was not.
func TestOpeningThatWasInterruptedIsFinished(t *testing.T) {
	for name, c := range map[string]struct {
		op    string
		mode  vendorfake.Mode
		cards int
	}{
		"the answer to the card is lost":      {"open", vendorfake.TimeoutAfter, 1},
		"the answer to the card is a failure": {"open", vendorfake.ErrorAfter, 1},
		"the card is not made":                {"open", vendorfake.TimeoutBefore, 0},
		"the load is not made":                {"move", vendorfake.TimeoutBefore, 1},
		"the load is limited":                 {"move", vendorfake.RateLimited, 1},
		"the load is in conflict":             {"move", vendorfake.Conflict, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, lithicfake.Config{}, false)
			o := opening(2500)
			b.fake.Fault(c.op, c.mode)
			_, err := b.Open(t.Context(), o)
			b.handles().WantUnknown(t, err)
			if _, err := b.Account(t.Context(), o.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
				t.Errorf("a card without its load reads as %v", err)
			}
			if n := len(b.fake.Cards()); n != c.cards {
				t.Errorf("%d cards", n)
			}
			b.fake.ForgetKeys() // the card is found by its memo
			opened, err := b.Open(t.Context(), o)
			if err != nil || opened.State != card.AccountActive || len(b.fake.Cards()) != 1 {
				t.Errorf("sent again: %+v, %v, %d cards", opened, err, len(b.fake.Cards()))
			}
			if n := b.fake.Requests()["open"]; n != 2-c.cards {
				t.Errorf("a card was asked for %d times", n)
			}
			b.wantBalance(opened.ID, 2500)
		})
	}
}

// A card that lists do not have yet is made by the same key, not again.
func TestCardThatAppearsLateIsMadeOnce(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	o := opening(2500)
	b.fake.Fault("open", vendorfake.Late)
	_, err := b.Open(t.Context(), o)
	b.handles().WantUnknown(t, err)
	opened, err := b.Open(t.Context(), o)
	if err != nil || len(b.fake.Cards()) != 1 || b.fake.Requests()["open"] != 2 {
		t.Errorf("sent again: %v, %d cards", err, len(b.fake.Cards()))
	}
	b.fake.Reveal()
	if read, err := b.Account(t.Context(), o.Ref); err != nil || read != opened {
		t.Errorf("read back: %+v, %v; want %+v", read, err, opened)
	}
}

func TestLostAnswerAndAnotherBodyIsUnknown(t *testing.T) {
	for _, replays := range []bool{false, true} {
		b := start(t, lithicfake.Config{Replays: replays}, false)
		o, a := opening(2500), b.opened(2500)
		m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000}
		otherOpening, otherMove := o, m
		otherOpening.Load, otherMove.Amount = 2600, 1100
		back := m
		back.Direction = card.Withdrawal
		b.fake.Fault("move", vendorfake.TimeoutAfter)
		_, err := b.Open(t.Context(), o)
		b.handles().WantUnknown(t, err)
		b.fake.Fault("move", vendorfake.TimeoutAfter)
		_, err = b.Move(t.Context(), m)
		b.handles().WantUnknown(t, err)
		for name, send := range map[string]func() error{
			"another load of a card": func() error { _, err := b.Open(t.Context(), otherOpening); return err },
			"another amount":         func() error { _, err := b.Move(t.Context(), otherMove); return err },
			"another direction":      func() error { _, err := b.Move(t.Context(), back); return err },
		} {
			t.Run(name, func(t *testing.T) { b.handles().WantUnknown(t, send()) })
		}
		b.wantBalance(a.ID, 3500)
	}
}

// TestRejectionThatCannotBeReadBackIsNoRefusal: the vendor rejects a name that was used before, too.
func TestRejectionThatCannotBeReadBackIsNoRefusal(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	b.fake.Fault("account", vendorfake.Reordered) // the search before, which is right
	b.fake.Fault("account", vendorfake.ErrorBefore)
	b.fake.Fault("open", vendorfake.Refused)
	_, err := b.Open(t.Context(), opening(2500))
	b.handles().WantUnknown(t, err)

	a := b.opened(2500)
	b.fake.Fault("move", vendorfake.Refused)
	b.fake.Fault("moved", vendorfake.ErrorBefore)
	_, err = b.Move(t.Context(), card.Movement{
		Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000,
	})
	b.handles().WantUnknown(t, err)
}

// TestRefusedLoadLeavesNoOpenCard: the card was made, and the vendor does not take the request for its load.
func TestRefusedLoadLeavesNoOpenCard(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	b.fake.Fault("move", vendorfake.Refused)
	_, err := b.Open(t.Context(), opening(2500))
	if no, ok := errors.AsType[*fulfilment.Refusal](err); !ok || no.Code != fulfilment.RefusedRequest {
		t.Errorf("open = %v", err)
	}
	if all := b.fake.Cards(); len(all) != 1 || all[0].State != "CLOSED" || all[0].Balance != 0 {
		t.Errorf("the cards are %+v", all)
	}
}

func TestRefusedOpeningLeavesNoOpenCard(t *testing.T) {
	b := start(t, lithicfake.Config{Float: 2499}, false)
	o := opening(2500)
	for range 2 {
		a, err := b.Open(t.Context(), o)
		if err != nil || a.State != card.AccountRejected || a.Refusal.Code != fulfilment.RefusedFloat {
			t.Errorf("open = %+v, %v", a, err)
		}
	}
	if all := b.fake.Cards(); len(all) != 1 || all[0].State != "CLOSED" || all[0].Balance != 0 {
		t.Errorf("the cards are %+v", all)
	}
	// The float came later: the refusal stands.
	b.fake.SetFloat(100_000)
	read, err := b.Account(t.Context(), o.Ref)
	if err != nil || read.State != card.AccountRejected {
		t.Errorf("read back: %+v, %v", read, err)
	}
}

func TestOnlyWhatTheVendorDocumentsIsARefusal(t *testing.T) {
	for mode, want := range map[vendorfake.Mode]string{
		vendorfake.Refused: fulfilment.RefusedRequest, vendorfake.Conflict: "", vendorfake.RateLimited: "",
		vendorfake.ErrorBefore: "", vendorfake.ErrorAfter: "", vendorfake.Unauthorized: "", vendorfake.NotFound: "",
		vendorfake.Malformed: "", vendorfake.Truncated: "", vendorfake.Huge: "", vendorfake.TimeoutBefore: "",
	} {
		t.Run(string(mode), func(t *testing.T) {
			b := start(t, lithicfake.Config{}, false)
			a := b.opened(2500)
			for op, send := range map[string]func(context.Context) error{
				"open": func(ctx context.Context) error { _, err := b.Open(ctx, opening(2500)); return err },
				"move": func(ctx context.Context) error {
					_, err := b.Move(ctx, card.Movement{
						Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000,
					})
					return err
				},
			} {
				b.fake.Fault(op, mode)
				err := send(t.Context())
				code := ""
				if no := refusalOf(err); no != nil {
					code = no.Code
				}
				if err == nil || code != want {
					t.Errorf("%s: %v, want the refusal %q", op, err, want)
				}
			}
		})
	}
}

func TestCardOfAnotherProgrammeIsNotTaken(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	b.config.Program = newToken()
	other := dial(t, b.config)
	// The vendor has no such programme: nothing was made, so it is a refusal.
	if _, err := other.Open(t.Context(), opening(2500)); refusalOf(err) == nil {
		t.Errorf("open = %v", err)
	}
	if _, err := other.Stock(t.Context()); err == nil || refusalOf(err) != nil {
		t.Errorf("stock = %v", err)
	}
}

func TestAmbiguousSearchIsNoRecord(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for _, mode := range []vendorfake.Mode{vendorfake.Contradiction, vendorfake.WrongOwner} {
		b.fake.Fault("account", mode)
		_, err := b.Account(t.Context(), a.Ref)
		b.handles().WantUnknown(t, err)
	}
	// Somebody wrote our reference into the memo of another card.
	other := b.opened(2500)
	b.fake.SetMemo(other.ID, "replaces "+a.Ref.String())
	_, err := b.Account(t.Context(), a.Ref)
	b.handles().WantUnknown(t, err)
	if n := len(b.fake.Cards()); n != 2 {
		t.Errorf("%d cards", n)
	}
}

func TestStatesOfCards(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for state, want := range map[string]card.AccountState{
		"PAUSED": card.AccountFrozen, "OPEN": card.AccountActive, "PENDING_ACTIVATION": card.AccountPending,
		"PENDING_FULFILLMENT": card.AccountPending, "LOST_IN_TRANSIT": card.AccountPending, "CLOSED": card.AccountClosed,
	} {
		b.fake.SetState(a.ID, state)
		read, err := b.Account(t.Context(), a.Ref)
		if err != nil || read.State != want {
			t.Errorf("%s reads as %s, %v", state, read.State, err)
		}
		page, _, err := b.Accounts(t.Context(), "")
		if err != nil || len(page) != 1 || page[0].State != want {
			t.Errorf("%s is listed as %+v, %v", state, page, err)
		}
	}
}

func TestLimitIsRefused(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	o := opening(2500)
	o.Limit = true
	if _, err := b.Open(t.Context(), o); refusalOf(err) == nil {
		t.Errorf("open = %v", err)
	}
	if n := len(b.fake.Cards()); n != 0 {
		t.Errorf("%d cards", n)
	}
}
