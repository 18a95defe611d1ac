// Package esimaccess buys eSIMs from eSIM Access: an esim.Supplier over the vendor's HTTP API.
//
//	Listings ──▶ package/list                     plans with a total of data, the rest is left out
//	Check ─────▶ package/list, balance/query      the price now, the float
//	Order ─────▶ package/list, esim/order         at the price that was read, or not at all
//	Ordered ───▶ esim/query by order number       of an order that this process made
//	             esim/query by time               of any other: those with our reference
//	Cancel ────▶ esim/query, esim/cancel          only what was never installed
//
// An order is sent once. It is named by our reference and its price, so that both can be read back.
package esimaccess

import (
	"cmp"
	"context"
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
	"github.com/roamcard/roamcard/internal/recent"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// DefaultURL is where the vendor's API is.
const DefaultURL = "https://api.esimaccess.com"

const (
	// defaultVisibilityDelay is ten times what the vendor says that an allocation takes: until it is done, the order may
	// be missing from what esim/query lists.
	defaultVisibilityDelay = 5 * time.Minute
	defaultLookback        = 24 * time.Hour
	// defaultPerSecond is the vendor's limit for one account.
	defaultPerSecond = 8
)

// Config is how the vendor is reached. Zero values mean what the comments say.
type Config struct {
	// URL is the origin of the vendor's API; DefaultURL if empty. It is https, unless its host is loopback.
	URL string
	// AccessCode names the account, and Secret signs the requests.
	AccessCode, Secret secret.Text
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one call; 10 s if zero.
	Timeout time.Duration
	// VisibilityDelay is how long after a send its order may still appear; 5 min if zero.
	VisibilityDelay time.Duration
	// Lookback is how old an order may be to be found by its reference alone; 24 h if zero.
	Lookback time.Duration
	// PerSecond is how many requests this process may send in a second; 8 if zero.
	PerSecond int
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Supplier is eSIM Access as the eSIM domain sees it. It is safe for concurrent use.
type Supplier struct {
	wire                      *wire.Client
	visibilityDelay, lookback time.Duration
	placed                    recent.Map[fulfilment.Ref, placement]
}

var (
	_ esim.Supplier = (*Supplier)(nil)
	_ esim.Book     = (*Supplier)(nil)
)

// Dial makes a Supplier. It sends nothing yet.
func Dial(cfg Config) (*Supplier, error) {
	w, err := dial(cfg)
	if err != nil {
		return nil, fmt.Errorf("dial eSIM Access: %w", err)
	}
	return &Supplier{
		wire: w, visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay),
		lookback: cmp.Or(cfg.Lookback, defaultLookback), placed: recent.Map[fulfilment.Ref, placement]{Most: maxPlacements},
	}, nil
}

func dial(cfg Config) (*wire.Client, error) {
	base, err := outward.Rule{}.Origin(cmp.Or(cfg.URL, DefaultURL))
	switch {
	case err != nil:
		return nil, err
	case cfg.AccessCode.IsZero():
		return nil, errors.New("there is no access code")
	case cfg.Secret.IsZero():
		return nil, errors.New("there is no secret to sign with")
	case cfg.PerSecond < 0:
		return nil, errors.New("the rate is negative")
	}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	return wire.New(wire.Config{
		Provider: Name, Role: "supplier", Base: base.JoinPath("api", "v1", "open"), HTTP: cfg.HTTP,
		Timeout: cfg.Timeout, Now: now, Tracer: cfg.Tracer, Metrics: cfg.Metrics,
		// One at a time: a burst that the network compresses would be above the limit.
		Quota:     limit.NewQuota(cmp.Or(cfg.PerSecond, defaultPerSecond)),
		Authorize: signed(cfg.AccessCode, cfg.Secret, now),
	}), nil
}

// Traits says what may be done after an unknown outcome: wait until the order cannot appear any more, and then leave it
// to a person. The vendor takes a repeated transactionId for the same request, but does not say whether it checks
// price, stock and balance first: the refusal of a repetition would not say that the first one had no effect.
func (s *Supplier) Traits() fulfilment.Traits {
	return fulfilment.Traits{VisibilityDelay: s.visibilityDelay}
}

// Probe makes every call that costs nothing, and says in a few words what it saw.
func (s *Supplier) Probe(ctx context.Context) (string, error) {
	plans, err := s.Listings(ctx)
	if err != nil {
		return "", err
	}
	if len(plans) == 0 {
		return "", errors.New("eSIM Access lists no plan that can be sold")
	}
	stock, err := s.Check(ctx, plans[0].Code)
	if errors.Is(err, esim.ErrNoPlan) {
		return "", errors.New("eSIM Access does not find a package that it lists")
	}
	if err != nil {
		return "", err
	}
	if _, err := s.Ordered(ctx, fulfilment.Ref{}); err != nil && !errors.Is(err, fulfilment.ErrNoRef) {
		return "", err
	}
	return fmt.Sprintf("%d plans, a balance of %s USD", len(plans), stock.Float.Dollars()), nil
}
