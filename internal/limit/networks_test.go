package limit

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// host is a client of IPv6 in its own /64: the second of a /56 of a /48, and so on.
func host(site, block, network int) string {
	return Name(netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::1", site, block<<8|network)))
}

func TestNetworksAreThoseOfIPv6(t *testing.T) {
	want := []Network{{"2001:db8:1:203::/64", 1, 1}, {"2001:db8:1:200::/56", 4, 2}, {"2001:db8:1::/48", 16, 4}}
	if diff := cmp.Diff(want, Networks(host(1, 2, 3))); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{
		"", "192.0.2.1", "0xabc", "operator ann", "order/64", "/64", "::ffff:192.0.2.1",
		Name(netip.MustParseAddr("192.0.2.1")),
	} {
		if diff := cmp.Diff([]Network{{name, 1, 1}}, Networks(name)); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
}

// TestNetworkHasARateOfItsOwn: who has all addresses of a network gets as many requests as it has, and nobody else
// waits.
func TestNetworkHasARateOfItsOwn(t *testing.T) {
	c := &clock{time.Unix(1_000_000, 0)}
	l := New(Rates{Challenge: {10, time.Minute}}, c.now)
	taken := func(next func(i int) string) (n int) {
		for i := range 2000 {
			if _, _, err := l.Take(Challenge, next(i)); err == nil {
				n++
			}
		}
		return n
	}
	if n := taken(func(int) string { return host(1, 0, 0) }); n != 10 {
		t.Errorf("%d requests of a /64", n)
	}
	if n := taken(func(i int) string { return host(1, 0, i%256) }); n != 30 {
		t.Errorf("%d more of its /56", n)
	}
	if n := taken(func(i int) string { return host(1, i%256, i/256) }); n != 120 {
		t.Errorf("%d more of its /48", n)
	}
	if s, _, err := l.Take(Challenge, host(2, 0, 0)); err != nil || s.Limit != 10 || s.Remaining != 9 {
		t.Errorf("another /48: %+v, %v", s, err)
	}
	// What is refused is counted nowhere: a sixteenth of the time later there is room for one of any of them.
	c.at = c.at.Add(6 * time.Second / 16)
	if s, _, err := l.Take(Challenge, host(1, 9, 9)); err != nil || s.Limit != 10 {
		t.Errorf("%+v, %v", s, err)
	}
	s, _, err := l.Take(Challenge, host(1, 8, 8))
	if err == nil || s.Limit != 10 || s.Remaining != 0 || s.RetryAfter != 6*time.Second/16 {
		t.Errorf("at once after it: %+v, %v", s, err)
	}
	l.Give(Challenge, host(1, 9, 9))
	if _, _, err := l.Take(Challenge, host(1, 8, 8)); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	l.Owe(Challenge, host(3, 0, 0), 160)
	if _, _, err := l.Take(Challenge, host(3, 1, 0)); err == nil {
		t.Error("what one of a network owes is not waited for by the others")
	}
}

func TestNetworkHasSoManyAtOnce(t *testing.T) {
	l := New(Rates{Concurrent: {8, 0}}, time.Now)
	var leave []func()
	entered := func(next func(i int) string) (n int) {
		for i := range 2000 {
			if done, err := l.Enter(Concurrent, next(i)); err == nil {
				leave = append(leave, done)
				n++
			}
		}
		return n
	}
	held := &Bytes{Each: 8, All: 64}
	holds := func(next func(i int) string) (n int) {
		for i := range 2000 {
			if held.Take(next(i), 1) {
				n++
			}
		}
		return n
	}
	for name, at := range map[string]func(func(i int) string) int{"requests": entered, "bytes": holds} {
		for _, of := range []struct {
			what string
			next func(i int) string
			want int
		}{
			{"a /64", func(int) string { return host(1, 0, 0) }, 8},
			{"more of its /56", func(i int) string { return host(1, 0, i%256) }, 8},
			{"more of its /48", func(i int) string { return host(1, i%256, i/256) }, 16},
			{"another /48", func(int) string { return host(2, 0, 0) }, 8},
		} {
			if n := at(of.next); n != of.want {
				t.Errorf("%d %s of %s, want %d", n, name, of.what, of.want)
			}
		}
	}
	for _, done := range leave {
		done()
	}
	if len(l.busy) != 0 {
		t.Errorf("%d are busy when all have left", len(l.busy))
	}
	for range 8 {
		held.Give(host(2, 0, 0), 1)
	}
	if held.Held() != 32 || len(held.held) == 0 || held.held[host(2, 0, 0)] != 0 {
		t.Errorf("%d bytes are held, %v", held.Held(), held.held)
	}
}

// TestNetworkIsCountedOverAllProcesses: what is stored for addresses is counted for their networks, and tells none.
func TestNetworkIsCountedOverAllProcesses(t *testing.T) {
	l := New(Rates{Challenge: {10, time.Minute}}, time.Now)
	counts := func(address string) (all map[string]int) {
		all = map[string]int{}
		for _, turn := range l.AddressHits(Challenge, address) {
			all[turn.Name] = turn.Rate.Count
		}
		return all
	}
	shared := func(a, b map[string]int) (n int) {
		for name, count := range a {
			if b[name] == count {
				n = max(n, count)
			}
		}
		return n
	}
	one := counts(host(1, 2, 3))
	for name, other := range map[string]struct {
		address string
		want    int
	}{
		"itself": {host(1, 2, 3), 160}, "a neighbour": {host(1, 2, 4), 160}, "of its /48": {host(1, 3, 3), 160},
		"another's": {host(2, 2, 3), 0}, "of IPv4": {"192.0.2.1", 0},
	} {
		if n := shared(one, counts(other.address)); n != other.want {
			t.Errorf("%s: %d are counted together, want %d", name, n, other.want)
		}
	}
	if len(one) != 3 || len(counts("192.0.2.1")) != 1 {
		t.Errorf("%v", one)
	}
	for name := range one {
		if strings.Contains(name, ":") {
			t.Errorf("%s is stored", name)
		}
	}
}
