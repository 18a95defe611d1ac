package limit

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

type addressKey struct{}

// WithAddress adds a request's client address to the context.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// Address is the client address of ctx's request, or empty. It is for counting, and is never stored.
func Address(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

// AddressOf is the client of a request: in the forwarding header, from the right, the first address that is not a
// trusted proxy's. Of an IPv6 address only the /64 network counts, because a client has all of it.
func AddressOf(r *http.Request, trusted []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	client := peer.Addr().Unmap()
	if Trusted(trusted, client) {
		client = forwarded(r.Header.Values("X-Forwarded-For"), trusted, client)
	}
	return Name(client)
}

// Name is what a client's address is counted under.
func Name(client netip.Addr) string {
	client = client.Unmap()
	if client.Is6() {
		network, _ := client.Prefix(64) // never fails for an IPv6 address
		return network.String()
	}
	return client.String()
}

// forwarded follows the hops from the right while a trusted proxy reported them.
func forwarded(headers []string, trusted []netip.Prefix, client netip.Addr) netip.Addr {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !Trusted(trusted, client) {
			break
		}
		next, ok := readHop(strings.TrimSpace(hop))
		if !ok {
			break
		}
		client = next.Unmap().WithZone("")
	}
	return client
}

// readHop reads an address, with or without the port that some proxies add.
func readHop(hop string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(hop); err == nil {
		return a, true
	}
	if a, err := netip.ParseAddrPort(hop); err == nil {
		return a.Addr(), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return a, err == nil
}

// Trusted reports whether an address is one of the proxies.
func Trusted(trusted []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}
