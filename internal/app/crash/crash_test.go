// Package crash kills the real program at every point of a purchase and checks that the buyer ends with one card for one
// payment.
//
// Database, chain and issuer are processes of their own and outlive it; their books judge the outcome.
package crash_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/invariants"
)

// recovery is how long an order may take once the program runs again.
const recovery = 30 * time.Second

// crash is one case: who settles, where the program dies, where it dies again while it recovers, and how
// the buyer asks again.
type crash struct {
	// flow is what is bought; empty is a card.
	flow string
	// settler is the order of settlement; empty is the relayer.
	settler       string
	first, second string
	// signs lets the buyer repeat the purchase with a new authorization instead of the same header.
	signs bool
}

func (c crash) name() string {
	name := c.first
	for _, other := range []string{c.settler, c.flow} {
		if other != "" {
			name = other + " " + name
		}
	}
	if c.second != "" {
		name += " then " + c.second
	}
	if c.signs {
		name += " signing again"
	}
	return name
}

// The orders of settlement.
const (
	relayer     = "relayer"
	facilitator = "facilitator"
	both        = "facilitator,relayer"
)

// The flows.
const (
	issue = "card issue"
	topup = "card top-up"
)

// passes are how often an ordinary purchase comes by a point; each pass is a case.
func passes(flow, settler, point string) int {
	area, _, _ := strings.Cut(point, ".")
	switch {
	case area == "bury":
		return 0
	case area == "attempt" && settler != relayer: // of both, the second has nothing to do
		return 0
	case area == "facilitator" && settler == relayer:
		return 0
	case flow == issue && area == "load":
		return 0
	case flow == topup && (area == "card" || area == "issuer" || area == "fee"):
		return 0
	case area == "move", flow == issue && area == "submit":
		return 2
	}
	return 1
}

// points are all points of an ordinary purchase, with their passes, in its order.
func points(flow, settler string) []string {
	var all []string
	for _, p := range faultpoint.Points() {
		for n := 1; n <= passes(flow, settler, p.Name); n++ {
			name := p.Name
			if n > 1 {
				name += "@" + strconv.Itoa(n)
			}
			all = append(all, name)
		}
	}
	return all
}

// fault is the point with a mode.
func fault(point, mode string) string {
	name, pass, counted := strings.Cut(point, "@")
	if counted {
		mode += "@" + pass
	}
	return name + ":" + mode
}

// TestKilled is the promise of the program: whenever it dies, a purchase is paid once and delivered.
func TestKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	worlds := pool(t)
	for name, cases := range map[string][]crash{
		"once at every point":         once(),
		"again while it recovers":     whileItRecovers(),
		"while a facilitator settles": whileAFacilitatorSettles(),
		"while a card is topped up":   whileACardIsToppedUp(),
		"and the buyer signs anew":    andTheBuyerSignsAnew(),
	} {
		t.Run(name, func(t *testing.T) { run(t, worlds, cases) })
	}
}

func once() []crash {
	var cases []crash
	for _, p := range points(issue, relayer) {
		cases = append(cases, crash{first: p})
	}
	return cases
}

// whileItRecovers takes the points at which something irreversible has just begun or ended.
func whileItRecovers() []crash {
	return []crash{
		{first: "place.before_commit", second: "place.committed"},
		{first: "attempt.before_commit", second: "attempt.stored"},
		{first: "attempt.stored", second: "attempt.sent"},
		{first: "attempt.sent", second: "settle.seen"},
		{first: "settle.before_commit", second: "settle.before_commit"},
		{first: "issuer.before_open", second: "issuer.before_open"},
		{first: "issuer.after_open", second: "card.before_commit"},
		{first: "card.activated", second: "carry.leased"},
		{first: "fee.after_withdraw", second: "fee.leased"},
	}
}

// whileAFacilitatorSettles takes the points at which it matters who settles.
func whileAFacilitatorSettles() []crash {
	return []crash{
		{settler: facilitator, first: "place.committed"},
		{settler: facilitator, first: "facilitator.before_settle"},
		{settler: facilitator, first: "facilitator.after_settle"},
		{settler: facilitator, first: "facilitator.after_settle", signs: true},
		{settler: facilitator, first: "facilitator.before_settle", second: "facilitator.after_settle"},
		{settler: facilitator, first: "facilitator.after_settle", second: "settle.seen"},
		{settler: both, first: "facilitator.before_settle"},
		{settler: both, first: "facilitator.after_settle", second: "settle.before_commit"},
	}
}

// whileACardIsToppedUp takes the points at which a top-up differs from the sale of a card.
func whileACardIsToppedUp() []crash {
	return []crash{
		{flow: topup, first: "place.committed"},
		{flow: topup, first: "attempt.sent"},
		{flow: topup, first: "load.before_send"},
		{flow: topup, first: "load.after_send"},
		{flow: topup, first: "load.after_send", second: "move.before_commit", signs: true},
		{flow: topup, first: "carry.done", signs: true},
	}
}

