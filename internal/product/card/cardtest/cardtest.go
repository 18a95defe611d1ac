// Package cardtest is the conformance kit of card issuers, with an issuer in memory that passes it.
package cardtest

import (
	"context"
	"errors"
	"sync"
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
	Lock      fulfilmenttest.Op = "lock"
	Purchases fulfilmenttest.Op = "purchases"
	Left      fulfilmenttest.Op = "left"
	End       fulfilmenttest.Op = "end"

	ReadLimits fulfilmenttest.Op = "limits"
	SetLimits  fulfilmenttest.Op = "set_limits"
	Details    fulfilmenttest.Op = "details"
)

// Harness is the issuer under test and the handles on what is behind it.
type Harness struct {
	fulfilmenttest.Handles
	Issuer card.Issuer
	Vault  card.Vault
	Stock  card.Stock
	// Lister may be nil.
	Lister card.CardLister
	// Controls is needed where the capabilities say so. Charge is a merchant's purchase with a card, which is declined
	// where the card is frozen, has not enough or is limited; nil where it cannot be made. The merchant's category is
	// 5411.
	Controls card.Controls
	Charge   func(t *testing.T, account string, amount money.Cents)
	// Closer is needed where the capabilities say so. Hold is a merchant's hold of a part of a card's balance, which
	// release ends; nil where there is none.
	Closer card.Closer
	Hold   func(t *testing.T, account string, amount money.Cents) (release func(taken bool))
	// Capabilities are what the issuer declares: they decide what it has to keep to.
	Capabilities card.Capabilities
	// Unbounded says that the issuer opens cards and raises limits beyond its float, and declines what they are used for.
	Unbounded bool
}

// Run checks an issuer. Its float must hold a few thousand dollars and, where there are ranges, one must be open.
func Run(t *testing.T, h Harness) {
	if err := h.Capabilities.Check(); err != nil {
		t.Fatal(err)
	}
	if _, closes := h.Issuer.(card.Closer); closes != h.Capabilities.Close {
		t.Errorf("the adapter closes cards: %t, and declares %t", closes, h.Capabilities.Close)
	}
	operations := []fulfilmenttest.Tested{h.opening(cardLoad), h.movement(card.Load, 2450)}
	if !h.limited() {
		operations = append(operations, h.movement(card.Withdrawal, 1000))
	}
	fulfilmenttest.Run(t, h.Handles, operations...)
	t.Run("OpenedCardBecomesActive", h.openedCardBecomesActive)
	t.Run("MovementsReachTheBalance", h.movementsReachTheBalance)
	if h.limited() {
		t.Run("LimitIsSetToTheTarget", h.limitIsSetToTheTarget)
		t.Run("NothingIsWithdrawnFromALimit", h.nothingIsWithdrawnFromALimit)
	} else {
		t.Run("WithdrawalBeyondTheBalanceIsRefused", h.withdrawalBeyondBalanceIsRefused)
	}
	if !h.Unbounded {
		t.Run("OpenBeyondTheFloatIsRefused", h.openBeyondFloatIsRefused)
	}
	t.Run("FloatPaysForCards", h.floatPaysForCards)
	t.Run("EveryCardIsListed", h.everyCardIsListed)
	if h.Capabilities.Freeze {
		t.Run("FrozenCardIsNotUsed", h.frozenCardIsNotUsed)
		t.Run("FreezingFailsWithoutAWrongAnswer", h.freezingFails)
	}
	if h.Capabilities.Transactions {
		t.Run("TransactionsAreListedNewestFirst", h.transactionsAreListed)
		t.Run("TransactionsFailWithoutAWrongAnswer", h.listingTransactionsFails)
	}
	if h.Capabilities.Limits.Any() {
		t.Run("LimitsAreKept", h.limitsAreKept)
		t.Run("FundsAndLimitsAreApart", h.fundsAndLimitsAreApart)
		t.Run("LimitsFailWithoutAWrongAnswer", h.settingLimitsFails)
	}
	if h.Capabilities.Details.Any() {
		t.Run("DetailsAreThoseDeclared", h.detailsAreThoseDeclared)
		t.Run("DetailsFailWithoutAWrongAnswer", h.readingDetailsFails)
	}
	if h.Capabilities.Close {
		t.Run("LockedCardIsEmptiedAndClosed", h.lockedCardIsEmptiedAndClosed)
		t.Run("ClosingFailsWithoutAWrongAnswer", h.closingFails)
		if h.Hold != nil {
			t.Run("HeldMoneyIsNotLeft", h.heldMoneyIsNotLeft)
		}
		if h.limited() {
			t.Run("WithdrawalFromAnotherLimitIsRefused", h.withdrawalFromAnotherLimitIsRefused)
		}
	}
	if h.Capabilities.Reveal == card.RevealEmbed {
		t.Run("CredentialsAreShownOnAPageOnly", h.credentialsAreShownOnAPageOnly)
	} else {
		t.Run("CredentialsAreWellFormedAndHidden", h.credentialsAreWellFormedAndHidden)
	}
}

func (h Harness) limited() bool { return h.Capabilities.Funding == card.Limit }

const cardLoad money.Cents = 2500

