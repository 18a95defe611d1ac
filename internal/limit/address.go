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

// Network is what a caller is counted in.
type Network struct {
	Name string
	// Rate is how many times a caller's rate all in it have together, and AtOnce how many times what one may have at once.
	Rate, AtOnce int
}

// wider are the networks of IPv6 in which a /64 is counted, too: who has a /56 has 256 of them, and who has a /48,
// which costs nothing, 65,536. Providers of mobile networks give each of their many customers a /64.
var wider = []struct{ bits, rate, atOnce int }{{56, 4, 2}, {48, 16, 4}}

// Networks are what a caller is counted in, the narrowest first: the name itself and, where Name has made it of an IPv6
// address, the networks that it lies in.
func Networks(name string) []Network {
	all := []Network{{name, 1, 1}}
	if !strings.HasSuffix(name, "/64") {
		return all
	}
	own, err := netip.ParsePrefix(name)
	if err != nil {
		return all
	}
	for _, w := range wider {
		if network, err := own.Addr().Prefix(w.bits); err == nil {
			all = append(all, Network{network.String(), w.rate, w.atOnce})
		}
	}
	return all
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
