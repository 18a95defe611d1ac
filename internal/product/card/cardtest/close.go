package cardtest

import (
	"context"
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Remainder implements card.Closer.
func (i *Issuer) Remainder(ctx context.Context, id string) (card.Remainder, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Left); err != nil {
		return card.Remainder{}, err
	}
	a, ok := i.byID[id]
	if !ok {
		return card.Remainder{}, noCard(fulfilment.RefusedRequest)
	}
	return card.Remainder{Available: a.balance, Held: a.held > 0}, nil
}

// Close implements card.Closer.
func (i *Issuer) Close(ctx context.Context, id string) (card.AccountState, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, End); err != nil {
		return "", err
	}
	a, ok := i.byID[id]
	switch {
	case !ok:
		return "", noCard(fulfilment.RefusedRequest)
	case a.State != card.AccountActive && a.State != card.AccountFrozen && a.State != card.AccountClosed:
		return "", &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is " + string(a.State)}
	}
	i.float += a.balance
	a.State, a.balance = card.AccountClosed, 0
	return a.State, nil
}

// Hold is a merchant's hold of a part of a card's balance. release ends it: the merchant takes it, or does not.
func (i *Issuer) Hold(_ *testing.T, id string, amount money.Cents) (release func(taken bool)) {
	i.Lock()
	defer i.Unlock()
	a := i.byID[id]
	a.balance -= amount
	a.held += amount
	return func(taken bool) {
		i.Lock()
		defer i.Unlock()
		a.held -= amount
		if !taken {
			a.balance += amount
		}
	}
}

// remainder wants what is left on a card.
func (h Harness) remainder(t *testing.T, account string, want card.Remainder) {
	t.Helper()
	got, err := h.Closer.Remainder(fulfilmenttest.Context(t), account)
	if err != nil || got != want {
		t.Fatalf("left on the card: %+v, %v; want %+v", got, err, want)
	}
}

// lockedCardIsEmptiedAndClosed is the life of a card after an operator closes it.
func (h Harness) lockedCardIsEmptiedAndClosed(t *testing.T) {
	account, spent := h.active(t), money.Cents(0)
	if h.Charge != nil {
		spent = 100
		h.Charge(t, account.ID, spent)
	}
	h.setFrozen(t, account, true, card.AccountFrozen)
	left := cardLoad - spent
	h.remainder(t, account.ID, card.Remainder{Available: left})
	before := h.stock(t).Float
	m := card.Movement{
		Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: left,
	}
	if h.limited() {
		m.Target = spent
	}
	for range 2 { // the second time changes nothing
		if _, err := h.Issuer.Move(fulfilmenttest.Context(t), m); err != nil {
			t.Fatalf("withdraw the remainder: %v", err)
		}
		h.Settle()
	}
	read, err := h.Issuer.Moved(fulfilmenttest.Context(t), account.ID, m.Ref)
	if err != nil || read != h.moved(m) {
		t.Errorf("the withdrawal reads back as %+v, %v; want %+v", read, err, h.moved(m))
	}
	h.WantExecuted(t, m.Ref, 1)
	h.remainder(t, account.ID, card.Remainder{})
	if gain := h.stock(t).Float - before; gain != left {
		t.Errorf("the float has %s more; want %s", gain, left)
	}
	for range 2 {
		state, err := h.Closer.Close(fulfilmenttest.Context(t), account.ID)
		if err != nil || state != card.AccountClosed {
			t.Fatalf("closed: %q, %v", state, err)
		}
	}
	closed, err := h.Issuer.Account(fulfilmenttest.Context(t), account.Ref)
	if err != nil || closed.State != card.AccountClosed {
		t.Errorf("the closed card reads back as %+v, %v", closed, err)
	}
	if gain := h.stock(t).Float - before; gain != left {
		t.Errorf("after the close, the float has %s more; want %s", gain, left)
	}
	if _, err := h.Controls.SetFrozen(fulfilmenttest.Context(t), account.ID, false); err == nil {
		t.Error("a closed card was unfrozen")
	}
}

// heldMoneyIsNotLeft: what a merchant holds shows, and is not available.
func (h Harness) heldMoneyIsNotLeft(t *testing.T) {
	for _, taken := range []bool{true, false} {
		account := h.active(t)
		release := h.Hold(t, account.ID, 400)
		h.setFrozen(t, account, true, card.AccountFrozen)
		got, err := h.Closer.Remainder(fulfilmenttest.Context(t), account.ID)
		if err != nil || !got.Held || got.Available > cardLoad-400 {
			t.Errorf("while a merchant holds 4.00: %+v, %v", got, err)
		}
		release(taken)
		want := card.Remainder{Available: cardLoad}
		if taken {
			want.Available -= 400
		}
		h.remainder(t, account.ID, want)
	}
}

// withdrawalFromAnotherLimitIsRefused: a withdrawal sets a limit only when it takes its amount from the limit that is
// there.
func (h Harness) withdrawalFromAnotherLimitIsRefused(t *testing.T) {
	account := h.active(t)
	h.setFrozen(t, account, true, card.AccountFrozen)
	m := card.Movement{
		Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: 1000, Target: 1000,
	}
	_, err := h.Issuer.Move(fulfilmenttest.Context(t), m)
	if _, refused := errors.AsType[*fulfilment.Refusal](err); !refused {
		t.Errorf("a withdrawal of 10.00 that leaves 10.00 of %s: %v", cardLoad, err)
	}
	h.remainder(t, account.ID, card.Remainder{Available: cardLoad})
}

// closingFails: an answer that cannot be understood is neither a remainder nor a close nor a refusal.
func (h Harness) closingFails(t *testing.T) {
	for _, mode := range lies {
		t.Run(string(mode), func(t *testing.T) {
			account := h.active(t)
			h.setFrozen(t, account, true, card.AccountFrozen)
			h.Inject(t, Left, mode)
			if got, err := h.Closer.Remainder(fulfilmenttest.Context(t), account.ID); err == nil {
				t.Errorf("left on the card: %+v", got)
			} else {
				h.WantUnknown(t, err)
			}
			h.Inject(t, End, mode)
			state, err := h.Closer.Close(fulfilmenttest.Context(t), account.ID)
			if err == nil && state == card.AccountClosed {
				t.Errorf("closed by an answer that says something else")
			}
			if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
				t.Errorf("refused: %v", err)
			}
		})
	}
}
