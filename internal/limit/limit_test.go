package limit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
)

// clock is a time that the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestTakeAllowsBurstAndRefillsEvenly(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	l := New(Rates{Verify: {3, time.Minute}}, c.now)
	take := func() (State, error) {
		s, limited, err := l.Take(Verify, "ada")
		if !limited {
			t.Fatal("not limited")
		}
		return s, err
	}
	for left := 2; left >= 0; left-- {
		if s, err := take(); err != nil || s.Remaining != left || s.Limit != 3 || s.RetryAfter != 0 ||
			s.Reset != time.Duration(3-left)*20*time.Second {
			t.Fatalf("%d left: %+v, %v", left, s, err)
		}
	}
	s, err := take()
	if fault.Of(err) != fault.RateLimited || s.RetryAfter != 20*time.Second || s.Reset != time.Minute {
		t.Fatalf("the fourth: %+v, %v", s, err)
	}
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Fault.RetryAfter != 20*time.Second ||
		refused.Headers().Get("RateLimit-Remaining") != "0" || refused.Headers().Get("RateLimit-Reset") != "60" {
		t.Errorf("%+v", refused)
	}
	c.at = c.at.Add(20*time.Second - 1)
	if _, err := take(); err == nil {
		t.Error("a request came early")
	}
	c.at = c.at.Add(1)
	if _, err := take(); err != nil {
		t.Errorf("in time: %v", err)
	}
	if _, err := take(); err == nil {
		t.Error("two came back at once")
	}
	if _, _, err := l.Take(Verify, "bob"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	c.at = c.at.Add(time.Hour)
	if s, err := take(); err != nil || s.Remaining != 2 {
		t.Errorf("an hour later: %+v, %v", s, err)
	}
}

// TestWeighCountsAsManyRequests: before what it costs is done, and never more than a caller can have.
func TestWeighCountsAsManyRequests(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	l := New(Rates{Poll: {10, time.Minute}}, c.now)
	weigh := func(requests, remaining int, retryAfter time.Duration) {
		t.Helper()
		s, limited, err := l.Weigh(Poll, "ada", requests)
		if !limited || (err != nil) != (retryAfter > 0) || s.Remaining != remaining || s.RetryAfter != retryAfter {
			t.Errorf("%d at once: %+v, %v", requests, s, err)
		}
	}
	weigh(4, 6, 0)
	weigh(7, 6, 6*time.Second)
	weigh(5, 1, 0)
	weigh(1000, 1, 48*time.Second)
	c.at = c.at.Add(48 * time.Second)
	weigh(1000, 0, 0)
}

// TestOweIsWaitedFor: what a request has cost beyond the rate is waited for before the next one.
func TestOweIsWaitedFor(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	l := New(Rates{Poll: {10, time.Minute}}, c.now)
	l.Owe(Poll, "ada", 25)
	if s, _, err := l.Take(Poll, "ada"); fault.Of(err) != fault.RateLimited || s.RetryAfter != 96*time.Second ||
		s.Remaining != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	c.at = c.at.Add(96 * time.Second)
	if _, _, err := l.Take(Poll, "ada"); err != nil {
		t.Error(err)
	}
	var none *Limiter
	none.Owe(Poll, "ada", 1)
	New(nil, c.now).Owe(Poll, "ada", 1)
}

