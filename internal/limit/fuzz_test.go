package limit

import (
	"net/http"
	"net/netip"
	"testing"
)

// FuzzAddressOf looks for a header by which a client that no proxy speaks for chooses what it counts as,
// and for one that breaks the reading.
func FuzzAddressOf(f *testing.F) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Add("203.0.113.9:1", "1.1.1.1, 10.0.0.1")
	f.Add("10.0.0.1:1", "1.1.1.1, 2.2.2.2, 10.2.3.4")
	f.Add("[2001:db8::1%eth0]:1", ",,,")
	f.Add("[::ffff:10.0.0.1]:1", "::ffff:1.2.3.4")
	f.Add("pipe", "1.1.1.1")
	f.Fuzz(func(t *testing.T, peer, forwarded string) {
		got := AddressOf(&http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {forwarded}}}, trusted)
		alone := AddressOf(&http.Request{RemoteAddr: peer}, trusted)
		p, err := netip.ParseAddrPort(peer)
		if (err != nil || !Trusted(trusted, p.Addr().Unmap())) && got != alone {
			t.Fatalf("%q behind no proxy counts as %q, not %q", peer, got, alone)
		}
		if err != nil {
			return
		}
		if _, err := netip.ParseAddr(got); err == nil {
			return
		}
		if prefix, err := netip.ParsePrefix(got); err != nil || prefix.Bits() != 64 {
			t.Fatalf("%q with %q counts as %q", peer, forwarded, got)
		}
	})
}
