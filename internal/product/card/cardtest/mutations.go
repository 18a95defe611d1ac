package cardtest

import (
	"errors"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

const copies = 6

func (h Harness) repeatedOpenTakesEffectOnce(t *testing.T) {
	if !h.Traits.Deduplicates {
		t.Skip("the issuer does not deduplicate")
	}
	ctx := background(t)
	opening := card.Opening{Ref: NewRef(), Load: cardLoad}
	var ids sync.Map
	var sent sync.WaitGroup
	for range copies {
		sent.Go(func() {
			account, err := h.Issuer.Open(ctx, opening)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			ids.Store(account.ID, true)
		})
	}
	sent.Wait()
	h.Settle()
	again, err := h.Issuer.Open(ctx, opening)
	if err != nil || again.State != card.AccountActive {
		t.Errorf("repeated when it was done: %+v, %v", again, err)
	}
	ids.Store(again.ID, true)
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("one reference made %d cards", n)
	}
	h.wantExecuted(t, opening.Ref, 1)
}

func (h Harness) repeatedMoveTakesEffectOnce(t *testing.T) {
	if !h.Traits.Deduplicates {
		t.Skip("the issuer does not deduplicate")
	}
	ctx := background(t)
	account := h.active(t)
	move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: 1000}
	var sent sync.WaitGroup
	for range copies {
		sent.Go(func() {
			if _, err := h.Issuer.Move(ctx, move); err != nil {
				t.Errorf("withdraw: %v", err)
			}
		})
	}
	sent.Wait()
	h.Settle()
	if again, err := h.Issuer.Move(ctx, move); err != nil || again.State != card.MoveSucceeded {
		t.Errorf("repeated when it was done: %+v, %v", again, err)
	}
	h.wantBalance(t, account.ID, cardLoad-1000)
	h.wantExecuted(t, move.Ref, 1)
}

func (h Harness) referenceIsNotReused(t *testing.T) {
	if !h.Traits.Deduplicates {
		t.Skip("the issuer does not deduplicate")
	}
	ctx := background(t)
	opening := card.Opening{Ref: NewRef(), Load: cardLoad}
	if _, err := h.Issuer.Open(ctx, opening); err != nil {
		t.Fatalf("open: %v", err)
	}
	opening.Load++
	_, err := h.Issuer.Open(ctx, opening)
	// Something did happen under this reference, so this is no refusal.
	wantUnknown(t, err)
	h.wantExecuted(t, opening.Ref, 1)
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
		move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: step.direction, Amount: step.amount}
		asked, err := h.Issuer.Move(background(t), move)
		if err != nil {
			t.Fatalf("%s: %v", step.direction, err)
		}
		if asked.State != card.MovePending && asked.State != card.MoveSucceeded {
			t.Errorf("a new %s is %s", step.direction, asked.State)
		}
		h.Settle()
		read, err := h.Issuer.Moved(background(t), move.Ref)
		done := card.Moved{
			Ref: move.Ref, Account: account.ID, Direction: step.direction, Amount: step.amount, State: card.MoveSucceeded,
		}
		if err != nil || read != done {
			t.Errorf("the %s reads back as %+v, %v; want %+v", step.direction, read, err, done)
		}
		want += step.change
		h.wantBalance(t, account.ID, want)
	}
}

func (h Harness) withdrawalBeyondBalanceIsRefused(t *testing.T) {
	account := h.active(t)
	move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: cardLoad + 1}
	moved, err := h.Issuer.Move(background(t), move)
	if err == nil {
		h.Settle()
		moved, err = h.Issuer.Moved(background(t), move.Ref)
		if moved.State != card.MoveFailed {
			t.Errorf("the withdrawal is %s, %v; want failed", moved.State, err)
		}
	}
	if no := refusal(err, moved.Refusal); no == nil || no.Code != card.RefusedFunds {
		t.Errorf("refused with %+v, %v; want %s", no, err, card.RefusedFunds)
	}
	h.wantBalance(t, account.ID, cardLoad)
}

func (h Harness) openBeyondFloatIsRefused(t *testing.T) {
	stock, err := h.Stock.Stock(background(t))
	if err != nil {
		t.Fatalf("stock: %v", err)
	}
	ref := NewRef()
	account, err := h.Issuer.Open(background(t), card.Opening{Ref: ref, Load: stock.Float + 1})
	if err == nil {
		h.Settle()
		account, err = h.Issuer.Account(background(t), ref)
	}
	if no := refusal(err, account.Refusal); no == nil || no.Code != fulfilment.RefusedFloat {
		t.Errorf("refused with %+v, %v; want %s", no, err, fulfilment.RefusedFloat)
	}
	if h.Traits.Deduplicates {
		_, err = h.Issuer.Open(background(t), card.Opening{Ref: ref, Load: stock.Float + 1})
		if no := refusal(err, nil); no == nil || no.Code != fulfilment.RefusedFloat {
			t.Errorf("repeated: %v, want the same refusal", err)
		}
	}
	after, err := h.Stock.Stock(background(t))
	if err != nil || after.Float != stock.Float {
		t.Errorf("the float went from %v to %v, %v", stock.Float, after.Float, err)
	}
}

func (h Harness) unknownOutcomesAreReadBack(t *testing.T) {
	for mode, happened := range map[Mode]bool{
		TimeoutBefore: false, ErrorBefore: false, TimeoutAfter: true, ErrorAfter: true,
	} {
		t.Run("open/"+string(mode), func(t *testing.T) {
			h.fault(t, Open, mode)
			ref := NewRef()
			_, err := h.Issuer.Open(background(t), card.Opening{Ref: ref, Load: cardLoad})
			wantUnknown(t, err)
			_, err = h.Issuer.Account(background(t), ref)
			wantFound(t, err, happened)
			h.wantExecuted(t, ref, count(happened))
		})
		t.Run("move/"+string(mode), func(t *testing.T) {
			account := h.active(t)
			h.fault(t, Move, mode)
			move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: 1000}
			_, err := h.Issuer.Move(background(t), move)
			wantUnknown(t, err)
			_, err = h.Issuer.Moved(background(t), move.Ref)
			wantFound(t, err, happened)
			h.wantExecuted(t, move.Ref, count(happened))
			h.Settle()
			h.wantBalance(t, account.ID, cardLoad-1000*money.Cents(count(happened)))
		})
	}
}

func wantFound(t *testing.T, err error, happened bool) {
	t.Helper()
	if happened && err != nil {
		t.Errorf("what happened is not found: %v", err)
	}
	if !happened && !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("what did not happen reads as %v, want ErrNoRef", err)
	}
}

func count(happened bool) int {
	if happened {
		return 1
	}
	return 0
}

// wantUnknown accepts every error that leaves the outcome open.
func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("the mutation succeeded; want an unknown outcome")
	}
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		t.Errorf("the outcome is unknown and not refused: %v", no)
	}
	if errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("the outcome is unknown and not absent: %v", err)
	}
}
