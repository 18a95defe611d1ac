package stripe_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

func (b *bench) wantBalance(a card.Account, want money.Cents) {
	b.Helper()
	if got, err := b.Balance(b.Context(), a.ID); err != nil || got.Available != want || !got.AsOf.Equal(b.clock.now()) {
		b.Errorf("the balance is %+v, %v; want %s now", got, err, want)
	}
}

func (b *bench) wantFloat(want money.Cents) {
	b.Helper()
	if got, err := b.Stock(b.Context()); err != nil || got.Float != want {
		b.Errorf("the float is %+v, %v; want %s", got, err, want)
	}
}

// TestSpendingLowersTheBalanceAndNotTheFloat: what a card may spend is no longer in the float.
func TestSpendingLowersTheBalanceAndNotTheFloat(t *testing.T) {
	b := start(t)
	a, other := b.opened(), b.opened()
	const float = 10_000_000 - 2*load
	b.wantFloat(float)
	held, approved := b.fake.Authorize(a.ID, 400)
	if !approved {
		t.Fatal("not approved")
	}
	b.wantBalance(a, load-400)
	b.wantFloat(float)
	b.fake.Capture(held, 350)
	b.wantBalance(a, load-350)
	b.wantFloat(float)
	if _, approved := b.fake.Authorize(a.ID, int64(load)-349); approved {
		t.Fatal("a card spends more than its limit")
	}
	b.wantBalance(a, load-350)
	reversed, _ := b.fake.Authorize(a.ID, 100)
	b.fake.Reverse(reversed)
	b.wantBalance(a, load-350)
	// Nobody knows whether the limit has it again: it is neither the owner's to see nor ours to sell.
	b.fake.Refund(a.ID, 50)
	b.wantBalance(a, load-350)
	b.wantFloat(float)
	b.wantBalance(other, load)
	// A merchant may take more than was authorized.
	held, _ = b.fake.Authorize(a.ID, 1000)
	b.fake.Capture(held, 1300)
	b.wantBalance(a, 0)

	b.fake.Edit(other.ID, func(c *stripefake.Card) { c.Status = "canceled" })
	if got, err := b.Stock(t.Context()); err != nil || got.Float < 10_000_000-2*load+load-200 {
		t.Errorf("the float is %+v, %v; a closed card spends nothing", got, err)
	}
}

func TestManyTransactionsAreCountedOnce(t *testing.T) {
	b := start(t)
	a := b.opened()
	if _, err := b.Move(t.Context(), onto(a, 23_500, 25_000)); err != nil {
		t.Fatal(err)
	}
	const float = 10_000_000 - 25_000
	for n := range 230 {
		id, _ := b.fake.Authorize(a.ID, 100)
		if n%7 != 0 {
			b.fake.Capture(id, 100)
		}
		b.clock.pass(time.Second)
		if n%50 == 0 {
			b.wantFloat(float)
		}
	}
	b.wantBalance(a, 25_000-230*100)
	b.wantFloat(float)
	lines, _ := b.book("")
	if len(lines) != 2 || lines[0].Card == nil || lines[0].Card.Balance != 25_000-230*100 || lines[1].Movement == nil {
		t.Fatalf("the books have %+v", lines)
	}
	if m := *lines[1].Movement; m.Amount != 23_500 || m.Target != 25_000 || m.State != card.MoveSucceeded {
		t.Errorf("the books have the load %+v", m)
	}
}

// TestUnknownBalances: what cannot be read whole is no balance and no float.
func TestUnknownBalances(t *testing.T) {
	for _, op := range []string{"card", "authorizations", "transactions", "cards", "cardholder", "balance"} {
		for _, mode := range []vendorfake.Mode{
			vendorfake.ErrorBefore, vendorfake.RateLimited, vendorfake.Unauthorized, vendorfake.Malformed,
			vendorfake.Truncated, stripefake.Moved, vendorfake.Partial, vendorfake.Inexact, vendorfake.WrongOwner,
			vendorfake.WrongCurrency, vendorfake.Reordered, vendorfake.UnknownState,
		} {
			t.Run(op+" "+string(mode), func(t *testing.T) {
				b := start(t)
				a := b.opened()
				for range 2 {
					id, _ := b.fake.Authorize(a.ID, 100)
					b.fake.Capture(id, 100)
					b.fake.Authorize(a.ID, 100)
					b.clock.pass(time.Second)
				}
				b.opened() // so that there are two of each
				if !b.fake.Fault(op, mode) {
					t.Skip("there is no such answer")
				}
				switch got, err := b.Balance(t.Context(), a.ID); {
				case op == "card" && mode == vendorfake.UnknownState: // it may be spent or not
					b.wantBalance(a, load-400)
				case op == "authorizations" && mode == vendorfake.UnknownState:
					// What is held under a state that nobody knows is held: the closed ones, too.
					if err != nil || got.Available != load-600 {
						t.Errorf("balance is %+v, %v", got, err)
					}
				case op == "card" || op == "authorizations" || op == "transactions":
					b.handles().WantUnknown(t, err)
				default:
					switch got, err := b.Stock(t.Context()); {
					case op == "cards" && (mode == vendorfake.UnknownState || mode == vendorfake.WrongOwner):
						b.wantFloat(10_000_000 - 2*load)
					case err == nil:
						t.Errorf("stock is %+v", got)
					}
				}
			})
		}
	}
}

