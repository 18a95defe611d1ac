package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// garage is a store with cards that take turns, and workers that hold jobs.
type garage struct {
	*testing.T
	s *store.Store
}

func newGarage(t *testing.T) garage {
	s := storetest.New(t)
	claim(t, s, claimRequest("what the other orders are copies of"))
	return garage{t, s}
}

// card is an active card that was opened with an amount.
func (g garage) card(owner x402.Address, load money.Cents) uuid.UUID {
	g.Helper()
	c, _ := issued(g.T, g.s, owner, card.Active)
	g.post(owner, ledger.Loaded(c.ID.String(), c.ID.String(), load))
	return c.ID
}

func (g garage) post(owner x402.Address, p ledger.Posting) {
	g.Helper()
	if err := store.PostFor(g.Context(), g.s, owner, p); err != nil {
		g.Fatal(err)
	}
}

// order is an order of an owner in a status.
func (g garage) order(owner x402.Address, status order.Status) order.ID {
	g.Helper()
	id := order.NewID(time.Now())
	_, err := g.s.Pool().Exec(g.Context(), `INSERT INTO orders SELECT (jsonb_populate_record(o, jsonb_build_object(
		'id', $1::text, 'operation_id', $2::text, 'idempotency_key', $1::text, 'owner', $3::text, 'kind', 'card_topup',
		'status', $4::text))).* FROM orders o WHERE idempotency_key LIKE 'what the other%'`,
		id, uuid.NewString(), owner.Lower(), status)
	if err != nil {
		g.Fatal(err)
	}
	return id
}

func (g garage) becomes(id order.ID, status order.Status) {
	g.Helper()
	if _, err := g.s.Pool().Exec(g.Context(), "UPDATE orders SET status = $2 WHERE id = $1", id, status); err != nil {
		g.Fatal(err)
	}
}

// worker is the fence of a job of its own: of an owner, or of nobody.
func (g garage) worker(kind job.Kind, owner ...x402.Address) job.Fence {
	g.Helper()
	key, of := uuid.NewString(), ""
	if len(owner) > 0 {
		of = owner[0].Lower()
	}
	args := workArgs{kind}
	if err := store.EnqueueOf(g.Context(), g.s, job.New{Args: args, UniqueKey: key}, of); err != nil {
		g.Fatal(err)
	}
	rows, err := g.s.Jobs().Claim(g.Context(), "w", job.Maintain, []job.Kind{kind}, 1, time.Hour)
	if err != nil || len(rows) != 1 {
		g.Fatalf("%d jobs to lease, %v", len(rows), err)
	}
	return rows[0].Fence()
}

type workArgs struct{ Of job.Kind }

// Kind implements job.Args.
func (w workArgs) Kind() job.Kind { return w.Of }

func load(on uuid.UUID, of order.ID, amount money.Cents) card.MovementLock {
	return card.MovementLock{Card: on, Order: of, Ref: fulfilmenttest.NewRef(), Load: amount, Held: true}
}

func (g garage) take(f job.Fence, t card.MovementLock, target money.Cents, want error) {
	g.Helper()
	got, err := g.s.Cards().TakeTurn(g.Context(), f, t)
	if got != target || !errors.Is(err, want) {
		g.Errorf("the target is %s, %v; want %s, %v", got, err, target, want)
	}
}

// TestConcurrentLoadsOfManyCardsAllReachTheLimit plays an issuer that keeps the last limit it was sent.
func TestConcurrentLoadsOfManyCardsAllReachTheLimit(t *testing.T) {
	g := newGarage(t)
	const pairs, load1, load2 = 200, 2450, 4900
	workers := []job.Fence{g.worker("left"), g.worker("right")}
	for i := range pairs {
		owner := x402.Address{18: byte(i / 250), 19: byte(i%250) + 1}
		on := g.card(owner, 1500)
		var limit struct {
			sync.Mutex
			cents money.Cents
		}
		var both sync.WaitGroup
		for side, amount := range []money.Cents{load1, load2} {
			turn := load(on, g.order(owner, order.Provisioning), amount)
			both.Go(func() {
				var target money.Cents
				err := card.ErrBusy
				for errors.Is(err, card.ErrBusy) {
					target, err = g.s.Cards().TakeTurn(t.Context(), workers[side], turn)
				}
				if err != nil {
					t.Errorf("take: %v", err)
					return
				}
				limit.Lock()
				limit.cents = target
				limit.Unlock()
				_, err = g.s.Orders().Move(t.Context(), workers[side], order.Move{
					Order: turn.Order, Owner: owner, From: order.Provisioning, To: order.Fulfilled, Actor: "worker",
					Reason:   "credit confirmed",
					Postings: []ledger.Posting{ledger.Loaded(string(turn.Order), on.String(), amount)},
				})
				if err != nil {
					t.Errorf("fulfil: %v", err)
				}
			})
		}
		both.Wait()
		if limit.cents != 1500+load1+load2 {
			t.Fatalf("the limit of card %d is %s", i, limit.cents)
		}
	}
}

