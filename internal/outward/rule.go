package outward

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Rule says which hosts may be asked without TLS. This machine always may; the zero Rule allows no other.
type Rule struct {
	// Plaintext are hosts, by name or address and without a port, to which whoever runs the service trusts the way.
	Plaintext []string
	// Anywhere allows every host, as outside of production.
	Anywhere bool
}

// AllowsPlaintext reports whether a host may be asked without TLS.
func (r Rule) AllowsPlaintext(host string) bool {
	return r.Anywhere || IsLoopback(host) ||
		slices.ContainsFunc(r.Plaintext, func(named string) bool { return strings.EqualFold(named, host) })
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// Check refuses an address that is not https, unless its host may be asked without TLS.
func (r Rule) Check(address *url.URL) error {
	switch {
	case address.Hostname() == "":
		return errors.New("the URL has no host")
	case address.Scheme == "https", address.Scheme == "http" && r.AllowsPlaintext(address.Hostname()):
		return nil
	case address.Scheme == "http":
		return fmt.Errorf("the URL is not https, and %s is not this machine", address.Hostname())
	}
	return errors.New("the URL is not https")
}

// Origin reads where an API is, and checks it: it has nothing behind its path, and no user before its host.
func (r Rule) Origin(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("the URL is not an origin")
	}
	if err := r.Check(base); err != nil {
		return nil, err
	}
	return base, nil
}
