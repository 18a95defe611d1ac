package esim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// TopupKind names orders for more data on an eSIM.
const TopupKind order.Kind = "esim_topup"

// TopupPath is the documented path of their purchase.
const TopupPath = "/api/esim/orders/{orderId}/topup"

// TopupPurchase asks for more data on the eSIM of an order; without a plan, for the cheapest that the eSIM takes. Its
// JSON is part of the order's fingerprint.
type TopupPurchase struct {
	Esim order.ID `json:"esim"`
	Plan PlanID   `json:"planId,omitempty"`
}

// TopupItem is the item of an order for more data: the plan as it was offered, and the order of the eSIM that it is
// added to. As Item, it is part of signed quotes.
type TopupItem struct {
	Item
	Esim order.ID `json:"esim"`
}

// TopupItemOf decodes the item of an order for more data.
func TopupItemOf(o order.Order) (TopupItem, error) { return readTopup(o.Item) }

func readTopup(raw json.RawMessage) (TopupItem, error) {
	var i TopupItem
	if err := json.Unmarshal(raw, &i); err != nil {
		return TopupItem{}, fmt.Errorf("read the top-up's item: %w", err)
	}
	return i, nil
}

// Topup is the data that one order adds to a profile, in one attempt at its delivery.
type Topup struct {
	ID      uuid.UUID
	Order   order.ID
	Profile uuid.UUID
	Plan    PlanID
	// Provider is the name of the profile's supplier.
	Provider string
	// Status is Ordered, Ready or Failed.
	Status Status
	// Ref is our reference for the supplier's order, stored before the supplier is first called.
	Ref fulfilment.Ref
	// Account is the supplier's ID of the top-up; empty until it is known.
	Account string
	// Cost is what the supplier charged; zero until it is known.
	Cost      money.USDC
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Postings are the ledger postings of data that was added: its cost, if known.
func (t Topup) Postings() []ledger.Posting {
	if t.Cost <= 0 {
		return nil
	}
	return []ledger.Posting{ledger.Supplied(string(t.Order), t.Cost)}
}

// ErrCancelling says that a profile is being given back, or was.
var ErrCancelling = errors.New("the eSIM is being given back")

// ErrToppedUp says that data was, or may have been, added to a profile.
var ErrToppedUp = errors.New("data was added to the eSIM")

// TopupStore keeps what was added to profiles. A write of a job has the job's fence.
type TopupStore interface {
	// TopupOrder finds an order for more data of any owner. ErrNotFound when there is none.
	TopupOrder(ctx context.Context, id order.ID) (order.Order, error)
	// ReserveTopup stores t, unless its order already has a top-up with this reference, and returns the stored one.
	// ErrCancelling when its profile is being given back, or was: a profile is either topped up or given back.
	ReserveTopup(ctx context.Context, f job.Fence, t Topup) (Topup, error)
	// CompleteTopup makes an ordered top-up ready, with its account and cost, and adds the postings. For a top-up that is
	// not ordered it changes and posts nothing.
	CompleteTopup(ctx context.Context, f job.Fence, t Topup, postings []ledger.Posting) error
	// FailTopup makes an ordered top-up failed.
	FailTopup(ctx context.Context, f job.Fence, id uuid.UUID) error
}

// Topups sells more data for eSIMs that were delivered, to their owners. It is the second product over the suppliers:
//
//	the eSIM's supplier says what it takes ─► Offer (price fixed in the quote)
//	                                            │  Reserve: its owner pays; stock and price confirmed with the supplier
//	settled ─► row ORDERED, our reference stored ─► TopUp at the supplier ─► READY
//
// An eSIM is either topped up or given back: what comes second is refused.
type Topups struct {
	Esims   *Esims
	Store   TopupStore
	Cancels CancelStore
}

// topupsTTL is how long the plans that a profile takes are cached; see Condition.
const topupsTTL = ConditionTTL

// Plans lists the plans that the eSIM of an order takes, cheapest first. The caller checks who may see them. However
// often it is called, the supplier is asked at most once in a minute about an order by each process.
func (t *Topups) Plans(ctx context.Context, o order.Order) ([]Plan, error) {
	_, plans, err := t.open(ctx, o)
	return plans, err
}

// target is a profile that takes more data.
type target struct {
	profile Profile
	at      *provider
}

// open finds the profile of an order, if its owner may buy more data for it, and the plans that it takes.
func (t *Topups) open(ctx context.Context, o order.Order) (target, []Plan, error) {
	on, err := t.target(ctx, o)
	if err != nil {
		return target{}, nil, err
	}
	plans, err := t.taken(ctx, o, on)
	if err != nil {
		return target{}, nil, err
	}
	if len(plans) == 0 {
		return target{}, nil, fault.New(fault.EsimFinished,
			"The supplier adds no more data to this eSIM. Buy another eSIM.").About(string(o.ID))
	}
	return on, plans, nil
}

// target finds the profile of an order, if its supplier adds data to profiles, operators have not closed the sale over
// it, and the profile is not being given back.
func (t *Topups) target(ctx context.Context, o order.Order) (target, error) {
	p, err := t.Esims.delivered(ctx, o)
	if err != nil {
		return target{}, err
	}
	at, err := t.Esims.at(p.Provider)
	switch {
	case err != nil:
		return target{}, err
	case at.Retired || at.Topper == nil || !at.Capabilities.Topup:
		return target{}, controlMissing()
	}
	if err := t.Esims.sold(ctx, at); err != nil {
		return target{}, err
	}
	switch c, err := t.Cancels.Cancellation(ctx, o.ID); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return target{}, fmt.Errorf("find the cancellation: %w", err)
	case c.Stage != StageKept:
		return target{}, fault.New(fault.EsimCancelled, "The eSIM is being cancelled.").About(string(o.ID))
	}
	return target{p, at}, nil
}