// andTheBuyerSignsAnew: clients sign a new authorization whenever they ask again. One that is not needed
// is never sent.
func andTheBuyerSignsAnew() []crash {
	return []crash{
		{first: "buy.verified", signs: true},
		{first: "place.committed", signs: true},
		{first: "attempt.stored", signs: true},
		{first: "attempt.sent", signs: true},
		{first: "settle.committed", signs: true},
		{first: "answer.half", signs: true},
	}
}

// atOnce is how many cases run at once.
const atOnce = 8

// pool makes as many worlds. They end with t.
func pool(t *testing.T) chan *world {
	t.Helper()
	worlds := make(chan *world, atOnce)
	for range atOnce {
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
	note := record{Flow: c.flow, Settler: c.settler, Mode: "kill", First: c.first, Second: c.second, Signs: c.signs, Failed: true}
	defer func() { note.write(t) }()
	b := w.buyer(t)
	if c.flow == topup {
		w.ownsACard(t, b)
	}
	p := w.start(t, c.settler, fault(c.first, "kill"))
	if err := b.challenge(t.Context()); err != nil && c.first != "buy.challenged" {
		t.Fatalf("ask for the terms: %v", err)
	}
	header := b.press(t, p, "")
	p.awaitKill(t, recovery)
	if c.second != "" {
		p = w.start(t, c.settler, fault(c.second, "kill"))
		header = b.press(t, p, header)
		p.awaitKill(t, recovery)
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
	note.Violations = len(w.judge(t))
	note.Failed = t.Failed()
}

// ownsACard lets the buyer buy a card in peace; what it buys after that is a top-up.
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

// press asks for the purchase until the program dies, and returns the payment it asked with. Without one
// it signs, as soon as there are terms to sign.
func (b *buyer) press(t *testing.T, p *process, header string) string {
	t.Helper()
	if header == "" && b.offer.Amount != "" {
		header = b.sign(t)
	}
	deadline := time.Now().Add(recovery)
	for !p.ended() && time.Now().Before(deadline) {
		if header == "" {
			if b.challenge(t.Context()) == nil {
				header = b.sign(t)
			}
			continue
		}
		// Whatever comes back, the answer is noted and the same is asked again.
		_, _, _, _ = b.ask(t.Context(), header)
		select {
		case <-p.done:
		case <-time.After(200 * time.Millisecond):
		}
	}
	return header
}

// ends checks that the purchase comes to its good end in time, and that asking again changes nothing.
func (w *world) ends(t *testing.T, b *buyer, header string, began time.Time) {
	t.Helper()
	first := b.insist(t, header, recovery)
	ctx, cancel := context.WithDeadline(t.Context(), began.Add(recovery))
	defer cancel()
	if err := invariants.Await(ctx, w.books); err != nil {
		t.Fatalf("the order is not final within %s: %v", recovery, err)
	}
	for _, payment := range []string{header, b.sign(t)} {
		again := b.insist(t, payment, 5*time.Second)
		switch {
		case !again.Order.Replayed || again.Order.OrderID != first.Order.OrderID || again.Order.Payment != first.Order.Payment:
			t.Errorf("asked again: %+v, at first %+v", again.Order, first.Order)
		case again.Order.Status != "fulfilled":
			t.Errorf("the order ended as %s", again.Order.Status)
		}
	}
	w.counts(t, b)
}

// counts counts what the purchase came to, in the books of the chain and the issuer.
func (w *world) counts(t *testing.T, b *buyer) {
	t.Helper()
	got, err := invariants.Tell(t.Context(), w.books, b.address.String())
	if err != nil {
		t.Fatal(err)
	}
	want := invariants.Tally{Orders: 1, Transfers: 1, Cards: 1, Withdrawals: 1}
	if b.toppingUp {
		want.Orders, want.Transfers, want.Loads = 2, 2, 1
	}
	if got != want {
		t.Errorf("the purchase came to %+v, want %+v", got, want)
	}
}

// judge reports every broken invariant.
func (w *world) judge(t *testing.T) []invariants.Violation {
	t.Helper()
	found := w.check(t)
	for _, v := range found {
		t.Error(v)
	}
	return found
}

// TestFaultsThatTheProgramSurvives arms every point at once: each breaks one step, none is deadly.
func TestFaultsThatTheProgramSurvives(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"error", "panic", "sleep=300ms"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			note := record{Flow: issue, Settler: relayer, Mode: mode, First: "every point", Failed: true}
			defer func() { note.write(t) }()
			faults := survivable(mode)
			w := newWorld(t)
			b := w.buyer(t)
			p := w.start(t, relayer, strings.Join(faults, ","))
			until(t, recovery, "the terms are told", func() error { return b.challenge(t.Context()) })
			began := time.Now()
			header := b.sign(t)
			b.insist(t, header, 2*recovery)
			if err := invariants.Await(t.Context(), w.books); err != nil {
				t.Fatal(err)
			}
			note.Recovery = time.Since(began).Seconds()
			w.ends(t, b, header, time.Now())
			p.stop(t)
			note.Violations = len(w.judge(t))
			note.Failed = t.Failed()
		})
	}
}

