package availability_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
)

func wantFault(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if got := fault.Of(err); got != code || (err == nil) != (code == "") {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, code)
	}
}

// switches keeps kill switches, and counts how often they are read.
// The kinds of some products.
const (
	cards  order.Kind = "cards"
	topups order.Kind = "topups"
	esims  order.Kind = "esims"
)

var kinds = []order.Kind{cards, topups, esims}

type switches struct {
	paused []order.Kind
	err    error
	reads  int
}

// Switches implements availability.SwitchStore.
func (s *switches) Switches(context.Context) ([]availability.Switch, error) {
	s.reads++
	var all []availability.Switch
	for _, k := range kinds {
		all = append(all, availability.Switch{Product: k, Paused: slices.Contains(s.paused, k)})
	}
	return all, s.err
}

func TestProductIsPausedByConfigurationOrOperators(t *testing.T) {
	for name, tc := range map[string]struct {
		paused []order.Kind
		closed bool
		want   bool
	}{
		"by nobody":            {},
		"by operators":         {paused: []order.Kind{topups}, want: true},
		"another product":      {paused: []order.Kind{cards, esims}},
		"by the configuration": {closed: true, want: true},
		"by both":              {paused: []order.Kind{topups}, closed: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			all := availability.NewSwitches(&switches{paused: tc.paused}, time.Now)
			p := availability.Product{Kind: topups, Refusal: fault.TopupPaused, Closed: tc.closed, Switches: all}
			if paused, err := p.Paused(t.Context()); err != nil || paused != tc.want {
				t.Errorf("paused: %t, %v", paused, err)
			}
			want := fault.Code("")
			if tc.want {
				want = fault.TopupPaused
			}
			wantFault(t, "open", p.Open(t.Context()), want)
		})
	}
	if paused, err := (availability.Product{Kind: topups}).Paused(t.Context()); err != nil || paused {
		t.Errorf("without switches: %t, %v", paused, err)
	}
}

func TestProductIsNotSoldWhileItsSwitchCannotBeRead(t *testing.T) {
	p := availability.Product{Kind: esims, Refusal: fault.EsimPaused,
		Switches: availability.NewSwitches(&switches{err: errDown}, time.Now)}
	if err := p.Open(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("open: %v", err)
	}
	if _, err := p.Paused(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("paused: %v", err)
	}
	p.Closed = true // what the configuration closes needs no switch
	wantFault(t, "closed", p.Open(t.Context()), fault.EsimPaused)
}

func TestSwitchesAreReadOncePerSecondForAllProducts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &switches{}
		all := availability.NewSwitches(store, time.Now)
		paused := func(want bool, reads int) {
			t.Helper()
			for _, k := range kinds {
				if got, err := all.Paused(t.Context(), k); err != nil || got != want {
					t.Errorf("%s: %t, %v", k, got, err)
				}
			}
			if store.reads != reads {
				t.Errorf("%d reads, want %d", store.reads, reads)
			}
		}
		paused(false, 1)
		store.paused = kinds
		time.Sleep(time.Second - time.Nanosecond)
		paused(false, 1)
		time.Sleep(time.Nanosecond)
		paused(true, 2)
	})
}

// workerCounts says how many workers there are.
type workerCounts map[job.Kind]int

// Workers implements availability.WorkerCounts.
func (w workerCounts) Workers(context.Context) (map[job.Kind]int, error) {
	if w == nil {
		return nil, errDown
	}
	return maps.Clone(w), nil
}

func TestWorkersFailUnlessEveryKindHasOne(t *testing.T) {
	for name, tc := range map[string]struct {
		counts workerCounts
		want   fault.Code
	}{
		"one of each":    {workerCounts{"fulfil": 1, "fee": 3}, ""},
		"one kind lacks": {workerCounts{"fulfil": 1}, fault.WorkersUnavailable},
		"none":           {workerCounts{}, fault.WorkersUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			check := availability.Workers(tc.counts, time.Now)("fulfil", "fee")
			wantFault(t, check.Name, check.Run(t.Context()), tc.want)
		})
	}
	if err := availability.Workers(workerCounts(nil), time.Now)("fulfil").Run(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("workers that cannot be counted: %v", err)
	}
}

