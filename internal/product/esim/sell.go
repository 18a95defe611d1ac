package esim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/recent"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what Esims is made of.
type Config struct {
	Store Store
	// Providers are all suppliers of eSIMs that were sold or are to be. Route says which plans of them are sold; nil is
	// all plans of those that are not retired.
	Providers []Provider
	Route     Route
	Keys      Keyring
	// TokenKey derives delivery tokens; every process of a deployment has the same. At least 32 bytes.
	TokenKey []byte
	// FormerTokenKeys open delivery tokens, too, and make none.
	FormerTokenKeys [][]byte
	Log             *slog.Logger
	Now             func() time.Time
	// Paused closes the sale of eSIMs. Switches are the operators', and Payments are what every payment depends on; see
	// availability.Product.
	Paused   bool
	Switches *availability.Switches
	Payments *availability.Payments
	// MarginBPS is what is added to the supplier's cost, in hundredths of a percent.
	MarginBPS int
	// StaleAfter is the age from which the catalogue is not sold from.
	StaleAfter time.Duration
	// Workers checks that a live worker delivers eSIMs.
	Workers availability.Check
	// SyncEvery is how often the catalogue is synchronized with the supplier.
	SyncEvery time.Duration
	// Poll is how often a pending order is read at the supplier.
	Poll time.Duration
	// CallTimeout bounds one call to the supplier.
	CallTimeout time.Duration
	// Deadline is how long the supplier may leave an order pending before an operator looks at it.
	Deadline time.Duration
	// Working is since when the supplier could be asked, see fulfilment.Provider.
	Working func() time.Time
	// UnsettledPercent is the share of the float that an owner's unpaid orders may reserve; zero is unlimited.
	UnsettledPercent int
	// Waiters is how many paid requests may wait for their eSIM at once; others are answered without it.
	Waiters int
	// Limits bounds how many calls wait for one order; nil does not limit.
	Limits *limit.Limiter
	// Metrics count what waiting brought; nil counts nothing.
	Metrics *telemetry.Metrics
}

// Esims sells eSIMs and serves their owners.
type Esims struct {
	Config
	// cached is the cached catalogue.
	cached    *availability.Memo[catalogue]
	providers []*provider
	// conditions are the cached conditions of profiles, and reading the calls that read one.
	conditions recent.Map[order.ID, *availability.Memo[Condition]]
	// named are the orders of profiles whose conditions were read, by the names that events have for them.
	named   recent.Map[string, order.ID]
	waiting chan struct{}
	reading chan struct{}
	// topups are the cached plans that profiles take.
	topups recent.Map[order.ID, *availability.Memo[[]Plan]]
}

// New makes Esims.
func New(c Config) *Esims {
	e := &Esims{Config: c, waiting: make(chan struct{}, c.Waiters), reading: make(chan struct{}, maxReads)}
	e.conditions.Most, e.named.Most, e.topups.Most = maxConditions, maxConditions, maxConditions
	e.cached = availability.NewMemo(availability.MemoConfig[catalogue]{Read: e.readCatalogue, TTL: cacheTTL, Now: c.Now})
	for i := range c.Providers {
		p := &provider{Provider: &c.Providers[i]}
		p.funds = availability.NewMemo(availability.MemoConfig[funds]{
			Read: func(ctx context.Context) (funds, error) { return e.ask(ctx, p) },
			TTL:  probeTTL, ErrorTTL: probeTTL, Timeout: e.timeout(p), Now: c.Now,
		})
		e.providers = append(e.providers, p)
	}
	return e
}

// Kind names orders for eSIMs.
const Kind order.Kind = "esim"

// provider is a supplier as a fulfilment provider.
func (e *Esims) provider(of *provider) fulfilment.Provider {
	p := e.anyProvider()
	p.Traits, p.CallTimeout = of.Traits, e.timeout(of)
	return p
}

// anyProvider is how long each supplier is waited for.
func (e *Esims) anyProvider() fulfilment.Provider {
	return fulfilment.Provider{
		Name: "supplier", Poll: e.Poll, Deadline: e.Deadline, Working: e.Working, Now: e.Now,
	}
}

// Kind implements checkout.Product.
func (e *Esims) Kind() order.Kind { return Kind }

// Path implements checkout.Product.
func (e *Esims) Path() string { return "/api/esim/purchase" }

// Repriced says that prices change between a quote and its purchase.
func (e *Esims) Repriced() bool { return true }

// resealEvery is the period of the reseal job.
const resealEvery = 10 * time.Minute

// Jobs are those of the catalogue and of the keys. They also run at the first start with other suppliers, and with a
// new first key.
func (e *Esims) Jobs() []job.Work {
	sellers := e.sellers()
	return []job.Work{
		{
			Kind: Syncing, Handler: e.Sync, Every: e.SyncEvery, Args: SyncArgs{},
			Start: &job.New{Args: SyncArgs{sellers}, UniqueKey: "suppliers|" + strings.Join(sellers, ",")},
		},
		{
			Kind: Resealing, Handler: e.Reseal, Every: resealEvery, Args: ResealArgs{},
			Start: &job.New{Args: ResealArgs{Key: e.Keys.Current()}, UniqueKey: "key|" + e.Keys.Current()},
		},
	}
}

