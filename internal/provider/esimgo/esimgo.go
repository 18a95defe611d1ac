// Package esimgo buys eSIMs from eSIM Go, which takes no reference of ours.
//
//	Order ─► validate, nothing is charged ─┬─ no ──────────────────────────────────► refused
//	                                       ▼
//	              journal: reference, bundle, total, time ─► transaction ─┬─ order ─► journal: its name
//	                                                                      └─ no answer
//	Ordered ─► journal ─┬─ never sent ────► no such reference                  │
//	                    ├─ order's name ──► read the order                     ▼
//	                    └─ no name ───────► search the orders of that time: none ─► no such reference
//	                                        one that only this reference can have made ─► the order
//	                                        anything else ─► unknown, and in the end an operator's to decide
package esimgo

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Name is the provider's in metrics, and in the journal.
const Name = "esim-go"

// Config is how the vendor is reached. Zero values mean what the comments say.
type Config struct {
	// URL is where the API is, with its version: https://api.esim-go.com/v2.4. Only a loopback host may be http.
	URL string
	// APIKey also signs callbacks.
	APIKey secret.Text
	// Journal keeps what was sent. Every process that uses the organisation of the key shares it.
	Journal esim.Journal
	// HTTP may be nil. Only its transport is used: redirects, cookies and deadlines are ours.
	HTTP *http.Client
	// Timeout bounds one exchange; 10 s if zero.
	Timeout time.Duration
	// VisibilityDelay is how long after a send its order may still appear; 10 min if zero.
	VisibilityDelay time.Duration
	// OrderGap is the time between two orders of this process; 3 s if zero, as the vendor asks for.
	OrderGap time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Supplier is eSIM Go as the eSIM domain sees it. It is safe for concurrent use.
type Supplier struct {
	wire
	journal         esim.Journal
	visibilityDelay time.Duration
	pace            *pace
}

var _ esim.Supplier = (*Supplier)(nil)

const (
	defaultTimeout         = 10 * time.Second
	defaultVisibilityDelay = 10 * time.Minute
	defaultOrderGap        = 3 * time.Second
)

// Dial makes a Supplier. It sends nothing yet.
func Dial(cfg Config) (*Supplier, error) {
	base, err := parseBase(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("dial eSIM Go: %w", err)
	case cfg.APIKey.IsZero():
		return nil, errors.New("dial eSIM Go: there is no API key")
	case cfg.Journal == nil:
		return nil, errors.New("dial eSIM Go: there is no journal")
	}
	s := &Supplier{
		wire: wire{
			base: base, apiKey: cfg.APIKey, timeout: cmp.Or(cfg.Timeout, defaultTimeout), now: cfg.Now,
			tracer: cfg.Tracer, metrics: cfg.Metrics,
			http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		},
		journal: cfg.Journal, visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay),
	}
	if cfg.HTTP != nil {
		s.http.Transport = cfg.HTTP.Transport
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.tracer == nil {
		s.tracer = otel.Tracer("roamcard/provider/esimgo")
	}
	s.pace = &pace{gap: cmp.Or(cfg.OrderGap, defaultOrderGap), now: s.now}
	return s, nil
}

// parseBase takes the address of an API: whoever reads on the way would have the key and every eSIM.
func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil, base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		return nil, errors.New("the URL is not one of an API")
	case base.Scheme == "https", base.Scheme == "http" && isLoopback(base.Hostname()):
		return base, nil
	}
	return nil, fmt.Errorf("the URL is not https, and %s is not this machine", base.Hostname())
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Traits says what may be done after an unknown outcome: nothing is ever sent twice.
func (s *Supplier) Traits() fulfilment.Traits {
	return fulfilment.Traits{VisibilityDelay: s.visibilityDelay}
}