// survivable arms every point that can take a mode. Every panic costs its job a longer pause than the one
// before, so that all of them together take minutes; by default it is those around what cannot be undone.
func survivable(mode string) []string {
	var faults []string
	for _, p := range faultpoint.Points() {
		switch {
		case mode == "error" && !p.Fails:
		case mode == "panic" && !torture() && !slices.Contains([]string{"place.committed", "attempt.sent", "settle.seen", "issuer.after_open", "fee.after_withdraw"}, p.Name):
		default:
			faults = append(faults, p.Name+":"+mode)
		}
	}
	return faults
}

// TestCancelledWhileTheProgramIsDown: a payer may cancel an authorization that is stored and not sent.
// The order is payable again, and only the second authorization pays.
func TestCancelledWhileTheProgramIsDown(t *testing.T) {
	t.Parallel()
	note := record{Flow: issue + ", cancelled by the payer", Settler: relayer, Mode: "kill", First: "attempt.stored",
		Second: "bury.before_commit, bury.committed", Failed: true}
	defer func() { note.write(t) }()
	w := newWorld(t)
	b := w.buyer(t)
	p := w.start(t, relayer, fault("attempt.stored", "kill"))
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := b.press(t, p, "")
	p.awaitKill(t, recovery)
	b.cancel(t, dead)
	for _, point := range []string{"bury.before_commit", "bury.committed"} {
		p = w.start(t, relayer, fault(point, "kill"))
		p.awaitKill(t, recovery)
	}
	p = w.start(t, relayer, "")
	began := time.Now()
	until(t, recovery, "the dead payment is refused", func() error {
		status, header, _, err := b.ask(t.Context(), dead)
		if err == nil && (status != http.StatusPaymentRequired || header.Get("Payment-Required") == "") {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	w.ends(t, b, b.sign(t), began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	note.Violations = len(w.judge(t))
	note.Failed = t.Failed()
}

// TestARestartChangesNothing: the program finds nothing to do in books that are at rest.
func TestARestartChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.buyer(t)
	p := w.start(t, relayer, "")
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	header := b.sign(t)
	w.ends(t, b, header, time.Now())
	p.stop(t)
	before, err := invariants.Digest(t.Context(), w.books)
	if err != nil {
		t.Fatal(err)
	}
	p = w.start(t, relayer, "")
	b.insist(t, header, recovery)
	p.stop(t)
	after, err := invariants.Digest(t.Context(), w.books)
	if err != nil {
		t.Fatal(err)
	}
	if before != after {
		t.Error("a restart changed the books")
	}
	w.judge(t)
}

func torture() bool { return os.Getenv("ROAMCARD_TORTURE") != "" }

// TestTorture is the whole matrix: every point, alone and followed by every later one or itself, with
// the same header and a new one. It takes long, so it asks for ROAMCARD_TORTURE=1.
func TestTorture(t *testing.T) {
	if !torture() {
		t.Skip("set ROAMCARD_TORTURE=1")
	}
	cases := drawn(t)
	t.Logf("%d cases", len(cases))
	t.Run("drawn", func(t *testing.T) { run(t, pool(t), cases) })
}

// again says whether a program that died at the first point comes by the second when it recovers.
func again(flow, settler, first, second string) bool {
	all := points(flow, settler)
	i, j := slices.Index(all, first), slices.Index(all, second)
	name, _, _ := strings.Cut(second, "@")
	switch {
	case strings.Contains(second, "@"):
		return false // the pass before may be done already
	case strings.HasPrefix(name, "answer."):
		return true // every repeat is answered
	case strings.HasPrefix(name, "buy.") || strings.HasPrefix(name, "place."):
		return j >= i && i <= slices.Index(all, "place.before_commit")
	case name == "attempt.before_commit" || name == "attempt.stored":
		return i <= slices.Index(all, "attempt.before_commit")
	case name == "attempt.sent" || strings.HasPrefix(name, "facilitator."):
		return i < j
	case name == "issuer.after_open" || name == "fee.after_withdraw" || name == "load.after_send":
		return i < j
	}
	return i <= j
}