// TestSalesCloseWhenTheHolderIsDisabled, before anybody pays.
func TestSalesCloseWhenTheHolderIsDisabled(t *testing.T) {
	b := start(t)
	for _, state := range [][2]string{{"inactive", ""}, {"blocked", ""}, {"active", "requirements.past_due"}} {
		b.fake.SetHolder(state[0], state[1])
		if got, err := b.Stock(t.Context()); err == nil {
			t.Errorf("%s: stock is %+v", state, got)
		}
	}
	b.fake.SetHolder("active", "")
	b.wantFloat(10_000_000)
}

// TestCardWithoutALimitHasNoFloat: it may spend what is sold otherwise.
func TestCardWithoutALimitHasNoFloat(t *testing.T) {
	b := start(t)
	id := b.fake.Add([]stripefake.Limit{{Amount: 500, Interval: "daily"}}, nil)
	if got, err := b.Stock(t.Context()); err == nil {
		t.Errorf("stock is %+v", got)
	}
	b.fake.Edit(id, func(c *stripefake.Card) { c.Status = "canceled" })
	b.wantFloat(10_000_000)
}

// TestFloatIsReadNowAndThen, and says from when it is.
func TestFloatIsReadNowAndThen(t *testing.T) {
	b := start(t)
	b.Issuer = b.dialWith(stripe.Config{})
	first, err := b.Stock(t.Context())
	if err != nil || !first.AsOf.Equal(b.clock.now()) {
		t.Fatalf("stock is %+v, %v", first, err)
	}
	b.opened()
	b.clock.pass(29 * time.Second)
	if got, err := b.Stock(t.Context()); err != nil || !got.AsOf.Equal(first.AsOf) || got.Float != first.Float {
		t.Errorf("after 29 s: %+v, %v", got, err)
	}
	b.clock.pass(time.Second)
	if got, err := b.Stock(t.Context()); err != nil || !got.AsOf.Equal(b.clock.now()) || got.Float != first.Float-load {
		t.Errorf("after 30 s: %+v, %v", got, err)
	}
	// A call without time gets what is known; one without an issuer does not.
	b.clock.pass(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	b.fake.Fault("cardholder", vendorfake.ErrorBefore)
	if got, err := b.Stock(ctx); err == nil {
		t.Errorf("an issuer that is down has %+v", got)
	}
	known, err := b.Stock(ctx)
	if err != nil || known.Float != first.Float-load {
		t.Errorf("after the issuer was down: %+v, %v", known, err)
	}
	cancel()
	b.clock.pass(4 * time.Minute)
	if got, err := b.Stock(ctx); err != nil || !got.AsOf.Equal(known.AsOf) {
		t.Errorf("without time: %+v, %v", got, err)
	}
	b.clock.pass(time.Minute)
	if got, err := b.Stock(ctx); err == nil {
		t.Errorf("what was known five minutes ago: %+v", got)
	}
}

// TestLoadAndWithdrawalAtOnce: no limit is computed from the limit that there is, whoever is quicker.
func TestLoadAndWithdrawalAtOnce(t *testing.T) {
	b := start(t)
	const pairs = 200
	accounts := b.seeded(pairs)
	var sent sync.WaitGroup
	for _, a := range accounts {
		m := onto(a, 2450, load+2450)
		for range 2 { // as by two workers
			sent.Go(func() {
				if _, err := b.Move(t.Context(), m); err != nil {
					t.Errorf("load: %v", err)
				}
			})
		}
		sent.Go(func() {
			_, err := b.Move(t.Context(), card.Movement{
				Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Withdrawal, Amount: 1000,
			})
			wantRefused(t, err, fulfilment.RefusedRequest)
		})
	}
	sent.Wait()
	for _, a := range accounts {
		b.wantBalance(a, load+2450)
	}
	b.wantFloat(10_000_000 - pairs*(load+2450))
}

// TestCardsOfOneSecondAreAllListed, in whatever order they are noticed.
func TestCardsOfOneSecondAreAllListed(t *testing.T) {
	b := start(t)
	if page, next, err := b.Accounts(t.Context(), ""); err != nil || next != "" || len(page) != 0 {
		t.Fatalf("without cards: %+v, %q, %v", page, next, err)
	}
	for range 3 {
		b.fake.Add([]stripefake.Limit{{Amount: 1, Interval: "all_time"}}, map[string]string{
			"roamcard_ref": fulfilmenttest.NewRef().String(), "roamcard_load": "1",
		})
	}
	for range 2 {
		page, next, err := b.Accounts(t.Context(), "")
		if err != nil || next != "" || len(page) != 3 || page[0].ID != b.fake.Cards()[0].ID {
			t.Errorf("listed %+v, %q, %v", page, next, err)
		}
	}
}

func TestUnfamiliarStateOfACardIsPending(t *testing.T) {
	b := start(t)
	a := b.opened()
	b.fake.Edit(a.ID, func(c *stripefake.Card) { c.Status = "under_a_cloud" })
	page, next, err := b.Accounts(t.Context(), "")
	if err != nil || next != "" || len(page) != 1 || page[0].State != card.AccountPending {
		t.Errorf("listed %+v, %q, %v", page, next, err)
	}
	for status, want := range map[string]card.AccountState{
		"active": card.AccountActive, "inactive": card.AccountFrozen, "canceled": card.AccountClosed,
	} {
		b.fake.Edit(a.ID, func(c *stripefake.Card) { c.Status = status })
		if got, err := b.Account(t.Context(), a.Ref); err != nil || got.State != want {
			t.Errorf("%s reads as %+v, %v", status, got, err)
		}
	}
}