// PurchaseRequest asks for an eSIM; without a plan, for the cheapest available. Its JSON is part of the order's
// fingerprint.
type PurchaseRequest struct {
	Plan PlanID `json:"planId,omitempty"`
}

// Availability implements checkout.Product. It does not depend on cards or the treasury.
func (e *Esims) Availability() availability.Product {
	catalogue := availability.Check{Name: "catalogue", Run: e.fresh}
	p := availability.Product{
		Kind: Kind, Title: "Travel eSIMs", Refusal: fault.EsimPaused, Detail: "No eSIMs are sold at the moment.",
		Closed: e.Paused, Switches: e.Switches, Payments: e.Payments, Providers: e.sellers(),
		Needs: []availability.Check{e.Workers, catalogue},
		Shown: []availability.Check{catalogue, {Name: "supplier", Run: e.answers}, e.Workers},
	}
	p.Operated = []availability.Check{{Name: "sale", Run: p.OnSale}, {Name: "float", Run: e.affordsAny}}
	return p
}

// Offer implements checkout.Product: the plan at the catalogue's price or, for a valid quote, at the quoted price as
// long as it covers the supplier's cost.
func (e *Esims) Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error) {
	on, err := e.catalogue(ctx)
	if err != nil {
		return order.Offer{}, err
	}
	plan, made, err := e.offered(ctx, on, r.Body, r.Quoted)
	if err != nil {
		return order.Offer{}, err
	}
	// A client that gets the terms signs a payment, so they are not sent for what cannot be ordered now.
	if err := e.afford(ctx, plan); err != nil {
		return order.Offer{}, err
	}
	return made, nil
}

// offered is the requested or quoted plan, and its offer.
func (e *Esims) offered(
	ctx context.Context, on catalogue, request json.RawMessage, quoted *order.Offer,
) (Plan, order.Offer, error) {
	if quoted != nil {
		return honour(on, *quoted)
	}
	var err error
	if on.plans, err = e.forSale(ctx, on); err != nil {
		return Plan{}, order.Offer{}, err
	}
	var r PurchaseRequest
	if len(request) > 0 {
		if err := json.Unmarshal(request, &r); err != nil {
			return Plan{}, order.Offer{}, fmt.Errorf("read the request: %w", err)
		}
	}
	plan, err := e.choose(ctx, on, r.Plan)
	return plan, offer(plan, plan.Price), err
}

func offer(p Plan, price money.Cents) order.Offer {
	return order.Offer{
		Price: price, Item: marshal(itemOf(p)),
		Description: describe(p),
	}
}

func describe(p Plan) string { return fmt.Sprintf("Travel eSIM: %s", p.Name) }

// Describe implements checkout.Describer.
func (e *Esims) Describe(ctx context.Context, o order.Order) (string, error) {
	item, err := ItemOf(o)
	if err != nil {
		return "", err
	}
	return e.planNamed(ctx, item.Plan, describe, "Travel eSIM")
}

// planNamed describes a plan, or says otherwise when the catalogue never had it.
func (e *Esims) planNamed(ctx context.Context, id PlanID, describe func(Plan) string,
	otherwise string) (string, error) {
	plan, err := e.Store.Plan(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return otherwise, nil
	}
	if err != nil {
		return "", fmt.Errorf("find the plan: %w", err)
	}
	return describe(plan), nil
}

// choose finds an available plan: the named one, or the cheapest that its supplier can sell now. While none of them
// can, it is the cheapest, whose supplier's reason is told.
func (e *Esims) choose(ctx context.Context, on catalogue, id PlanID) (Plan, error) {
	if id == "" {
		if len(on.plans) == 0 {
			return Plan{}, fault.New(fault.EsimPaused, "No eSIM plan is available at the moment.")
		}
		for _, p := range on.plans {
			if e.afford(ctx, p) == nil {
				return p, nil
			}
		}
		return on.plans[0], nil
	}
	if p, ok := on.find(id); ok {
		return p, nil
	}
	switch _, err := e.Store.Plan(ctx, id); {
	case errors.Is(err, ErrNotFound):
		field := fault.Field{Path: "planId", Rule: "catalogue", Message: "names no plan"}
		return Plan{}, fault.New(fault.SchemaInvalid, "planId names no plan of the catalogue.").With(field)
	case err != nil:
		return Plan{}, fmt.Errorf("find the plan: %w", err)
	}
	return Plan{}, planGone()
}

