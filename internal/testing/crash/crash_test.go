// Package crash kills the real program at every point of a purchase and checks that the buyer ends with one card for
// one payment.
//
// Database, chain and issuer are processes of their own and outlive it; the outcome is read from their books.
package crash_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// recovery is how long an order may take once the program runs again. Only a torture run, which shares its machine with
// nothing, fails by it.
const recovery = 30 * time.Second // clock: what a torture run is about

// Whenever the program dies, a purchase is paid once and delivered.
func TestKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	worlds := pool(t)
	if !torture() {
		t.Run("ordinary", func(t *testing.T) { run(t, worlds, ordinary()) })
		return
	}
	for name, cases := range map[string][]crash{
		"once at every point":          once(),
		"again while it recovers":      whileItRecovers(),
		"while a facilitator settles":  whileAFacilitatorSettles(),
		"while a card is topped up":    whileACardIsToppedUp(),
		"while an order is paid later": whileAnOrderIsPaidLater(),
		"while money goes back":        whileMoneyGoesBack(),
		"while an eSIM is sold":        whileAnESIMIsSold(),
		"and the buyer signs anew":     andTheBuyerSignsAnew(),
	} {
		t.Run(name, func(t *testing.T) { run(t, worlds, cases) })
	}
}

// atOnce is how many cases run at once.
func atOnce() int {
	if torture() {
		return 8
	}
	return 2
}

// pool makes as many worlds. They end with t.
func pool(t *testing.T) chan *world {
	t.Helper()
	worlds := make(chan *world, atOnce())
	for range cap(worlds) {
		worlds <- newWorld(t)
	}
	return worlds
}

// run runs every case in one of the worlds, with a wallet of its own.
func run(t *testing.T, worlds chan *world, cases []crash) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			w := <-worlds
			defer func() { worlds <- w }()
			w.survive(t, c)
		})
	}
}