// TestProductsAreToldOfTheSameWorkers: a service that is ready because of one product sells the others, too, whose
// workers came with that one's.
func TestProductsAreToldOfTheSameWorkers(t *testing.T) {
	counts := workerCounts{}
	now := time.Now()
	workers := availability.Workers(counts, func() time.Time { return now })
	cards, esims := workers("fulfil", "fee"), workers("fulfil", "sync")
	wantFault(t, "cards, before", cards.Run(t.Context()), fault.WorkersUnavailable)
	counts["fulfil"], counts["fee"], counts["sync"] = 1, 1, 1
	now = now.Add(time.Second - 1)
	early := esims.Run(t.Context())
	if late := cards.Run(t.Context()); early == nil && late != nil {
		t.Errorf("eSIMs have workers, and then cards: %v", late)
	}
	now = now.Add(1)
	wantFault(t, "eSIMs", esims.Run(t.Context()), "")
	wantFault(t, "cards", cards.Run(t.Context()), "")
}

// check ends as it is told, and notes that it ran.
func check(name string, ran *[]string, err error) availability.Check {
	return availability.Check{Name: name, Run: func(context.Context) error { *ran = append(*ran, name); return err }}
}

func TestOpenNamesTheFirstNeedThatIsMissing(t *testing.T) {
	var ran []string
	p := availability.Product{Kind: cards, Refusal: fault.IssuePaused, Needs: []availability.Check{
		check("issuer", &ran, nil),
		check("range", &ran, fault.New(fault.BINUnavailable, "")),
		check("workers", &ran, errDown),
	}}
	wantFault(t, "open", p.Open(t.Context()), fault.BINUnavailable)
	if !slices.Equal(ran, []string{"issuer", "range"}) {
		t.Errorf("asked %q", ran)
	}
	ran, p.Closed = nil, true
	wantFault(t, "closed", p.Open(t.Context()), fault.IssuePaused)
	if len(ran) != 0 {
		t.Errorf("a closed sale asked %q", ran)
	}
}

// TestServiceIsReadyWhileAProductIsSold: what one product alone needs closes the service with the last one.
func TestServiceIsReadyWhileAProductIsSold(t *testing.T) {
	var down map[string]bool
	var asked atomic.Bool
	check := func(name string) availability.Check {
		return availability.Check{Name: name, Run: func(context.Context) error {
			if name == "supplier" {
				asked.Store(true)
			}
			if down[name] {
				return errDown
			}
			return nil
		}}
	}
	fine := func(context.Context) error { return nil }
	payments := availability.NewPayments(availability.PaymentsConfig{
		Database: check("database").Run, Chain: fine, Token: fine, Settler: fine, SettlerName: "relayer", Now: time.Now,
	})
	cards := availability.Product{Kind: "card", Payments: payments, Shown: []availability.Check{check("issuer")}}
	esims := availability.Product{Kind: "esim", Payments: payments, Shown: []availability.Check{check("supplier")}}
	paused := esims
	paused.Closed = true
	for name, tt := range map[string]struct {
		down   []string
		others []availability.Product
		closes []string
	}{
		"nothing is missing":            {nil, []availability.Product{esims}, nil},
		"the issuer":                    {[]string{"issuer"}, []availability.Product{esims}, nil},
		"the issuer, of cards alone":    {[]string{"issuer"}, nil, []string{"issuer"}},
		"the issuer, with eSIMs closed": {[]string{"issuer"}, []availability.Product{paused}, []string{"issuer"}},
		"both providers":                {[]string{"issuer", "supplier"}, []availability.Product{esims}, []string{"issuer"}},
		"the database":                  {[]string{"database"}, []availability.Product{esims}, []string{"database"}},
		"the supplier":                  {[]string{"supplier"}, []availability.Product{esims}, nil},
	} {
		down = map[string]bool{}
		asked.Store(false)
		for _, one := range tt.down {
			down[one] = true
		}
		var closes []string
		for _, r := range cards.Serving(t.Context(), tt.others...) {
			if r.Err != nil && !r.Passing {
				closes = append(closes, r.Name)
			}
			if (r.Err != nil) != down[r.Name] {
				t.Errorf("%s: %s is shown as %v", name, r.Name, r.Err)
			}
		}
		if !slices.Equal(closes, tt.closes) {
			t.Errorf("%s: closed by %q, want %q", name, closes, tt.closes)
		}
		if asked.Load() && !down["issuer"] {
			t.Errorf("%s: the supplier was asked", name)
		}
	}
}

