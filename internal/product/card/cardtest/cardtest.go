// Package cardtest holds what every card issuer must keep to, as tests, and an issuer in memory that does.
package cardtest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// The calls of the ports, as faults name them.
const (
	Open      fulfilmenttest.Op = "open"
	Account   fulfilmenttest.Op = "account"
	Move      fulfilmenttest.Op = "move"
	Moved     fulfilmenttest.Op = "moved"
	Balance   fulfilmenttest.Op = "balance"
	Accounts  fulfilmenttest.Op = "accounts"
	Sensitive fulfilmenttest.Op = "sensitive"
	Stock     fulfilmenttest.Op = "stock"
)

// Harness is the issuer under test and the handles on what is behind it.
type Harness struct {
	fulfilmenttest.Handles
	Issuer card.Issuer
	Vault  card.Vault
	Stock  card.Stock
	// Roll may be nil.
	Roll card.Roll
}

// Run checks an issuer. Its float must hold a few thousand dollars and one range must be open.
func Run(t *testing.T, h Harness) {
	fulfilmenttest.Run(
		t, h.Handles, h.opening(cardLoad), h.movement(card.Load, 2450), h.movement(card.Withdrawal, 1000),
	)
	t.Run("OpenedCardBecomesActive", h.openedCardBecomesActive)
	t.Run("LoadAndWithdrawalReachTheBalance", h.movementsReachTheBalance)
	t.Run("WithdrawalBeyondTheBalanceIsRefused", h.withdrawalBeyondBalanceIsRefused)
	t.Run("OpenBeyondTheFloatIsRefused", h.openBeyondFloatIsRefused)
	t.Run("FloatPaysForCards", h.floatPaysForCards)
	t.Run("EveryCardIsListed", h.everyCardIsListed)
	t.Run("CredentialsAreWellFormedAndHidden", h.credentialsAreWellFormedAndHidden)
}

const cardLoad money.Cents = 2500

// opening is the making of a card with a load.
func (h Harness) opening(load money.Cents) fulfilmenttest.Operation[card.Account] {
	return fulfilmenttest.Operation[card.Account]{
		Name: "open", Send: Open, Read: Account, Lookup: h.Issuer.Account,
		New: func(*testing.T) fulfilmenttest.Request[card.Account] {
			o := card.Opening{Ref: fulfilmenttest.NewRef(), Load: load}
			other := o
			other.Load++
			return fulfilmenttest.Request[card.Account]{
				Ref:     o.Ref,
				Send:    func(ctx context.Context) (card.Account, error) { return h.Issuer.Open(ctx, o) },
				Altered: func(ctx context.Context) (card.Account, error) { return h.Issuer.Open(ctx, other) },
			}
		},
		ID:      func(a card.Account) string { return a.ID },
		Done:    func(a card.Account) bool { return a.State == card.AccountActive },
		Pending: func(a card.Account) bool { return a.State == card.AccountPending },
		Refusal: func(a card.Account) *fulfilment.Refusal { return a.Refusal },
		Same:    func(a, b card.Account) bool { return a == b },
	}
}

// movement moves an amount to or from a card that was opened for it.
func (h Harness) movement(direction card.Direction, amount money.Cents) fulfilmenttest.Operation[card.Moved] {
	change := amount
	if direction == card.Withdrawal {
		change = -amount
	}
	return fulfilmenttest.Operation[card.Moved]{
		Name: string(direction), Send: Move, Read: Moved, Lookup: h.Issuer.Moved,
		New: func(t *testing.T) fulfilmenttest.Request[card.Moved] {
			account := h.active(t)
			m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: direction, Amount: amount}
			other := m
			other.Amount++
			return fulfilmenttest.Request[card.Moved]{
				Ref:     m.Ref,
				Send:    func(ctx context.Context) (card.Moved, error) { return h.Issuer.Move(ctx, m) },
				Altered: func(ctx context.Context) (card.Moved, error) { return h.Issuer.Move(ctx, other) },
				Effect: func(t *testing.T, times int) {
					t.Helper()
					h.wantBalance(t, account.ID, cardLoad+change*money.Cents(times))
				},
			}
		},
		ID:      func(card.Moved) string { return "" },
		Done:    func(m card.Moved) bool { return m.State == card.MoveSucceeded },
		Pending: func(m card.Moved) bool { return m.State == card.MovePending },
		Refusal: func(m card.Moved) *fulfilment.Refusal {
			if m.State != card.MoveFailed {
				return nil
			}
			return m.Refusal
		},
		Same: func(a, b card.Moved) bool { return a == b },
	}
}

// active opens a card and sees it through.
func (h Harness) active(t *testing.T) card.Account {
	t.Helper()
	_, account := h.opening(cardLoad).Finished(t, h.Handles)
	return account
}