// survive runs one case.
func (w *world) survive(t *testing.T, c crash) {
	c.settler, c.flow = cmp.Or(c.settler, relayer), cmp.Or(c.flow, issue)
	note := record{
		Flow: w.flow(c.flow), Settler: c.settler, Mode: "kill", First: c.first, Second: c.second, Signs: c.signs,
		Failed: true,
	}
	defer func() { note.write(t) }()
	b := w.buyer(t)
	switch c.flow {
	case topup, topupRefund:
		w.ownsACard(t, b)
	case esim:
		b.travelling = true
	}
	b.later = c.flow == later
	if c.flow == refund || c.flow == topupRefund {
		b.turnToRefusal()
	}
	if strings.HasSuffix(c.first, ".final") {
		w.followsUp(t)
	}
	p := w.start(t, c.settler, fault(c.first, "kill"))
	if err := b.challenge(t.Context()); err != nil && c.first != "buy.challenged" &&
		!strings.HasPrefix(c.first, "create.") {
		t.Fatalf("ask for the terms: %v", err)
	}
	header := b.press(t, p, "", false)
	p.awaitKill(t)
	if c.second != "" {
		p = w.start(t, c.settler, fault(c.second, "kill"))
		header = b.press(t, p, header, c.drawn)
		if c.drawn && !p.Ended() {
			note.Second = "at rest"
			p.Kill(t)
		} else {
			p.awaitKill(t)
		}
	}
	p = w.start(t, c.settler, "")
	began := time.Now()
	if b.offer.Amount == "" {
		if err := b.challenge(t.Context()); err != nil {
			t.Fatalf("ask for the terms: %v", err)
		}
	}
	if header == "" || c.signs {
		header = b.sign(t)
	}
	w.ends(t, b, header, began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// followsUp waits until every payment and refund of earlier cases is final: their jobs would reach the fault point
// before the buyer of this case does.
func (w *world) followsUp(t *testing.T) {
	t.Helper()
	p := w.start(t, relayer, "")
	w.await(t, "the payments of earlier cases are final", func() error {
		var open int
		w.query(t, "SELECT count(*) FROM jobs WHERE kind = ANY($1) AND status IN ('queued', 'processing')",
			[]any{[]string{string(settlement.Confirming), string(settlement.RefundConfirming)}}, &open)
		if open > 0 {
			return fmt.Errorf("%d are not", open)
		}
		return nil
	})
	p.stop(t)
}

// ownsACard lets the buyer buy a card without faults; its next purchase is a top-up.
func (w *world) ownsACard(t *testing.T, b *buyer) {
	t.Helper()
	p := w.start(t, relayer, "")
	if err := b.challenge(t.Context()); err != nil {
		t.Fatalf("ask for the terms: %v", err)
	}
	w.ends(t, b, b.sign(t), time.Now())
	p.stop(t)
	b.turnToTopup()
}

// press repeats the purchase until the program dies, and returns its payment. Without one it signs as soon as it has
// terms. It may also end with an order that no longer changes.
func (b *buyer) press(t *testing.T, p *process, header string, content bool) string {
	t.Helper()
	if header == "" && b.offer.Amount != "" {
		header = b.sign(t)
	}
	ctx := apptest.Context(t)
	for !p.Ended() && ctx.Err() == nil {
		if header == "" {
			if b.challenge(t.Context()) == nil {
				header = b.sign(t)
			}
			continue
		}
		// Whatever comes back, the answer is noted and the same is asked again.
		status, _, _, err := b.ask(t.Context(), header)
		if content && err == nil && status == http.StatusOK {
			if b.world.settled(t.Context()) {
				break
			}
		}
		select {
		case <-p.Done:
		case <-time.After(200 * time.Millisecond): // clock: the pace of a buyer
		}
	}
	return header
}

// settled reports whether it is known that nothing is in progress.
func (w *world) settled(ctx context.Context) bool {
	conn, err := pgx.Connect(ctx, w.books.DatabaseURL)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	done, err := invariants.Settled(ctx, conn)
	return err == nil && done
}

// ends checks that the purchase succeeds in time, and that a repeat changes nothing.
func (w *world) ends(t *testing.T, b *buyer, header string, began time.Time) {
	t.Helper()
	end := "fulfilled"
	if b.refused {
		end = "refunded"
	}
	first := b.insist(t, header)
	if err := invariants.Await(apptest.Context(t), w.books); err != nil {
		t.Fatalf("the order is not final: %v", err)
	}
	if took := time.Since(began); torture() && took > recovery {
		t.Errorf("the order was final after %s", took)
	}
	for _, payment := range []string{header, b.sign(t)} {
		again := b.insist(t, payment)
		switch {
		case !again.Order.Replayed || again.Order.OrderID != first.Order.OrderID ||
			again.Order.Payment != first.Order.Payment:
			t.Errorf("asked again: %+v, at first %+v", again.Order, first.Order)
		case again.Order.Status != end:
			t.Errorf("the order ended as %s", again.Order.Status)
		}
	}
	w.counts(t, b)
}

// counts checks how many payments and goods the purchase made, in the books of the chain and the issuer.
func (w *world) counts(t *testing.T, b *buyer) {
	t.Helper()
	got, err := invariants.Tell(t.Context(), w.books, b.address.String())
	if err != nil {
		t.Fatal(err)
	}
	want := invariants.Tally{Orders: 1, Transfers: 1, Cards: 1, Withdrawals: 1}
	if b.travelling {
		want.Cards, want.Withdrawals, want.Esims = 0, 0, 1
	}
	if w.issuer == stripe.Name {
		want.Withdrawals = 0 // its limit never has the fee
	}
	if b.toppingUp {
		want.Orders, want.Transfers, want.Loads = 2, 2, 1
	}
	if b.refused {
		want.Refunds = 1
		if b.toppingUp {
			want.Loads = 0
		} else {
			want.Withdrawals = 0 // the card in the issuer's books is the one it declined
		}
	}
	if got != want {
		t.Errorf("the purchase came to %+v, want %+v", got, want)
	}
	if n := b.orders(t); n != want.Orders {
		t.Errorf("the buyer has %d orders, want %d", n, want.Orders)
	}
}

// checkBooks reports every broken invariant.
func (w *world) checkBooks(t *testing.T) []invariants.Violation {
	t.Helper()
	found := w.check(t)
	for _, v := range found {
		t.Error(v)
	}
	return found
}

// Every point is armed at once: each breaks one step, none ends the program.
func TestProgramSurvivesErrorsAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, flow := range []string{issue, esim} {
		for _, mode := range []string{"error", "panic", "sleep=300ms"} {
			if !torture() && (flow != issue || mode != "error") && (flow != esim || mode != "panic") {
				continue
			}
			t.Run(flow+" "+mode, func(t *testing.T) {
				t.Parallel()
				note := record{Flow: flow, Settler: relayer, Mode: mode, First: "every point", Failed: true}
				defer func() { note.write(t) }()
				faults := survivable(mode)
				w := newWorld(t)
				b := w.buyer(t)
				b.travelling = flow == esim
				p := w.start(t, relayer, strings.Join(faults, ","))
				w.await(t, "the terms are told", func() error { return b.challenge(t.Context()) })
				began := time.Now()
				header := b.sign(t)
				b.insist(t, header)
				w.waitIdle(t)
				note.Recovery = time.Since(began).Seconds()
				w.ends(t, b, header, time.Now())
				p.stop(t)
				note.Violations = len(w.checkBooks(t))
				note.Failed = t.Failed()
			})
		}
	}
}

// survivable arms every point that can take a mode. Every panic costs its job a longer pause than the one
// before, so that all of them together take minutes; by default it is those around what cannot be undone.
func survivable(mode string) []string {
	var faults []string
	for _, p := range faultpoint.Points() {
		switch {
		case mode == "error" && !p.Fails:
		case mode == "panic" && (p.Name == "catchup.read" || p.Name == "periodic.succeeded"):
			// In no job's handler and no request: a panic there ends the program, which is started again.
		case mode == "panic" && !torture() && !slices.Contains([]string{
			"claim.committed", "transaction.sent", "settle.seen", "issuer.after_open", "fee.after_withdraw",
			"supplier.after_order",
		}, p.Name):
		default:
			faults = append(faults, p.Name+":"+mode)
		}
	}
	return faults
}

// A payer may cancel an authorization that is stored and not sent. The order is payable again, and only the second
// authorization pays.
func TestCancelledWhileTheProgramIsDown(t *testing.T) {
	t.Parallel()
	note := record{Flow: issue + ", cancelled by the payer", Settler: relayer, Mode: "kill", First: "transaction.stored",
		Second: "void.before_commit, void.committed", Failed: true}
	defer func() { note.write(t) }()
	w := newWorld(t)
	b := w.buyer(t)
	p := w.start(t, relayer, fault("transaction.stored", "kill"))
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := b.press(t, p, "", false)
	p.awaitKill(t)
	b.cancel(t, dead)
	for _, point := range []string{"void.before_commit", "void.committed"} {
		p = w.start(t, relayer, fault(point, "kill"))
		p.awaitKill(t)
	}
	p = w.start(t, relayer, "")
	began := time.Now()
	w.await(t, "the dead payment is refused", func() error {
		status, header, _, err := b.ask(t.Context(), dead)
		if err == nil && (status != http.StatusPaymentRequired || header.Get("Payment-Required") == "") {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	w.ends(t, b, b.sign(t), began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// This is I20: after the program has died and recovered, further starts find nothing left to do. The points are those
// after which the world and the database differ most.
func TestSecondRecoveryChangesNothing(t *testing.T) {
	t.Parallel()
	for _, point := range chosen([]string{"issuer.after_open"}, "transaction.sent", "fee.after_withdraw") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.buyer(t)
			p := w.start(t, relayer, fault(point, "kill"))
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			header := b.press(t, p, "", false)
			p.awaitKill(t)
			p = w.start(t, relayer, "")
			w.ends(t, b, header, time.Now())
			p.stop(t)
			found, err := invariants.Unchanged(t.Context(), w.books, func(context.Context) error {
				w.recoversAgain(t, b, header)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range found {
				t.Error(v)
			}
			w.checkBooks(t)
		})
	}
}

// recoversAgain starts the program, waits until the purchase is final, and ends it.
func (w *world) recoversAgain(t *testing.T, b *buyer, header string) {
	t.Helper()
	p := w.start(t, relayer, "")
	b.insist(t, header)
	w.waitIdle(t)
	p.stop(t)
}

func torture() bool { return os.Getenv("ROAMCARD_TORTURE") != "" }

// chosen are the cases of a test: those that stand for their kind in the ordinary run, and all in a torture run.
func chosen[T any](ordinary []T, more ...T) []T {
	if torture() {
		return append(ordinary, more...)
	}
	return ordinary
}

// tortures skips a test for which `make test` has no time.
func tortures(t *testing.T) {
	t.Helper()
	if !torture() {
		t.Skip("set ROAMCARD_TORTURE=1")
	}
}

// The whole matrix: every point, alone and followed by every later one or itself, with the same header and a new one.
// It takes long, so it needs ROAMCARD_TORTURE=1.
func TestTorture(t *testing.T) {
	tortures(t)
	cases := drawn(t)
	t.Logf("%d cases", len(cases))
	t.Run("drawn", func(t *testing.T) { run(t, pool(t), cases) })
}
