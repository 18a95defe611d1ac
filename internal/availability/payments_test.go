package availability_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// dependency ends as it is told, and counts how often it is asked.
type dependency struct {
	mu    sync.Mutex
	err   error
	asked int
}

func (d *dependency) check(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.err
}

func (d *dependency) fails(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *dependency) calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// history is a record of payments that is whole, or not.
type history struct {
	ready, read error
	payer       x402.Address
	lost        int
}

func (h *history) Ready(context.Context) error { return h.ready }
func (h *history) Lost()                       { h.lost++ }
func (h *history) Read(_ context.Context, payer x402.Address) error {
	h.payer = payer
	return h.read
}

// world is what payments depend on.
type world struct {
	chain, token, settler dependency
	history               history
}

func (w *world) payments() *availability.Payments {
	return availability.NewPayments(availability.PaymentsConfig{
		History: &w.history, Chain: w.chain.check, Token: w.token.check, Settler: w.settler.check, SettlerName: "relayer",
		WatchEvery: 5 * time.Second, Now: time.Now,
	})
}

func (w *world) wantAsked(t *testing.T, chain, token, settler int) {
	t.Helper()
	got, want := [3]int{w.chain.calls(), w.token.calls(), w.settler.calls()}, [3]int{chain, token, settler}
	if got != want {
		t.Errorf("asked chain, token and settler %d times, want %d", got, want)
	}
}

func wantNext(t *testing.T, what string, err error, code fault.Code, next fault.NextAction) {
	t.Helper()
	wantFault(t, what, err, code)
	if f, ok := fault.As(err); ok && f.NextAction != next {
		t.Errorf("%s: next action %q, want %q", what, f.NextAction, next)
	}
}

func TestSettleAsksAndInviteDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.payments()
		w.settler.fails(errors.Join(fault.New(fault.FacilitatorDown, "It fails."), errDown))
		wantFault(t, "before anybody looked", p.Invite(t.Context()), "")
		w.wantAsked(t, 0, 0, 0)
		wantNext(t, "settle", p.Settle(t.Context()), fault.FacilitatorDown, fault.RetrySameRequest)
		wantNext(t, "invite", p.Invite(t.Context()), fault.FacilitatorDown, fault.WaitAndRetry)
		w.wantAsked(t, 1, 1, 1)
		time.Sleep(15*time.Second - time.Nanosecond)
		wantFault(t, "nearly forgotten", p.Invite(t.Context()), fault.FacilitatorDown)
		time.Sleep(time.Nanosecond)
		wantFault(t, "forgotten", p.Invite(t.Context()), "")
		w.wantAsked(t, 1, 1, 1)
		wantFault(t, "settle", p.Settle(t.Context()), fault.FacilitatorDown)
		w.settler.fails(nil)
		time.Sleep(time.Second)
		wantFault(t, "settle", p.Settle(t.Context()), "")
		wantFault(t, "a good look ends it", p.Invite(t.Context()), "")
	})
}

// TestFailureToReadTheTokenIsForgottenSoon: it may be one answer of a node that came late, and turns payers away.
// TestSettleAsksAllAtOnce: three that take two seconds each take two seconds.
func TestSettleAsksAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) error { time.Sleep(2 * time.Second); return nil } // clock: virtual
		p := availability.NewPayments(availability.PaymentsConfig{Chain: slow, Token: slow, Settler: slow, Now: time.Now})
		begin := time.Now()
		if err := p.Settle(t.Context()); err != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestFailureToReadTheTokenIsForgottenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.payments()
		w.token.fails(errDown)
		wantFault(t, "settle", p.Settle(t.Context()), fault.DependencyDown)
		w.token.fails(nil)
		time.Sleep(time.Second - time.Nanosecond)
		wantFault(t, "within a second", p.Settle(t.Context()), fault.DependencyDown)
		time.Sleep(time.Nanosecond)
		wantFault(t, "after a second", p.Settle(t.Context()), "")
		w.wantAsked(t, 2, 2, 2)
	})
}

// TestSettleNamesWhoseFaultItIs: of several failures the first that is known; without one, a dependency is down.
func TestSettleNamesWhoseFaultItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		chain, token, settler error
		want                  fault.Code
	}{
		"all is well":  {},
		"nobody knows": {settler: errDown, want: fault.DependencyDown},
		"one knows":    {chain: errDown, token: fault.New(fault.TokenPaused, ""), want: fault.TokenPaused},
		"several do": {
			chain: fault.New(fault.ChainUnsettled, ""), settler: fault.New(fault.FacilitatorDown, ""),
			want: fault.ChainUnsettled,
		},
		"the last alone": {settler: fault.New(fault.FacilitatorDown, ""), want: fault.FacilitatorDown},
	} {
		t.Run(name, func(t *testing.T) {
			var w world
			w.chain.fails(tc.chain)
			w.token.fails(tc.token)
			w.settler.fails(tc.settler)
			wantFault(t, "settle", w.payments().Settle(t.Context()), tc.want)
			w.wantAsked(t, 1, 1, 1)
		})
	}
}

func TestClaimsWithinASecondAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.payments()
		for range 4 {
			wantFault(t, "settle", p.Settle(t.Context()), "")
			time.Sleep(400 * time.Millisecond)
		}
		w.wantAsked(t, 2, 1, 2) // the token is asked as often as Watch does
	})
}

func TestWatchKeepsInviteUpToDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		p := w.payments()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.Watch(ctx) }()
		synctest.Wait()
		w.wantAsked(t, 1, 1, 1)
		w.chain.fails(errDown)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantFault(t, "down", p.Invite(t.Context()), fault.DependencyDown)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantFault(t, "still down", p.Invite(t.Context()), fault.DependencyDown)
		w.chain.fails(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantFault(t, "up again", p.Invite(t.Context()), "")
		stop()
		<-ended
	})
}

func TestNobodyPaysWhileTheRecordIsNotWhole(t *testing.T) {
	payer := x402.Address{1}
	var w world
	p := w.payments()
	w.history.ready = errDown
	for what, ask := range map[string]func(context.Context) error{"recorded": p.Recorded, "invite": p.Invite} {
		err := ask(t.Context())
		wantFault(t, what, err, fault.DependencyDown)
		if f, _ := fault.As(err); f == nil || f.SafeToPayAgain || f.RetryAfter != 2*time.Second {
			t.Errorf("%s: %+v", what, f)
		}
	}
	wantFault(t, "a claim", p.RecordedOf(t.Context(), payer), fault.SettlementUnknown)
	w.history.ready, w.history.read = nil, errDown
	wantFault(t, "recorded", p.Recorded(t.Context()), "")
	wantFault(t, "the payer's transfers cannot be read", p.RecordedOf(t.Context(), payer), fault.SettlementUnknown)
	w.history.read = nil
	wantFault(t, "a claim", p.RecordedOf(t.Context(), payer), "")
	if w.history.payer != payer {
		t.Errorf("read the transfers of %s", w.history.payer)
	}
	err := p.Lost(errDown)
	wantFault(t, "lost", err, fault.SettlementUnknown)
	if !errors.Is(err, errDown) || w.history.lost != 1 {
		t.Errorf("lost: %v, told %d times", err, w.history.lost)
	}
}

func TestNilPaymentsAreAlwaysTaken(t *testing.T) {
	var p *availability.Payments
	for what, err := range map[string]error{
		"invite": p.Invite(t.Context()), "recorded": p.Recorded(t.Context()),
		"a claim": p.RecordedOf(t.Context(), x402.Address{}), "settle": p.Settle(t.Context()),
	} {
		wantFault(t, what, err, "")
	}
	wantFault(t, "lost", p.Lost(errDown), fault.SettlementUnknown)
}

// Smart accounts that cannot pay now are shown by their kinds, and close the sale for nobody.
func TestPausedSmartAccountsCloseNothing(t *testing.T) {
	fails := errors.New("the gas of a day is used up")
	product := availability.Product{Payments: availability.NewPayments(availability.PaymentsConfig{
		Database: func(context.Context) error { return nil }, SettlerName: "relayer", Now: time.Now,
		SmartAccounts:     func(context.Context) error { return fails },
		SmartAccountKinds: []string{"coinbase-smart-wallet", "safe"},
	})}
	shown := map[string]bool{}
	for _, r := range product.Ready(t.Context()) {
		if (r.Err != nil) != r.Passing || r.Err != nil && !errors.Is(r.Err, fails) {
			t.Errorf("%s: %v, passing %t", r.Name, r.Err, r.Passing)
		}
		shown[r.Name] = r.Passing
	}
	if !shown["coinbase-smart-wallet"] || !shown["safe"] || shown["relayer"] {
		t.Errorf("shown are %v", shown)
	}
	if err := product.Settle(t.Context()); err != nil {
		t.Errorf("settle: %v", err)
	}
	for _, r := range product.Started(t.Context()) {
		if r.Err != nil {
			t.Errorf("a start waits for %s", r.Name)
		}
	}
}
