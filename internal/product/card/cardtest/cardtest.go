// Package cardtest holds what every card issuer must keep to, as tests, and an issuer in memory that does.
package cardtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Op is a call of the ports, as faults name it.
type Op string

// The calls.
const (
	Open      Op = "open"
	Account   Op = "account"
	Move      Op = "move"
	Moved     Op = "moved"
	Balance   Op = "balance"
	Accounts  Op = "accounts"
	Sensitive Op = "sensitive"
	Stock     Op = "stock"
)

// Mode is a way for one call to go wrong.
type Mode string

// The modes that the suite knows. An issuer may have more.
const (
	ErrorBefore   Mode = "error_before"
	ErrorAfter    Mode = "error_after"
	TimeoutBefore Mode = "timeout_before"
	TimeoutAfter  Mode = "timeout_after"
	Refused       Mode = "refused"
	Malformed     Mode = "malformed"
	Truncated     Mode = "truncated"
	Huge          Mode = "huge"
	RateLimited   Mode = "rate_limited"
	Unauthorized  Mode = "unauthorized"
	UnknownState  Mode = "unknown_state"
	WrongAmount   Mode = "wrong_amount"
	Inexact       Mode = "inexact_amount"
	WrongCurrency Mode = "wrong_currency"
	WrongOwner    Mode = "wrong_owner"
	Duplicate     Mode = "duplicate"
)

// Harness is the issuer under test and the handles on what is behind it.
type Harness struct {
	Issuer card.Issuer
	Vault  card.Vault
	Stock  card.Stock
	// Roll may be nil.
	Roll   card.Roll
	Traits fulfilment.Traits
	// Settle makes everything pending complete. Until then it stays pending.
	Settle func()
	// Fault spoils the next call of one kind, and says whether it can. May be nil.
	Fault func(Op, Mode) bool
	// Executed is how often a mutation with a reference really took effect. May be nil.
	Executed func(fulfilment.Ref) int
}

// Run checks an issuer. Its float must hold a few hundred dollars and one range must be open.
func Run(t *testing.T, h Harness) {
	t.Run("OpenedCardBecomesActive", h.openedCardBecomesActive)
	t.Run("UnknownReferenceIsErrNoRef", h.unknownReferenceIsErrNoRef)
	t.Run("RepeatedOpenTakesEffectOnce", h.repeatedOpenTakesEffectOnce)
	t.Run("RepeatedMoveTakesEffectOnce", h.repeatedMoveTakesEffectOnce)
	t.Run("ReferenceIsNotReusedForOtherContent", h.referenceIsNotReused)
	t.Run("LoadAndWithdrawalReachTheBalance", h.movementsReachTheBalance)
	t.Run("WithdrawalBeyondTheBalanceIsRefused", h.withdrawalBeyondBalanceIsRefused)
	t.Run("OpenBeyondTheFloatIsRefused", h.openBeyondFloatIsRefused)
	t.Run("FloatPaysForCards", h.floatPaysForCards)
	t.Run("EveryCardIsListed", h.everyCardIsListed)
	t.Run("CredentialsAreWellFormedAndHidden", h.credentialsAreWellFormedAndHidden)
	t.Run("UnknownOutcomesAreReadBack", h.unknownOutcomesAreReadBack)
	t.Run("UnreadableAnswersAreNotRefusals", h.unreadableAnswersAreNotRefusals)
	t.Run("DefiniteNoIsARefusal", h.definiteNoIsARefusal)
	t.Run("UnfamiliarStateIsPending", h.unfamiliarStateIsPending)
	t.Run("FailedReadsAreNotErrNoRef", h.failedReadsAreNotErrNoRef)
}

// NewRef is a reference that nobody has used.
func NewRef() fulfilment.Ref { return fulfilment.Ref(uuid.New()) }

const cardLoad money.Cents = 2500

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// active opens a card and sees it through.
func (h Harness) active(t *testing.T) card.Account {
	t.Helper()
	ref := NewRef()
	if _, err := h.Issuer.Open(background(t), card.Opening{Ref: ref, Load: cardLoad}); err != nil {
		t.Fatalf("open: %v", err)
	}
	h.Settle()
	account, err := h.Issuer.Account(background(t), ref)
	if err != nil || account.State != card.AccountActive {
		t.Fatalf("the opened card reads back as %+v, %v; want an active one", account, err)
	}
	return account
}

func (h Harness) wantBalance(t *testing.T, account string, want money.Cents) {
	t.Helper()
	got, err := h.Vault.Balance(background(t), account)
	if err != nil || got.Available != want || got.AsOf.IsZero() {
		t.Errorf("balance is %+v, %v; want %v with its time", got, err, want)
	}
}

func (h Harness) wantExecuted(t *testing.T, ref fulfilment.Ref, want int) {
	t.Helper()
	if h.Executed == nil {
		return
	}
	if got := h.Executed(ref); got != want {
		t.Errorf("the mutation took effect %d times, want %d", got, want)
	}
}

// fault spoils the next call, or skips the test where that is not possible.
func (h Harness) fault(t *testing.T, op Op, mode Mode) {
	t.Helper()
	if h.Fault == nil || !h.Fault(op, mode) {
		t.Skipf("the issuer cannot %s on %s", mode, op)
	}
}

// refusal is the definite no in either of its two forms: as the error of a mutation, or in what is
// read back.
func refusal(err error, read *fulfilment.Refusal) *fulfilment.Refusal {
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		return no
	}
	return read
}

func (h Harness) openedCardBecomesActive(t *testing.T) {
	ref := NewRef()
	opened, err := h.Issuer.Open(background(t), card.Opening{Ref: ref, Load: cardLoad})
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
	read, err := h.Issuer.Account(background(t), ref)
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
	h.wantExecuted(t, ref, 1)
}

func (h Harness) unknownReferenceIsErrNoRef(t *testing.T) {
	if _, err := h.Issuer.Account(background(t), NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Account = %v, want ErrNoRef", err)
	}
	if _, err := h.Issuer.Moved(background(t), NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Moved = %v, want ErrNoRef", err)
	}
}

func (h Harness) floatPaysForCards(t *testing.T) {
	before, err := h.Stock.Stock(background(t))
	if err != nil {
		t.Fatalf("stock: %v", err)
	}
	account := h.active(t)
	after, err := h.Stock.Stock(background(t))
	if err != nil || before.Float-after.Float != cardLoad {
		t.Errorf("the float went from %v to %v, %v; want %v less", before.Float, after.Float, err, cardLoad)
	}
	ref := NewRef()
	move := card.Movement{Ref: ref, Account: account.ID, Direction: card.Withdrawal, Amount: 1000}
	if _, err := h.Issuer.Move(background(t), move); err != nil {
		t.Fatalf("withdraw: %v", err)
	}
	h.Settle()
	last, err := h.Stock.Stock(background(t))
	if err != nil || last.Float-after.Float != 1000 {
		t.Errorf("the float went from %v to %v, %v; want 10.00 more", after.Float, last.Float, err)
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