// opening is the making of a card with a load.
func (h Harness) opening(load money.Cents) fulfilmenttest.Operation[card.Account] {
	return fulfilmenttest.Operation[card.Account]{
		Name: "open", Send: Open, Read: Account, Lookup: h.Issuer.Account,
		New: func(*testing.T) fulfilmenttest.Request[card.Account] {
			o := card.Opening{Ref: fulfilmenttest.NewRef(), Load: load, Limit: h.limited()}
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
func (h Harness) movement(direction card.Direction, amount money.Cents) fulfilmenttest.Operation[card.MovementRecord] {
	change := amount
	if direction == card.Withdrawal {
		change = -amount
	}
	on := &accounts{named: map[fulfilment.Ref]string{}}
	return fulfilmenttest.Operation[card.MovementRecord]{
		Name: string(direction), Send: Move, Read: Moved,
		Lookup: func(ctx context.Context, ref fulfilment.Ref) (card.MovementRecord, error) {
			return h.Issuer.Moved(ctx, on.of(ref), ref)
		},
		New: func(t *testing.T) fulfilmenttest.Request[card.MovementRecord] {
			account := h.active(t)
			m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: direction, Amount: amount}
			m.Target = h.target(m, cardLoad)
			on.note(m)
			other := m
			other.Amount, other.Target = m.Amount+1, h.target(m, cardLoad+1)
			return fulfilmenttest.Request[card.MovementRecord]{
				Ref:     m.Ref,
				Send:    func(ctx context.Context) (card.MovementRecord, error) { return h.Issuer.Move(ctx, m) },
				Altered: func(ctx context.Context) (card.MovementRecord, error) { return h.Issuer.Move(ctx, other) },
				Effect: func(t *testing.T, times int) {
					t.Helper()
					h.wantBalance(t, account.ID, cardLoad+change*money.Cents(times))
				},
			}
		},
		ID:      func(card.MovementRecord) string { return "" },
		Done:    func(m card.MovementRecord) bool { return m.State == card.MoveSucceeded },
		Pending: func(m card.MovementRecord) bool { return m.State == card.MovePending },
		Refusal: func(m card.MovementRecord) *fulfilment.Refusal {
			if m.State != card.MoveFailed {
				return nil
			}
			return m.Refusal
		},
		Same: func(a, b card.MovementRecord) bool { return a == b },
	}
}

// accounts are the cards of movements, which an issuer is asked with.
type accounts struct {
	mu    sync.Mutex
	named map[fulfilment.Ref]string
	last  string
}

func (a *accounts) note(m card.Movement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.named[m.Ref], a.last = m.Account, m.Account
}

// of is the card of a movement; for a movement that never was, any card.
func (a *accounts) of(ref fulfilment.Ref) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if account, known := a.named[ref]; known {
		return account
	}
	return a.last
}

// target is what a load brings a card to that was loaded with an amount before; zero where there are no targets.
func (h Harness) target(m card.Movement, before money.Cents) money.Cents {
	if m.Direction != card.Load {
		return 0
	}
	return before + m.Amount
}

// moved is a movement that was executed.
func (h Harness) moved(m card.Movement) card.MovementRecord {
	done := card.MovementRecord{
		Ref: m.Ref, Account: m.Account, Direction: m.Direction, Amount: m.Amount, State: card.MoveSucceeded,
	}
	if h.limited() {
		done.Target = m.Target
	}
	return done
}

// active opens a card and waits until it is active.
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
	opened, err := h.Issuer.Open(ctx, card.Opening{Ref: ref, Load: cardLoad, Limit: h.limited()})
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
		if h.limited() && step.direction == card.Withdrawal {
			continue
		}
		ctx := fulfilmenttest.Context(t)
		move := card.Movement{
			Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: step.direction, Amount: step.amount,
		}
		move.Target = h.target(move, want)
		asked, err := h.Issuer.Move(ctx, move)
		if err != nil {
			t.Fatalf("%s: %v", step.direction, err)
		}
		if asked.State != card.MovePending && asked.State != card.MoveSucceeded {
			t.Errorf("a new %s is %s", step.direction, asked.State)
		}
		h.Settle()
		read, err := h.Issuer.Moved(ctx, account.ID, move.Ref)
		done := h.moved(move)
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
	movement, gain := h.movement(card.Withdrawal, 1000), money.Cents(1000)
	if h.limited() {
		movement, gain = h.movement(card.Load, 2450), -2450
	}
	r := movement.New(t) // opens a card
	after := h.stock(t)
	if before.Float-after.Float != cardLoad {
		t.Errorf("the float went from %v to %v; want %v less", before.Float, after.Float, cardLoad)
	}
	if _, err := r.Send(fulfilmenttest.Context(t)); err != nil {
		t.Fatalf("%s: %v", movement.Name, err)
	}
	h.Settle()
	last := h.stock(t)
	if last.Float-after.Float != gain {
		t.Errorf("the float went from %v to %v; want %v more", after.Float, last.Float, gain)
	}
	if (len(last.BINs) > 0) != h.Capabilities.BINs || last.AsOf.IsZero() {
		t.Errorf("stock is %+v; want a time, and ranges: %t", last, h.Capabilities.BINs)
	}
	for _, bin := range last.BINs {
		if len(bin.Prefix) < 4 {
			t.Errorf("range %+v has no prefix", bin)
		}
	}
}

func asRefusal(err error) (*fulfilment.Refusal, bool) { return errors.AsType[*fulfilment.Refusal](err) }