// taken are the plans that a profile takes, cheapest first, cached.
func (t *Topups) taken(ctx context.Context, o order.Order, on target) ([]Plan, error) {
	e := t.Esims
	plans, err := e.topups.GetOrPut(o.ID, func() *availability.Memo[[]Plan] {
		return availability.NewMemo(availability.MemoConfig[[]Plan]{
			Read: func(ctx context.Context) ([]Plan, error) { return t.readTaken(ctx, on) },
			TTL:  topupsTTL, ErrorTTL: conditionErrorTTL, Timeout: e.timeout(on.at), Now: e.Now,
		})
	}).Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what the profile takes: %w", err)
	}
	return plans, nil
}

func (t *Topups) readTaken(ctx context.Context, on target) ([]Plan, error) {
	e := t.Esims
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return nil, supplierDown()
	}
	held, err := e.held(ctx, on.profile)
	if err != nil {
		return nil, err
	}
	listings, err := on.at.Topper.Topups(ctx, held)
	if err != nil {
		return nil, fmt.Errorf("ask the supplier: %w", errors.Join(err, supplierDown()))
	}
	var plans []Plan
	for _, l := range listings {
		if p, ok := e.plan(l); ok && l.InStock {
			p.Provider, p.Live = on.at.Name, false
			plans = append(plans, p)
		}
	}
	// The plans get their ids: those of the catalogue have them.
	if plans, err = e.Store.Learn(ctx, on.at.Name, plans); err != nil {
		return nil, fmt.Errorf("store what the profile takes: %w", err)
	}
	slices.SortFunc(plans, cheaper)
	return plans, nil
}

// Kind implements checkout.Product.
func (t *Topups) Kind() order.Kind { return TopupKind }

// Path implements checkout.Product.
func (t *Topups) Path() string { return TopupPath }

// PathOf implements checkout.Locator.
func (t *Topups) PathOf(o order.Order) string {
	item, err := TopupItemOf(o)
	if err != nil {
		return TopupPath // it was written by Offer
	}
	return strings.Replace(TopupPath, "{orderId}", string(item.Esim), 1)
}

// Repriced says that prices change between a quote and its purchase.
func (t *Topups) Repriced() bool { return true }

// Jobs are none: the delivery adds the data.
func (t *Topups) Jobs() []job.Work { return nil }

// Availability implements checkout.Product. It does not depend on the catalogue: the supplier is asked about the eSIM.
func (t *Topups) Availability() availability.Product {
	e := t.Esims
	return availability.Product{
		Kind: TopupKind, Title: "Data for eSIMs", Refusal: fault.EsimPaused,
		Detail: "No data for eSIMs is sold at the moment.",
		Closed: e.Paused, Switches: e.Switches, Payments: e.Payments,
		Needs: []availability.Check{e.Workers},
		Shown: []availability.Check{{Name: "supplier", Run: e.answers}, e.Workers},
	}
}