func TestCardIsFreeWhenItsOrderIsDecided(t *testing.T) {
	g := newGarage(t)
	f := g.worker("w")
	for i, c := range []struct {
		status order.Status
		held   bool
		want   error
	}{
		{order.Provisioning, true, card.ErrBusy},
		{order.Provisioning, false, card.ErrBusy},
		{order.OperatorReview, true, card.ErrBusy},
		{order.OperatorReview, false, nil},
		{order.Fulfilled, true, nil},
		{order.RefundPending, true, nil},
		{order.Refunded, true, nil},
	} {
		t.Run(fmt.Sprint(c.status, c.held), func(t *testing.T) {
			g := garage{t, g.s}
			owner := x402.Address{19: byte(i) + 1}
			on := g.card(owner, 1500)
			first := load(on, g.order(owner, order.Provisioning), 1000)
			g.take(f, first, 2500, nil)
			g.becomes(first.Order, c.status)
			second := load(on, g.order(owner, order.Provisioning), 2000)
			second.Held = c.held
			want := money.Cents(3500)
			if c.want != nil {
				want = 0
			}
			g.take(f, second, want, c.want)
		})
	}
}

func TestMovementKeepsItsTarget(t *testing.T) {
	g := newGarage(t)
	f, owner := g.worker("w"), x402.Address{19: 3}
	on := g.card(owner, 1500)
	turn := load(on, g.order(owner, order.Provisioning), 1000)
	g.take(f, turn, 2500, nil)
	// What is found in the books later is no reason to send another target under the same reference.
	g.post(owner, ledger.Loaded("ord_late", on.String(), 700))
	g.take(f, turn, 2500, nil)
	turn.Ref = fulfilmenttest.NewRef()
	g.take(f, turn, 3200, nil)
}

func TestFeeAndLoadTakeTurns(t *testing.T) {
	g := newGarage(t)
	f, owner := g.worker("w"), x402.Address{19: 4}
	on := g.card(owner, 2500)
	fee := g.worker("fee", owner)
	withdrawal := card.MovementLock{Card: on, FeeJob: fee.ID, Ref: fulfilment.Ref(uuid.New())}
	g.take(fee, withdrawal, 0, nil)
	turn := load(on, g.order(owner, order.Provisioning), 1000)
	g.take(f, turn, 0, card.ErrBusy)
	g.take(fee, withdrawal, 0, nil)
	if err := g.s.Jobs().Finish(t.Context(), fee, job.Snooze(time.Hour)); err != nil {
		t.Fatal(err)
	}
	g.take(f, turn, 0, card.ErrBusy)
	if _, err := g.s.Pool().Exec(t.Context(), "UPDATE jobs SET status = 'operator_review' WHERE id = $1",
		fee.ID); err != nil {
		t.Fatal(err)
	}
	g.take(f, turn, 3500, nil)
	withdrawal.FeeJob = g.worker("other", owner).ID
	g.take(f, withdrawal, 0, card.ErrBusy)
	g.becomes(turn.Order, order.Fulfilled)
	g.take(f, withdrawal, 0, nil)
}

func TestWorkerThatLostItsJobTakesNoCard(t *testing.T) {
	g := newGarage(t)
	f, owner := g.worker("w"), x402.Address{19: 5}
	on := g.card(owner, 1500)
	lost := f
	lost.Attempt++
	g.take(lost, load(on, g.order(owner, order.Provisioning), 1000), 0, job.ErrLeaseLost)
	g.take(f, load(on, g.order(owner, order.Provisioning), 1000), 2500, nil)
}

// TestOwnersChangeAndMovementsTakeTurns: a change that does not end has the card for a while only.
func TestOwnersChangeAndMovementsTakeTurns(t *testing.T) {
	g := newGarage(t)
	f, owner := g.worker("w"), x402.Address{19: 8}
	on := g.card(owner, 1500)
	turn := load(on, g.order(owner, order.Provisioning), 1000)
	begin := func(change uuid.UUID, most time.Duration, want error) {
		t.Helper()
		if err := g.s.Cards().BeginChange(t.Context(), on, change, most); !errors.Is(err, want) {
			t.Errorf("begin: %v, want %v", err, want)
		}
	}
	end := func(change uuid.UUID) {
		t.Helper()
		if err := g.s.Cards().EndChange(t.Context(), on, change); err != nil {
			t.Errorf("end: %v", err)
		}
	}
	first, second := uuid.New(), uuid.New()
	begin(first, time.Hour, nil)
	begin(second, time.Hour, card.ErrBusy)
	g.take(f, turn, 0, card.ErrBusy)
	end(second) // not its own
	g.take(f, turn, 0, card.ErrBusy)
	end(first)
	g.take(f, turn, 2500, nil)
	for status, want := range map[order.Status]error{
		order.Provisioning: card.ErrBusy, order.OperatorReview: card.ErrBusy,
	} {
		g.becomes(turn.Order, status)
		begin(first, time.Hour, want)
	}
	g.becomes(turn.Order, order.Fulfilled)
	begin(first, 0, nil) // its time is over
	begin(second, time.Hour, nil)
	end(first) // not its own any more
	begin(first, time.Hour, card.ErrBusy)
	end(second)
	fee := g.worker("fee", owner)
	g.take(fee, card.MovementLock{Card: on, FeeJob: fee.ID, Ref: fulfilment.Ref(uuid.New())}, 0, nil)
	begin(first, time.Hour, card.ErrBusy)
}
