package esimgo

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/provider/wire"
)

func TestOrdersAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{gap: 3 * time.Second, now: time.Now}
		begun := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := p.wait(ctx); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begun))
			})
		}
		all.Wait()
		for i, d := range at {
			if want := time.Duration(i) * 3 * time.Second; d != want {
				t.Errorf("turn %d came after %s, want %s", i, d, want)
			}
		}
	})
}

func TestWaitLeavesTimeForTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{gap: 3 * time.Second, now: time.Now}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := p.wait(short); err != nil {
			t.Fatal(err)
		}
		if err := p.wait(short); err == nil {
			t.Error("three of five seconds are waited away")
		}
		// Whoever did not wait holds up nobody.
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		if err := p.wait(long); err != nil || time.Since(begun) != 3*time.Second {
			t.Errorf("waited %s, %v", time.Since(begun), err)
		}
	})
}

func TestAmountsAreExact(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1_000_000, "1.12": 1_120_000, "1.120000": 1_120_000, "0.000001": 1, "1.1200000000": 1_120_000,
		"1e3": 1_000_000_000, "1.12E0": 1_120_000, "112e-2": 1_120_000, " 1": 1_000_000,
		"999999999999.999999": 999_999_999_999_999_999,
	} {
		if got, ok := parseUSD(wire.Text(text)); !ok || int64(got) != want {
			t.Errorf("%s is %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "-1", "+1", "1e13", "1e-7", "1.", ".5", "1.0000001", "1.1200000000000001", "1,5", "0x10", "NaN", "1.2.3",
		"9999999999999", "1e999999999",
	} {
		if got, ok := parseUSD(wire.Text(text)); ok {
			t.Errorf("%q is %d", text, got)
		}
	}
}