// honour is the offer of a quote: the same goods at the quoted price, if that is still possible.
func honour(on catalogue, quoted order.Offer) (Plan, order.Offer, error) {
	item, err := readItem(quoted.Item)
	if err != nil {
		return Plan{}, order.Offer{}, err
	}
	p, ok := on.find(item.Plan)
	switch {
	case !ok:
		return Plan{}, order.Offer{}, termsChanged("The quoted plan is not available any more.")
	case itemOf(p) != item:
		return Plan{}, order.Offer{}, termsChanged("The quoted plan has changed.")
	case p.Cost > quoted.Price.USDC():
		return Plan{}, order.Offer{}, termsChanged("The price of the quoted plan has changed.")
	}
	return p, offer(p, quoted.Price), nil
}

func termsChanged(detail string) error { return fault.New(fault.TermsChanged, detail) }

// planGone refuses a plan that the catalogue no longer has, which no signature changes.
func planGone() error {
	return fault.New(fault.TermsChanged, "This plan is not available any more. Choose another from the catalogue.").
		Then(fault.FixRequest)
}

const (
	floatResource = "float/esim"
	noFloat       = "The supplier's float does not cover that."
	// clockSkew is the largest difference between the clocks of two processes.
	clockSkew = 5 * time.Second
)

// Reserve implements checkout.Product: it checks that the supplier sells the plan now, at a cost that the price covers,
// and returns the reservations of the float and, if they are counted, of the units.
func (e *Esims) Reserve(ctx context.Context, _ x402.Address, o order.Offer) (order.Claim, error) {
	item, err := readItem(o.Item)
	if err != nil {
		return order.Claim{}, err
	}
	plan, err := e.Store.Plan(ctx, item.Plan)
	if errors.Is(err, ErrNotFound) {
		e.cached.Reset() // it was there: the database that had it is lost
		return order.Claim{}, planGone()
	}
	if err != nil {
		return order.Claim{}, fmt.Errorf("find the plan: %w", err)
	}
	at, err := e.at(plan.Provider)
	if err != nil {
		return order.Claim{}, err
	}
	if err := e.sold(ctx, at); err != nil {
		return order.Claim{}, err
	}
	// As of our clock before the call, less the clock skew: the stock may not show later releases yet.
	asOf := e.Now().Add(-clockSkew)
	call, cancel := fault.Within(ctx, e.timeout(at))
	defer cancel()
	stock, err := at.Supplier.Check(call, plan.Code)
	switch {
	case errors.Is(err, ErrNoPlan):
		return order.Claim{}, e.withdraw(ctx, plan, "The supplier does not sell this plan any more.")
	case err != nil:
		return order.Claim{}, fmt.Errorf("confirm the plan: %w", errors.Join(err, supplierDown()))
	case stock.Units == 0:
		return order.Claim{}, e.withdraw(ctx, plan, outOfStock)
	case stock.Cost > o.Price.USDC():
		return order.Claim{}, e.withdraw(ctx, plan, "The price of this plan has changed.")
	}
	reserved := []order.Reservation{e.float(at, stock.Float, stock.Cost, asOf)}
	if stock.Units != Plenty {
		reserved = append(reserved, order.Reservation{
			Resource: "esim/" + string(plan.ID), Units: 1, Limit: stock.Units, AsOf: asOf,
			Refusal: fault.TermsChanged, Detail: outOfStock,
		})
	}
	return order.Claim{Item: o.Item, Reservations: reserved, Provider: at.Name}, nil
}

// float is the reservation of a cost of a supplier's float.
func (e *Esims) float(at *provider, float, cost money.USDC, asOf time.Time) order.Reservation {
	return order.Reservation{
		Resource: at.resource(), Units: int64(cost), Limit: int64(float), AsOf: asOf,
		Unsettled: order.UnsettledLimit(int64(float), int64(cost), e.UnsettledPercent),
		Refusal:   fault.FloatUnavailable, Detail: noFloat,
	}
}

// FloatOf is the reservation of so many units of a resource; ok is false when that is no supplier's float.
func (e *Esims) FloatOf(ctx context.Context, resource string, units int64) (r order.Reservation, ok bool, err error) {
	for _, p := range e.providers {
		if p.resource() == resource {
			has, err := p.funds.Get(ctx)
			return e.float(p, has.all, money.USDC(units), has.asOf), true, err
		}
	}
	return order.Reservation{}, false, nil
}

const outOfStock = "This plan is out of stock. Choose another from the catalogue."

// withdraw removes a plan from the live catalogue until the next sync, so that it is not offered again, and returns the
// reason as a fault.
func (e *Esims) withdraw(ctx context.Context, p Plan, why string) error {
	if err := e.Store.Withdraw(ctx, p.ID); err != nil {
		return fmt.Errorf("withdraw the plan: %w", err)
	}
	e.cached.Reset()
	return termsChanged(why)
}

func supplierDown() error {
	return fault.New(fault.DependencyDown, "The eSIM supplier does not answer.")
}