// TestReadyShowsEveryCheckInOrder: also those after one that fails, and none waits for another.
func TestReadyShowsEveryCheckInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) error { time.Sleep(time.Second); return nil }
		failing := func(context.Context) error { return errDown }
		p := availability.Product{
			Operated: []availability.Check{{Name: "sale", Run: failing}},
			Payments: availability.NewPayments(availability.PaymentsConfig{
				Database: slow, Chain: slow, Token: failing, Settler: slow, SettlerName: "relayer", Now: time.Now,
			}),
			Shown: []availability.Check{{Name: "issuer", Run: slow}, {Name: "workers", Run: slow}},
		}
		began := time.Now()
		want := func(results []availability.Result, names, failed []string) {
			t.Helper()
			var gotNames, gotFailed []string
			for _, r := range results {
				gotNames = append(gotNames, r.Name)
				if r.Err != nil {
					gotFailed = append(gotFailed, r.Name)
				}
			}
			if !slices.Equal(gotNames, names) || !slices.Equal(gotFailed, failed) {
				t.Errorf("shown %q, failed %q", gotNames, gotFailed)
			}
		}
		own := []string{"database", "chain", "transfers", "token", "relayer", "issuer", "workers"}
		want(p.Ready(t.Context()), append([]string{"sale"}, own...), []string{"sale", "token"})
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
		want(p.Started(t.Context()), own, []string{"token"})
	})
}

func TestAnyOfAsksAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := errors.New("down")
		slow := availability.Check{Name: "slow", Run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		down := availability.Check{Name: "down", Run: func(context.Context) error { return fails }}
		works := availability.Check{Name: "works", Run: func(context.Context) error { return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // clock: virtual
		defer cancel()
		begin := time.Now()
		if err := availability.AnyOf(ctx, []availability.Check{slow, down, works}); err != nil || time.Since(begin) > 0 {
			t.Errorf("%v after %v, want the one that works, at once", err, time.Since(begin))
		}
		err := availability.AnyOf(ctx, []availability.Check{slow, down})
		if !errors.Is(err, fails) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want both errors", err)
		}
	})
}

// TestFirstOfPrefersTheFirst: the next one is asked while the one before is slow or fails, and not otherwise.
func TestFirstOfPrefersTheFirst(t *testing.T) {
	const hedgeDelay = time.Second
	fails := errors.New("down")
	for name, tt := range map[string]struct {
		takes []time.Duration
		fails []bool
		at    int
		after time.Duration
		asked int
	}{
		"the first":               {[]time.Duration{hedgeDelay / 2, 0}, []bool{false, false}, 0, hedgeDelay / 2, 1},
		"a slow first":            {[]time.Duration{time.Hour, 0, 0}, []bool{false, false, false}, 1, hedgeDelay, 2},
		"a first that fails":      {[]time.Duration{0, hedgeDelay / 2, 0}, []bool{true, false, false}, 1, hedgeDelay / 2, 2},
		"a slow one that is back": {[]time.Duration{2 * hedgeDelay, time.Hour}, []bool{false, false}, 0, 2 * hedgeDelay, 2},
		"none":                    {[]time.Duration{0, 0}, []bool{true, true}, -1, 0, 2},
		"none to ask":             {nil, nil, -1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				begin := time.Now()
				at, errs := availability.FirstOf(t.Context(), len(tt.takes), hedgeDelay, func(ctx context.Context, i int) error {
					asked.Add(1)
					select {
					case <-time.After(tt.takes[i]):
					case <-ctx.Done():
					}
					if tt.fails[i] {
						return fails
					}
					return ctx.Err()
				})
				if at != tt.at || time.Since(begin) != tt.after || int(asked.Load()) != tt.asked {
					t.Errorf("%d after %v of %d", at, time.Since(begin), asked.Load())
				}
				for i, err := range errs {
					if at < 0 && !errors.Is(err, fails) {
						t.Errorf("error %d: %v", i, err)
					}
				}
			})
		})
	}
}

func TestReadyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		p := availability.Product{Shown: []availability.Check{{Name: "issuer", Run: hangs}}}
		began := time.Now()
		if results := p.Ready(t.Context()); len(results) != 1 || results[0].Err == nil {
			t.Errorf("%+v", results)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
