package limit

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

type addressKey struct{}

// WithAddress remembers where a request comes from.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// Address is where the request of ctx comes from, or empty. It is for counting, and is never written down.
func Address(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

// AddressOf is the client of a request. What a header says of it is believed only as far as the proxies
// go that are trusted: from the right, the first address that is not one of theirs. Of an IPv6 address
// only the network counts, because a client has all of its /64.
func AddressOf(r *http.Request, trusted []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	client := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !within(trusted, client) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		client = next.Unmap().WithZone("")
	}
	if client.Is6() {
		network, _ := client.Prefix(64) // never fails for an IPv6 address
		return network.String()
	}
	return client.String()
}

func within(trusted []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}