func TestTakeWithoutRateAllowsAll(t *testing.T) {
	for _, l := range []*Limiter{nil, New(nil, time.Now), New(Rates{Poll: {}}, time.Now)} {
		for range 1000 {
			if _, limited, err := l.Take(Poll, "ada"); limited || err != nil {
				t.Fatal(limited, err)
			}
			if _, err := l.Enter(InFlight, "ada"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestConcurrentTakesGetExactlyTheRate(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	l := New(Rates{Poll: {100, time.Minute}}, c.now)
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if _, _, err := l.Take(Poll, "ada"); err == nil {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != 100 {
		t.Errorf("%d passed", passed.Load())
	}
}

func TestEnterBoundsConcurrency(t *testing.T) {
	l := New(Rates{InFlight: {2, 0}}, time.Now)
	first, _ := l.Enter(InFlight, "ada")
	second, err := l.Enter(InFlight, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Enter(InFlight, "ada"); fault.Of(err) != fault.RateLimited {
		t.Errorf("the third: %v", err)
	}
	if _, err := l.Enter(InFlight, "bob"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	first()
	first()
	if third, err := l.Enter(InFlight, "ada"); err != nil {
		t.Errorf("after one has left: %v", err)
	} else if _, err := l.Enter(InFlight, "ada"); err == nil {
		t.Error("leaving twice made room for two")
	} else {
		third()
		second()
	}
	if n := len(l.busy); n != 1 {
		t.Errorf("%d callers are kept, want bob alone", n)
	}
}

func TestLimiterBoundsCallers(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	l := New(Rates{Poll: {10, time.Minute}}, c.now)
	for i := range maxCallers + 1000 {
		_, _, _ = l.Take(Poll, fmt.Sprint(i)) // whether it passes does not matter
	}
	if len(l.full) > maxCallers {
		t.Errorf("%d callers are kept", len(l.full))
	}
	c.at = c.at.Add(time.Hour)
	_, _, _ = l.Take(Poll, "one more")
	if len(l.full) > 1 {
		t.Errorf("%d callers are kept after an hour", len(l.full))
	}
}

func TestParseRates(t *testing.T) {
	for text, want := range map[string]map[Class]Rate{
		"default":                       {Reveal: {5, time.Hour}, InFlight: {2, 0}},
		"off":                           {Reveal: {}, Poll: {}},
		"x20":                           {Reveal: {100, time.Hour}, InFlight: {40, 0}},
		"x2, reveal=10/30m, poll=off":   {Reveal: {10, 30 * time.Minute}, Poll: {}, Verify: {20, time.Minute}},
		"in_flight=4,challenge=100/1s ": {InFlight: {4, 0}, Challenge: {100, time.Second}, Verify: {10, time.Minute}},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for class, rate := range want {
			if got[class] != rate {
				t.Errorf("%q: %s is %+v, want %+v", text, class, got[class], rate)
			}
		}
	}
	for _, text := range []string{"", "x0", "x", "xx", "reveal", "reveal=", "reveal=5", "reveal=0/1h", "reveal=-1/1h",
		"reveal=5/1", "reveal=5/48h", "in_flight=2/1m", "nothing=5/1m", "reveal=5/1h,"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestAddressOfTrustsConfiguredProxiesOnly(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "203.0.113.9:1234", nil, "203.0.113.9"},
		{"a stranger's word", "203.0.113.9:1234", []string{"198.51.100.1"}, "203.0.113.9"},
		{"one proxy", "10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a forged hop before", "10.0.0.1:1234", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"a forged header before", "10.0.0.1:1234", []string{"1.1.1.1", "198.51.100.1"}, "198.51.100.1"},
		{"two proxies", "10.0.0.1:1234", []string{"1.1.1.1, 198.51.100.1, 10.2.3.4"}, "198.51.100.1"},
		{"only proxies", "10.0.0.1:1234", []string{"10.2.3.4"}, "10.2.3.4"},
		{"no header", "10.0.0.1:1234", nil, "10.0.0.1"},
		{"garbage", "10.0.0.1:1234", []string{"198.51.100.1, x"}, "10.0.0.1"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:1234", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a network of IPv6", "[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::/64"},
		{"IPv6 behind a proxy", "[fd00::1]:1234", []string{"2001:db8:1:2::9%eth0"}, "2001:db8:1:2::/64"},
		{"no address", "pipe", []string{"198.51.100.1"}, "pipe"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		if got := AddressOf(r, trusted); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