// Offer implements checkout.Product: a plan that the eSIM takes or, for a valid quote, the quoted one as long as its
// price covers the supplier's cost. The payer is not known yet; see Reserve.
func (t *Topups) Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error) {
	wanted, price, err := asked(r)
	if err != nil {
		return order.Offer{}, err
	}
	_, plans, err := t.about(ctx, wanted.Esim)
	if err != nil {
		return order.Offer{}, err
	}
	at := 0 // the cheapest
	if wanted.Plan != "" {
		at = slices.IndexFunc(plans, func(p Plan) bool { return p.ID == wanted.Plan })
	}
	switch {
	case at < 0:
		return order.Offer{}, notTaken()
	case price > 0 && plans[at].Cost > price.USDC():
		return order.Offer{}, termsChanged("The price of the quoted plan has changed.")
	case price == 0:
		price = plans[at].Price
	}
	plan := plans[at]
	made := order.Offer{
		Price: price, Item: marshal(TopupItem{itemOf(plan), wanted.Esim}),
		Description: describeTopup(plan),
	}
	if r.Quoted != nil && string(made.Item) != string(r.Quoted.Item) {
		return order.Offer{}, termsChanged("The quoted plan has changed.")
	}
	return made, t.Esims.afford(ctx, plan)
}

func describeTopup(p Plan) string { return fmt.Sprintf("More data for a travel eSIM: %s", p.Name) }

// Describe implements checkout.Describer.
func (t *Topups) Describe(ctx context.Context, o order.Order) (string, error) {
	item, err := TopupItemOf(o)
	if err != nil {
		return "", err
	}
	return t.Esims.planNamed(ctx, item.Plan, describeTopup, "More data for a travel eSIM")
}

// asked is what is asked for, at the quoted price if there is one.
func asked(r order.OfferRequest) (wanted TopupPurchase, quoted money.Cents, err error) {
	if r.Quoted != nil {
		item, err := readTopup(r.Quoted.Item)
		return TopupPurchase{item.Esim, item.Plan}, r.Quoted.Price, err
	}
	if err := json.Unmarshal(r.Body, &wanted); err != nil {
		return TopupPurchase{}, 0, fmt.Errorf("read the request: %w", err)
	}
	return wanted, 0, nil
}

// about finds the order of an eSIM, and the plans that it takes.
func (t *Topups) about(ctx context.Context, id order.ID) (order.Order, []Plan, error) {
	o, err := t.Esims.Store.Order(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return order.Order{}, nil, noEsim()
	case err != nil:
		return order.Order{}, nil, fmt.Errorf("find the eSIM's order: %w", err)
	}
	_, plans, err := t.open(ctx, o)
	return o, plans, err
}

func noEsim() *fault.Fault {
	return fault.New(fault.OrderNotFound, "The paying wallet has no eSIM order with this id.")
}

func notTaken() error {
	return fault.New(fault.TermsChanged, "The eSIM does not take this plan. Choose another from the eSIM's list.").
		Then(fault.FixRequest)
}

// Reserve implements checkout.Product: the payer owns the eSIM, and its supplier adds the plan to it now, at a cost
// that the price covers. It returns the reservation of the supplier's float.
func (t *Topups) Reserve(ctx context.Context, owner x402.Address, made order.Offer) (order.Claim, error) {
	e := t.Esims
	item, err := readTopup(made.Item)
	if err != nil {
		return order.Claim{}, err
	}
	o, err := e.Store.Order(ctx, item.Esim)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && o.Owner != owner:
		return order.Claim{}, noEsim()
	case err != nil:
		return order.Claim{}, fmt.Errorf("find the eSIM's order: %w", err)
	}
	on, err := t.target(ctx, o)
	if err != nil {
		return order.Claim{}, err
	}
	plan, err := e.Store.Plan(ctx, item.Plan)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && plan.Provider != on.at.Name:
		return order.Claim{}, notTaken()
	case err != nil:
		return order.Claim{}, fmt.Errorf("find the plan: %w", err)
	}
	held, err := e.held(ctx, on.profile)
	if err != nil {
		return order.Claim{}, err
	}
	// As of our clock before the call, less the clock skew, as for an eSIM.
	asOf := e.Now().Add(-clockSkew)
	call, cancel := fault.Within(ctx, e.timeout(on.at))
	defer cancel()
	stock, err := on.at.Topper.CheckTopup(call, held, plan.Code)
	switch {
	case errors.Is(err, ErrNoPlan), err == nil && stock.Units == 0:
		e.topups.Delete(o.ID)
		return order.Claim{}, notTaken()
	case err != nil:
		return order.Claim{}, fmt.Errorf("confirm the plan: %w", errors.Join(err, supplierDown()))
	case stock.Cost > made.Price.USDC():
		e.topups.Delete(o.ID)
		return order.Claim{}, termsChanged("The price of this plan has changed.")
	}
	return order.Claim{
		Item: made.Item, Provider: on.at.Name,
		Reservations: []order.Reservation{e.float(on.at, stock.Float, stock.Cost, asOf)},
	}, nil
}
