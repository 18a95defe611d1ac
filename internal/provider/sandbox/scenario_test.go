package sandbox_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
)

const float = 10_000_000

func TestCardsAreActiveAfterTheirDelay(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.open("")
	b.clock.pass(299 * time.Millisecond)
	b.want(account.Ref, card.AccountPending)
	b.wantBalance(account, 0)
	b.clock.pass(time.Millisecond)
	b.want(account.Ref, card.AccountActive)
	b.wantBalance(account, 2500)
}

func TestScenario001StaysPending(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.open("001")
	b.clock.pass(1000 * time.Hour)
	b.want(account.Ref, card.AccountPending)
	b.control("POST", "settle", nil, nil)
	b.want(account.Ref, card.AccountPending)
	b.control("POST", "cards/"+account.ID, map[string]any{"state": "live"}, nil)
	b.want(account.Ref, card.AccountActive)
	b.wantBalance(account, 2500)
}

func TestScenario002IsDeclinedAndCostsNothing(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.open("002")
	b.wantFloat(float - 2500)
	b.clock.pass(time.Second)
	read := b.want(account.Ref, card.AccountRejected)
	if refusalCode(read.Refusal) != card.RefusedHolder {
		t.Errorf("declined for %+v", read.Refusal)
	}
	b.wantFloat(float)
}

func TestScenario003RefusesWithdrawalsOnly(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("003")
	ref := b.withdraw(account, 1000, "")
	b.clock.pass(time.Second)
	b.wantMoved(account, ref, card.MoveFailed, fulfilment.RefusedUnstated)
	b.wantBalance(account, 2500)

	load := fulfilmenttest.NewRef()
	if _, err := b.Move(t.Context(),
		card.Movement{Ref: load, Account: account.ID, Direction: card.Load, Amount: 2450}); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Second)
	b.wantMoved(account, load, card.MoveSucceeded, "")
	b.wantBalance(account, 4950)

	other := b.active("")
	ref = b.withdraw(other, 1000, "003")
	b.clock.pass(time.Second)
	b.wantMoved(other, ref, card.MoveFailed, fulfilment.RefusedUnstated)
}

func TestScenario005TakesThirtySeconds(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.open("005")
	b.clock.pass(29 * time.Second)
	b.want(account.Ref, card.AccountPending)
	b.clock.pass(time.Second)
	b.want(account.Ref, card.AccountActive)
}

func TestScenario006SucceedsAndIsReversed(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("006")
	ref := b.withdraw(account, 1000, "")
	b.clock.pass(500 * time.Millisecond)
	b.wantMoved(account, ref, card.MoveSucceeded, "")
	b.clock.pass(2 * time.Second)
	b.want(account.Ref, card.AccountClosed)
	b.wantBalance(account, 0)
	b.wantFloat(float)

	other := b.active("")
	ref = b.withdraw(other, 1000, "006")
	b.clock.pass(time.Second)
	b.wantMoved(other, ref, card.MoveSucceeded, "")
	b.wantBalance(other, 1500)
	b.clock.pass(2 * time.Second)
	b.wantMoved(other, ref, card.MoveFailed, fulfilment.RefusedUnstated)
	b.wantBalance(other, 2500)
}

func TestOtherScenariosChangeNothing(t *testing.T) {
	b := start(t, sandbox.Config{})
	for _, scenario := range []string{"004", "007", "008", "009", "123"} {
		b.active(scenario)
	}
}

func TestWithdrawalLeavesTheRetentionQuota(t *testing.T) {
	b := start(t, sandbox.Config{Retention: 1501})
	account := b.active("")
	ref := b.withdraw(account, 1000, "")
	b.clock.pass(time.Second)
	b.wantMoved(account, ref, card.MoveFailed, card.RefusedFunds)
	ref = b.withdraw(account, 999, "")
	b.clock.pass(time.Second)
	b.wantMoved(account, ref, card.MoveSucceeded, "")
}

// The owner wins the race with the fee withdrawal: a definite refusal, not an
// unknown outcome.
func TestWithdrawalIsRefusedWhenTheOwnerSpentFirst(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("")
	ref := b.withdraw(account, 1000, "")
	b.control("POST", "cards/"+account.ID, map[string]any{"spendCents": 1501}, nil)
	b.clock.pass(time.Second)
	b.wantMoved(account, ref, card.MoveFailed, card.RefusedFunds)
	b.wantBalance(account, 999)
}

func TestMovementsNeedAnActiveCard(t *testing.T) {
	b := start(t, sandbox.Config{})
	account := b.active("")
	b.control("POST", "cards/"+account.ID, map[string]any{"state": "locked"}, nil)
	move := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Load, Amount: 2450}
	for range 2 {
		_, err := b.Move(t.Context(), move)
		if refusalCode(refusalOf(err)) != card.RefusedState {
			t.Errorf("Move = %v, want %s", err, card.RefusedState)
		}
		// The refusal stays when its reason is gone.
		b.control("POST", "cards/"+account.ID, map[string]any{"state": "live"}, nil)
	}
	b.wantMoved(account, move.Ref, card.MoveFailed, card.RefusedState)
	b.wantFloat(float - 2500)
}
