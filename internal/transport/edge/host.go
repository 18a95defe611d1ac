package edge

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
)

// host refuses requests for another host, where the configuration names ours. Another name that leads here is DNS
// rebinding: a stranger's page in a browser that resolves its own name to this address, so that what is served here is
// of the page's origin.
func (s *Server) host(next http.Handler) http.Handler {
	if len(s.cfg.Hosts) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.ownHost(r) {
			s.refuse(w, r, fault.New(fault.RouteNotFound, "This host is not served here."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost reports whether a request names one of our hosts, the loopback, or the address that its connection came to.
func (s *Server) ownHost(r *http.Request) bool {
	name := hostname(r.Host)
	ip, err := netip.ParseAddr(name)
	if name == "" || err == nil && ip.IsUnspecified() {
		return false // what a listener of every address is configured with
	}
	if name == "localhost" || slices.ContainsFunc(s.cfg.Hosts, func(own string) bool { return hostname(own) == name }) {
		return true
	}
	if err != nil || ip.Unmap().IsLoopback() {
		return err == nil
	}
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	local, err := netip.ParseAddrPort(at.String())
	return err == nil && local.Addr().Unmap() == ip.Unmap()
}

// hostname is a host without its port, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}
