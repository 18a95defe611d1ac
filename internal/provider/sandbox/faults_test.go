package sandbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
)

func refusalOf(err error) *fulfilment.Refusal {
	no, _ := errors.AsType[*fulfilment.Refusal](err)
	return no
}

// The test asks for a withdrawal under each mode: what the caller learns, and what really happened.
func TestEveryFaultModeIsClassified(t *testing.T) {
	const accepted, refusal, unknown = "accepted", "refused", "unknown"
	for mode, want := range map[string]struct {
		answer   string
		executed int
	}{
		"error_before":   {unknown, 0},
		"error_after":    {unknown, 1},
		"timeout_before": {unknown, 0},
		"timeout_after":  {unknown, 1},
		"late":           {unknown, 1},
		"refused":        {refusal, 0},
		"slow":           {accepted, 1},
		"hang":           {unknown, 0},
		"malformed":      {unknown, 1},
		"truncated":      {unknown, 1},
		"huge":           {unknown, 1},
		"not_found":      {refusal, 0},
		"rate_limited":   {unknown, 0},
		"unauthorized":   {unknown, 0},
		"unknown_state":  {accepted, 1},
		"wrong_amount":   {unknown, 1},
		"inexact_amount": {unknown, 1},
		"wrong_currency": {unknown, 1},
		"wrong_owner":    {unknown, 1},
		"duplicate":      {accepted, 1},
		"early":          {accepted, 1},
		"stale":          {accepted, 1},
	} {
		t.Run(mode, func(t *testing.T) {
			b := start(t, sandbox.Config{})
			account := b.active("")
			b.fault("move", mode, 5*time.Millisecond)
			ref := fulfilmenttest.NewRef()
			moved, err := b.Move(t.Context(), card.Movement{
				Ref: ref, Account: account.ID, Direction: card.Withdrawal, Amount: 1000,
			})
			got := accepted
			if err != nil {
				got = unknown
			}
			if refusalOf(err) != nil {
				got = refusal
			}
			if got != want.answer {
				t.Errorf("%s is %s: %+v, %v; want %s", mode, got, moved, err, want.answer)
			}
			if errors.Is(err, fulfilment.ErrNoRef) {
				t.Errorf("%s: the answer to a mutation says that the reference is unknown", mode)
			}
			if n := b.books().Executed[ref.String()]; n != want.executed {
				t.Errorf("%s was executed %d times, want %d", mode, n, want.executed)
			}
			// One fault changes one request.
			b.clock.pass(time.Second)
			if want.executed == 1 {
				b.wantMoved(account, ref, card.MoveSucceeded, "")
			}
		})
	}
}

func TestCallsEndAtTheirTimeout(t *testing.T) {
	b := start(t, sandbox.Config{})
	for _, mode := range []string{"timeout_before", "timeout_after", "hang", "slow"} {
		b.fault("open", mode, time.Minute)
		// The test's own context has no deadline.
		_, err := b.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
		if !errors.Is(err, context.DeadlineExceeded) || refusalOf(err) != nil {
			t.Errorf("%s: Open = %v, want the deadline", mode, err)
		}
	}
}

func TestLateEffectIsFoundAfterItsDelayOnly(t *testing.T) {
	b := start(t, sandbox.Config{})
	b.fault("open", "late", 10*time.Second)
	ref := fulfilmenttest.NewRef()
	if _, err := b.Open(t.Context(), card.Opening{Ref: ref, Load: 2500}); err == nil || refusalOf(err) != nil {
		t.Fatalf("Open = %v, want an unknown outcome", err)
	}
	if _, err := b.Account(t.Context(), ref); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Account = %v, want ErrNoRef", err)
	}
	b.clock.pass(10 * time.Second)
	b.want(ref, card.AccountActive)
	if delay := b.Traits().VisibilityDelay; delay <= 10*time.Second {
		t.Errorf("the visibility delay of %v ends before the effect is seen", delay)
	}
}

func TestReportsOutOfOrderAreAccepted(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.open("")
	b.fault("account", "early", 0)
	b.want(account.Ref, card.AccountActive)
	b.want(account.Ref, card.AccountPending)
	b.clock.pass(time.Second)
	b.fault("account", "stale", 0)
	b.want(account.Ref, card.AccountPending)
	b.want(account.Ref, card.AccountActive)
}

func TestLookUpThatFindsNothingIsAbsent(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("")
	b.fault("account", "not_found", 0)
	if _, err := b.Account(t.Context(), account.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Account = %v, want ErrNoRef", err)
	}
}

func TestBalanceIsRightOrAnError(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("")
	for _, mode := range []string{
		"inexact_amount", "wrong_currency", "wrong_owner", "malformed", "truncated", "huge", "unauthorized",
	} {
		b.fault("balance", mode, 0)
		if balance, err := b.Balance(t.Context(), account.ID); err == nil || balance != (card.Balance{}) {
			t.Errorf("%s: Balance = %+v, %v", mode, balance, err)
		}
	}
	b.wantBalance(account, 2500)
}

func TestStockIsRightOrAnError(t *testing.T) {
	b := start(t, sandbox.Config{})
	for _, mode := range []string{"inexact_amount", "wrong_currency", "malformed", "rate_limited", "error_before"} {
		b.fault("stock", mode, 0)
		if stock, err := b.Stock(t.Context()); err == nil {
			t.Errorf("%s: Stock = %+v", mode, stock)
		}
	}
}