func (h Harness) wantBalance(t *testing.T, account string, want money.Cents) {
	t.Helper()
	got, err := h.Vault.Balance(fulfilmenttest.Context(t), account)
	if err != nil || got.Available != want || got.AsOf.IsZero() {
		t.Errorf("balance is %+v, %v; want %v with its time", got, err, want)
	}
}

func (h Harness) stock(t *testing.T) card.Inventory {
	t.Helper()
	got, err := h.Stock.Stock(fulfilmenttest.Context(t))
	if err != nil {
		t.Fatalf("stock: %v", err)
	}
	return got
}

func (h Harness) openedCardBecomesActive(t *testing.T) {
	ctx, ref := fulfilmenttest.Context(t), fulfilmenttest.NewRef()
	opened, err := h.Issuer.Open(ctx, card.Opening{Ref: ref, Load: cardLoad})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if opened.ID == "" || opened.Ref != ref || opened.Loaded != cardLoad {
		t.Errorf("opened %+v; want an id, the reference and the load", opened)
	}
	if opened.State != card.AccountPending && opened.State != card.AccountActive {
		t.Errorf("a new card is %s", opened.State)
	}
	h.Settle()
	read, err := h.Issuer.Account(ctx, ref)
	if err != nil {
		t.Fatalf("read back: %v", err)
	}
	want := card.Account{ID: opened.ID, Ref: ref, State: card.AccountActive, Last4: read.Last4, Loaded: cardLoad}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("the card reads back differently (-want +got):\n%s", diff)
	}
	if len(read.Last4) != 4 {
		t.Errorf("last four digits are %q", read.Last4)
	}
	h.wantBalance(t, read.ID, cardLoad)
	h.WantExecuted(t, ref, 1)
}

func (h Harness) movementsReachTheBalance(t *testing.T) {
	account := h.active(t)
	want := cardLoad
	for _, step := range []struct {
		direction card.Direction
		amount    money.Cents
		change    money.Cents
	}{
		{card.Load, 2450, 2450},
		{card.Withdrawal, 1000, -1000},
		{card.Withdrawal, 3950, -3950},
	} {
		ctx := fulfilmenttest.Context(t)
		move := card.Movement{
			Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: step.direction, Amount: step.amount,
		}
		asked, err := h.Issuer.Move(ctx, move)
		if err != nil {
			t.Fatalf("%s: %v", step.direction, err)
		}
		if asked.State != card.MovePending && asked.State != card.MoveSucceeded {
			t.Errorf("a new %s is %s", step.direction, asked.State)
		}
		h.Settle()
		read, err := h.Issuer.Moved(ctx, move.Ref)
		done := card.Moved{
			Ref: move.Ref, Account: account.ID, Direction: step.direction, Amount: step.amount,
			State: card.MoveSucceeded,
		}
		if err != nil || read != done {
			t.Errorf("the %s reads back as %+v, %v; want %+v", step.direction, read, err, done)
		}
		want += step.change
		h.wantBalance(t, account.ID, want)
	}
}

func (h Harness) withdrawalBeyondBalanceIsRefused(t *testing.T) {
	beyond := h.movement(card.Withdrawal, cardLoad+1)
	beyond.WantRefused(t, h.Handles, beyond.New(t), card.RefusedFunds)
}

func (h Harness) openBeyondFloatIsRefused(t *testing.T) {
	before := h.stock(t).Float
	beyond := h.opening(before + 1)
	beyond.WantRefused(t, h.Handles, beyond.New(t), fulfilment.RefusedFloat)
	if after := h.stock(t).Float; after != before {
		t.Errorf("the float went from %v to %v", before, after)
	}
}

func (h Harness) floatPaysForCards(t *testing.T) {
	before := h.stock(t)
	withdrawal := h.movement(card.Withdrawal, 1000)
	r := withdrawal.New(t) // opens a card
	after := h.stock(t)
	if before.Float-after.Float != cardLoad {
		t.Errorf("the float went from %v to %v; want %v less", before.Float, after.Float, cardLoad)
	}
	if _, err := r.Send(fulfilmenttest.Context(t)); err != nil {
		t.Fatalf("withdraw: %v", err)
	}
	h.Settle()
	last := h.stock(t)
	if last.Float-after.Float != 1000 {
		t.Errorf("the float went from %v to %v; want 10.00 more", after.Float, last.Float)
	}
	if len(last.BINs) == 0 || last.AsOf.IsZero() {
		t.Errorf("stock is %+v; want ranges and a time", last)
	}
	for _, bin := range last.BINs {
		if len(bin.Prefix) < 4 {
			t.Errorf("range %+v has no prefix", bin)
		}
	}
}
