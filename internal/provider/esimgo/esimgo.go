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
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
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
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one exchange; 10 s if zero.
	Timeout time.Duration
	// VisibilityDelay is how long after a send its order may still appear; 10 min if zero.
	VisibilityDelay time.Duration
	// PerSecond is how many calls this process may make in any second; zero is no bound.
	PerSecond int
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
	wire                     *wire.Client
	key                      secret.Text
	journal                  esim.Journal
	timeout, visibilityDelay time.Duration
	pace                     *pace
}

var _ esim.Supplier = (*Supplier)(nil)

const (
	defaultTimeout         = 10 * time.Second
	defaultVisibilityDelay = 10 * time.Minute
	defaultOrderGap        = 3 * time.Second
)

// Dial makes a Supplier. It sends nothing yet.
func Dial(cfg Config) (*Supplier, error) {
	base, err := outward.Rule{}.Origin(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("dial eSIM Go: %w", err)
	case cfg.APIKey.IsZero():
		return nil, errors.New("dial eSIM Go: there is no API key")
	case cfg.Journal == nil:
		return nil, errors.New("dial eSIM Go: there is no journal")
	}
	s := &Supplier{
		key: cfg.APIKey, journal: cfg.Journal, timeout: cmp.Or(cfg.Timeout, defaultTimeout),
		visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay),
	}
	s.wire = wire.New(wire.Config{
		Provider: Name, Role: "supplier", Base: base, HTTP: cfg.HTTP, Timeout: s.timeout, Now: cfg.Now,
		Tracer: cfg.Tracer, Metrics: cfg.Metrics, Quota: limit.NewQuota(cfg.PerSecond),
		Authorize: func(h http.Header, _ []byte) { h.Set("X-API-Key", cfg.APIKey.Reveal()) },
	})
	s.pace = &pace{gap: cmp.Or(cfg.OrderGap, defaultOrderGap), now: s.wire.Now}
	return s, nil
}

// Traits says what may be done after an unknown outcome: nothing is ever sent twice.
func (s *Supplier) Traits() fulfilment.Traits {
	return fulfilment.Traits{VisibilityDelay: s.visibilityDelay}
}
