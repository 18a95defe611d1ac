package availability_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// missing is a check that fails with what it holds, and counts how often it ran.
type missing struct {
	mu   sync.Mutex
	err  error
	runs atomic.Int32
}

func (m *missing) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *missing) check(name string) availability.Check {
	return availability.Check{Name: name, Run: func(context.Context) error {
		m.runs.Add(1)
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.err
	}}
}

// setSwitches are kill switches as operators have set them.
type setSwitches []availability.Switch

// Switches implements availability.SwitchStore.
func (s *setSwitches) Switches(context.Context) ([]availability.Switch, error) { return *s, nil }

func noDeliveries(context.Context) map[order.Kind]availability.DeliveryTime { return nil }

// one is the status of a board's only product.
func one(t *testing.T, b *availability.Board) availability.Status {
	t.Helper()
	r, err := b.Report(t.Context())
	if err != nil || len(r.Products) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	return r.Products[0]
}

func TestStatusSaysInWordsWhatIsMissing(t *testing.T) {
	secret := fault.New(fault.FloatUnavailable, "The float of lithic has 12.00 left.")
	for name, tc := range map[string]struct {
		payments, need, shown, least error
		closed                       bool
		want                         availability.State
		reason                       string
	}{
		"nothing":        {want: availability.StateOpen},
		"the chain":      {payments: secret, want: availability.StateDegraded, reason: settleWords},
		"a need":         {need: errors.New("x"), want: availability.StateDegraded, reason: lateWords},
		"a shown check":  {shown: errors.New("x"), want: availability.StateDegraded, reason: lateWords},
		"the least":      {least: secret, want: availability.StateDegraded, reason: shortWords},
		"what is unpaid": {least: order.Awaited(), want: availability.StateDegraded, reason: awaitedWords},
		"that and a need": {least: order.Awaited(), need: errors.New("x"), want: availability.StateDegraded,
			reason: awaitedWords},
		"the sale itself": {need: secret, closed: true, want: availability.StatePaused, reason: pausedWords},
	} {
		t.Run(name, func(t *testing.T) {
			var need, shown, least missing
			need.fail(tc.need)
			shown.fail(tc.shown)
			least.fail(tc.least)
			payments := availability.NewPayments(availability.PaymentsConfig{
				Database:    func(context.Context) error { return nil },
				Chain:       func(context.Context) error { return tc.payments },
				SettlerName: "settler", Now: time.Now,
			})
			got := one(t, availability.NewBoard(availability.BoardConfig{
				Products: []availability.Product{{
					Kind: cards, Title: "Cards", Closed: tc.closed, Payments: payments,
					Needs: []availability.Check{need.check("float")}, Shown: []availability.Check{shown.check("issuer")},
					Least: []availability.Check{least.check("float")},
				}},
				Deliveries: noDeliveries, Now: time.Now,
			}))
			if got.State != tc.want || got.Reason != tc.reason || got.Title != "Cards" || got.Since.IsZero() {
				t.Errorf("%+v", got)
			}
		})
	}
}

const (
	settleWords = "Payments cannot be settled at the moment."
	lateWords   = "Purchases may be refused or delivered late at the moment."
	shortWords  = "Too little is left to sell at the moment. Purchases are refused before anybody pays."
	pausedWords = "Nothing of this is sold at the moment."

	awaitedWords = "What is left is reserved for payments that are not settled yet. Purchases are refused for a moment, " +
		"before anybody pays."
)

func TestStatusIsDegradedWhileSwitchesCannotBeRead(t *testing.T) {
	got := one(t, availability.NewBoard(availability.BoardConfig{
		Products: []availability.Product{{
			Kind: cards, Switches: availability.NewSwitches(&switches{err: errors.New("down")}, time.Now),
		}},
		Deliveries: noDeliveries, Now: time.Now,
	}))
	if got.State != availability.StateDegraded {
		t.Errorf("%+v", got)
	}
}

func TestStatusKnowsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now().UTC()
		var need missing
		set := &setSwitches{}
		b := availability.NewBoard(availability.BoardConfig{
			Products: []availability.Product{{
				Kind: cards, Switches: availability.NewSwitches(set, time.Now), Providers: []string{"acme"},
				Needs: []availability.Check{need.check("float")},
			}},
			Deliveries: noDeliveries, Now: time.Now,
		})
		at := func(what string, state availability.State, since time.Time) {
			t.Helper()
			if got := one(t, b); got.State != state || !got.Since.Equal(since) {
				t.Errorf("%s: %s since %s, want %s since %s", what, got.State, got.Since, state, since)
			}
		}
		at("at first", availability.StateOpen, began)
		time.Sleep(time.Minute)
		at("still", availability.StateOpen, began)
		need.fail(errDown)
		at("cached", availability.StateOpen, began)
		time.Sleep(time.Minute)
		failed := time.Now().UTC()
		at("failing", availability.StateDegraded, failed)
		time.Sleep(time.Minute)
		at("still failing", availability.StateDegraded, failed)
		closed := began.Add(-time.Hour)
		*set = setSwitches{{Product: cards, Paused: true, ChangedAt: closed}}
		time.Sleep(time.Minute)
		at("paused by an operator", availability.StatePaused, closed)
		*set = setSwitches{{Product: availability.OfProvider("acme"), Paused: true, ChangedAt: closed.Add(time.Minute)}}
		time.Sleep(time.Minute)
		at("its only provider paused", availability.StatePaused, closed.Add(time.Minute))
		*set = setSwitches{}
		need.fail(nil)
		time.Sleep(time.Minute)
		at("open again", availability.StateOpen, time.Now().UTC())
	})
}

func TestStatusIsLookedAtOnceForAThousandWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var need missing
		var reads atomic.Int32
		b := availability.NewBoard(availability.BoardConfig{
			Products: []availability.Product{{Kind: cards, Needs: []availability.Check{need.check("float")}}},
			Deliveries: func(context.Context) map[order.Kind]availability.DeliveryTime {
				reads.Add(1)
				return map[order.Kind]availability.DeliveryTime{cards: {Median: time.Second, Count: 2}}
			},
			Now: time.Now,
		})
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				r, err := b.Report(t.Context())
				if err != nil || r.Products[0].Delivery.Count != 2 || r.Products[0].Delivery.Median != time.Second {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		all.Wait()
		if need.runs.Load() != 1 || reads.Load() != 1 {
			t.Errorf("%d checks and %d readings of delivery times, want one each", need.runs.Load(), reads.Load())
		}
	})
}

func TestBoardIsWatchedWhileNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var need missing
		b := availability.NewBoard(availability.BoardConfig{
			Products:   []availability.Product{{Kind: cards, Needs: []availability.Check{need.check("float")}}},
			Deliveries: noDeliveries, Now: time.Now,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.Watch(ctx) }()
		need.fail(errDown)
		time.Sleep(time.Hour)
		if got := one(t, b); got.State != availability.StateDegraded || time.Since(got.Since) < 59*time.Minute {
			t.Errorf("%+v", got)
		}
		stop()
		<-ended
	})
}

func TestReportIsAsGoodAsItsProducts(t *testing.T) {
	const open, degraded, paused = availability.StateOpen, availability.StateDegraded, availability.StatePaused
	for _, tc := range []struct {
		of   []availability.State
		want availability.State
	}{
		{[]availability.State{open, open}, open},
		{[]availability.State{open, paused}, open},
		{[]availability.State{open, degraded, paused}, degraded},
		{[]availability.State{paused, degraded}, degraded},
		{[]availability.State{paused, paused}, paused},
	} {
		var r availability.Report
		for _, s := range tc.of {
			r.Products = append(r.Products, availability.Status{State: s})
		}
		if got := r.State(); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.of, got, tc.want)
		}
	}
}
