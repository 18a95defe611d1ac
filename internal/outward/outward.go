// Package outward makes the clients by which the service asks others over HTTP. No other package makes one, so that
// what holds here holds for every request that leaves the house.
//
//	request ─► Rule: https, or a host that may be asked without TLS
//	             └─► network: no address of the link ─► answer: no redirect followed, so many bytes, so long
//
// A redirect would take a credential, a payment or an operator's token to an address that nobody chose; it is an answer
// like any other. An answer is bounded after it was unpacked: a few bytes on the way may be gigabytes here.
package outward

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	defaultTimeout = 10 * time.Second
	// defaultMost is larger than any answer that is documented.
	defaultMost = 32 << 20
	// maxHeader is larger than any answer's header.
	maxHeader = 64 << 10
	// idle is how many connections to one host wait for their next request.
	idle = 64
)

// Config is what a client needs. Zero values mean what the comments say.
type Config struct {
	// Rule says which hosts may be asked without TLS.
	Rule Rule
	// Timeout bounds one request and the reading of its answer; 10 s if zero.
	Timeout time.Duration
	// Most is the longest answer in bytes, after it was unpacked; 32 MiB if zero.
	Most int64
	// TLS may be nil.
	TLS *tls.Config
	// Through is another way than the network; nil is the network. Only its transport is used.
	Through *http.Client
}

// New makes a client that follows no redirect.
func New(c Config) *http.Client {
	through := http.RoundTripper(nil)
	if c.Through != nil {
		through = c.Through.Transport
	}
	if through == nil {
		through = network(c.TLS)
	}
	return &http.Client{
		Timeout:       cmp.Or(c.Timeout, defaultTimeout),
		Transport:     way{through, c.Rule, cmp.Or(c.Most, defaultMost)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// network reaches other machines, through the proxy that HTTPS_PROXY and its like name.
func network(certificates *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: defaultTimeout, ControlContext: refuseLink}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: certificates,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: idle, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: defaultTimeout, ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: maxHeader,
	}
}

// ErrLink says that an address is on the link alone. Clouds tell their secrets there, and no service of others is.
var ErrLink = errors.New("the address is link-local or a cloud's own")

// metadata are addresses of clouds that lie outside of the link's.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200"),
}

// refuseLink is asked for each address that a name has, after it was looked up.
func refuseLink(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address cannot be read: %w", err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() {
		return ErrLink
	}
	for _, own := range metadata {
		if ip == own {
			return ErrLink
		}
	}
	return nil
}

// way is how each request goes.
type way struct {
	next http.RoundTripper
	rule Rule
	most int64
}

// RoundTrip implements http.RoundTripper. It sends nothing for a caller who has gone, whatever is next.
func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	err := r.Context().Err()
	if err == nil {
		err = w.rule.Check(r.URL)
	}
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	response, err := w.next.RoundTrip(r)
	if err == nil {
		response.Body = &body{response.Body, w.most}
	}
	return response, err
}

// ErrTooLong says that an answer has more bytes than it may have.
var ErrTooLong = errors.New("the answer is too long")

// body fails after so many bytes.
type body struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLong
	}
	// One byte more than there may be says that there is more.
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n - 1, ErrTooLong
	}
	return n, err
}

// Read reads an answer of at most so many bytes; a longer one is ErrTooLong.
func Read(from io.Reader, most int64) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(all)) > most {
		return nil, ErrTooLong
	}
	return all, err
}

// Cause is the error of a request without its address, which may hold a secret, or name what it is about.
func Cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
