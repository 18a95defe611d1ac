package card

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/recent"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what Cards is made of.
type Config struct {
	Store Store
	// Links are needed where the capabilities of an issuer say RevealEmbed, and Origin, which is that of our pages.
	Links  Links
	Origin string
	// Providers are all issuers of cards that were sold or are to be. Route says which of them sell; nil is all of them,
	// the first one preferred.
	Providers []Provider
	Route     Route
	// Log may be nil.
	Log *slog.Logger
	Now func() time.Time
	// Paused closes the sale of cards. Switches are the operators', and Payments are what every payment depends on; see
	// availability.Product.
	Paused   bool
	Switches *availability.Switches
	Payments *availability.Payments
	// Workers checks that a live worker delivers cards.
	Workers availability.Check
	// Poll is how often a pending card or movement is read at the issuer.
	Poll time.Duration
	// StatesEvery is how often the issuer's list of cards is read; zero is never.
	StatesEvery time.Duration
	// CallTimeout bounds one call to the issuer.
	CallTimeout time.Duration
	// Deadline is how long the issuer may leave a card pending before an operator looks at it.
	Deadline time.Duration
	// Working is since when the issuer could be asked, see fulfilment.Provider.
	Working func() time.Time
	// UnsettledPercent is the share of the float that an owner's unpaid orders may reserve; zero is unlimited.
	UnsettledPercent int
}

// Cards sells cards and serves their owners.
type Cards struct {
	Config
	providers []*provider
	looks     looks
	// balances are the balances that owners have read.
	balances recent.Map[uuid.UUID, *availability.Memo[Balance]]
}

// New makes Cards.
func New(c Config) *Cards {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	cards := &Cards{Config: c, balances: recent.Map[uuid.UUID, *availability.Memo[Balance]]{Most: maxBalances}}
	for i := range c.Providers {
		p := &provider{Provider: &c.Providers[i]}
		// Cached, so that a flood of unpaid requests does not reach the issuer and the database.
		p.stock = availability.NewMemo(availability.MemoConfig[Inventory]{
			Read: func(ctx context.Context) (Inventory, error) { return cards.readInventory(ctx, p) },
			TTL:  time.Second, Timeout: c.CallTimeout + availability.ReadTimeout, Now: c.Now,
		})
		cards.providers = append(cards.providers, p)
	}
	return cards
}

// Kind names orders for cards.
const Kind order.Kind = "card_issue"

// provider is an issuer as a fulfilment provider.
func (c *Cards) provider(of *provider) fulfilment.Provider {
	p := c.anyProvider()
	p.Traits, p.CallTimeout = of.Traits, c.CallTimeout
	return p
}

// anyProvider is how long each issuer is waited for.
func (c *Cards) anyProvider() fulfilment.Provider {
	return fulfilment.Provider{Name: "issuer", Poll: c.Poll, Deadline: c.Deadline, Working: c.Working, Now: c.Now}
}

// Kind implements checkout.Product.
func (c *Cards) Kind() order.Kind { return Kind }

// Path implements checkout.Product.
func (c *Cards) Path() string { return "/api/card/purchase" }

// Jobs are the jobs of cards, except delivery: the fee, and the issuer's reported states.
func (c *Cards) Jobs() []job.Work {
	all := []job.Work{{Kind: FeeJob, Handler: c.WithdrawFee, Resume: "admin fee-jobs"}}
	if c.StatesEvery > 0 {
		all = append(all, job.Work{Kind: StateJob, Handler: c.ReadStates, Every: c.StatesEvery, Args: StateArgs{}})
	}
	return all
}

// item is the item of a card order. It has no terms, because there is one price only.
type item struct {
	// Provider is the issuer that was chosen for the order. A quote has none: the choice is made when the buyer is known.
	Provider string `json:"provider,omitempty"`
}

func readItem(raw json.RawMessage) (i item, err error) {
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &i)
	}
	if err != nil {
		return item{}, fmt.Errorf("read the card's item: %w", err)
	}
	return i, nil
}

const floatResource = "float/card"

// Availability implements checkout.Product.
func (c *Cards) Availability() availability.Product {
	return availability.Product{
		Kind: Kind, Title: "Cards", Refusal: fault.IssuePaused, Detail: "No cards are sold at the moment.",
		Closed: c.Paused, Switches: c.Switches, Payments: c.Payments,
		Providers: c.sellers(), Needs: c.needs(c.sells), Shown: []availability.Check{c.answers(c.sells), c.Workers},
		Least: []availability.Check{{Name: "float", Run: func(ctx context.Context) error {
			_, err := c.choose(ctx, Price, "")
			return err
		}}},
	}
}

// sellers are the names of the issuers that sell cards.
func (c *Cards) sellers() (all []string) {
	for _, p := range c.selling(Price) {
		all = append(all, p.Name)
	}
	return all
}

// Issuers are the names of all issuers, those that are retired included.
func (c *Cards) Issuers() (all []string) {
	for _, p := range c.providers {
		all = append(all, p.Name)
	}
	return all
}

// sells fails with a fault while operators have closed the sale of cards over an issuer.
func (c *Cards) sells(ctx context.Context, p *provider) error {
	return c.Switches.Sells(ctx, p.Name, fault.IssuePaused)
}

// anyIssuer takes any issuer.
func anyIssuer(context.Context, *provider) error { return nil }

// Needs are the checks on which loading a card depends, whichever issuer has it.
func (c *Cards) Needs() []availability.Check { return c.needs(anyIssuer) }

// Shown are the checks that the readiness route shows.
func (c *Cards) Shown() []availability.Check {
	return []availability.Check{c.answers(anyIssuer), c.Workers}
}

// open says which issuers count.
type open func(context.Context, *provider) error

func (c *Cards) needs(among open) []availability.Check {
	return []availability.Check{
		c.answers(among), c.check("range", among, hasRange), c.Workers,
	}
}

// answers checks that an issuer that sells cards reports its inventory.
func (c *Cards) answers(among open) availability.Check {
	return c.check("issuer", among, func(ctx context.Context, p *provider) error {
		_, err := p.inventory(ctx)
		return err
	})
}

// check fails while no issuer that sells cards, of those that count, passes it.
func (c *Cards) check(name string, among, passes open) availability.Check {
	return availability.Check{Name: name, Run: func(ctx context.Context) error {
		_, err := first(ctx, c.selling(Price), func(ctx context.Context, p *provider) error {
			if err := among(ctx, p); err != nil {
				return err
			}
			return passes(ctx, p)
		})
		return err
	}}
}

// hasRange fails while an issuer has no range of numbers for cards, if it lists its ranges.
func hasRange(ctx context.Context, p *provider) error {
	inv, err := p.inventory(ctx)
	if err == nil && p.Capabilities.BINs && !inv.open() {
		err = fault.New(fault.BINUnavailable, "The issuer has no open card range.")
	}
	return err
}

// Offer implements checkout.Product: the fixed price or the quoted one, while an issuer can sell the card.
func (c *Cards) Offer(ctx context.Context, r order.OfferRequest) (order.Offer, error) {
	o := order.Offer{Price: Price, Item: marshal(item{})}
	if r.Quoted != nil {
		o = *r.Quoted
	}
	of, err := readItem(o.Item)
	if err != nil {
		return order.Offer{}, err
	}
	if _, err := c.choose(ctx, o.Price, of.Provider); err != nil {
		return order.Offer{}, err
	}
	o.Description = describe(o.Price)
	return o, nil
}

// Describe implements checkout.Describer.
func (c *Cards) Describe(_ context.Context, o order.Order) (string, error) {
	return describe(o.Price), nil
}

func describe(price money.Cents) string {
	return "Virtual card, " + price.String() + " USD: " + (price - Fee).String() + " to spend after the " +
		Fee.String() + " issue fee"
}

// FloatOf is the reservation of so many units of a resource; ok is false when that is no provider's float.
func (c *Cards) FloatOf(ctx context.Context, resource string, units int64) (r order.Reservation, ok bool, err error) {
	for _, p := range c.providers {
		if p.resource() == resource {
			r, err = c.Float(ctx, p.Name, money.Cents(units))
			return r, true, err
		}
	}
	return order.Reservation{}, false, nil
}

// Covers fails while no provider has an unreserved float of an amount. Which card is loaded is not known yet.
func (c *Cards) Covers(ctx context.Context, amount money.Cents) error {
	_, err := first(ctx, c.providers, func(ctx context.Context, p *provider) error { return covers(ctx, p, amount) })
	return err
}

// CoversAt fails while the unreserved float of one provider, by its name, is smaller than an amount.
func (c *Cards) CoversAt(ctx context.Context, name string, amount money.Cents) error {
	p, err := c.at(name)
	if err != nil {
		return err
	}
	return covers(ctx, p, amount)
}

// covers fails while the unreserved float of a provider is smaller than an amount.
func covers(ctx context.Context, p *provider, amount money.Cents) error {
	inv, err := p.inventory(ctx)
	switch left := inv.Float - inv.Reserved; {
	case err != nil || left >= amount:
		return err
	case left+inv.Unpaid >= amount:
		return order.Awaited()
	}
	return fault.New(fault.FloatUnavailable, noFloat)
}

// inventory is the issuer's inventory, cached.
func (p *provider) inventory(ctx context.Context) (Inventory, error) {
	inv, err := p.stock.Get(ctx)
	if err != nil {
		return Inventory{}, fmt.Errorf("read the inventory: %w", err)
	}
	return inv, nil
}

// readInventory reads the issuer's inventory and the reservations of its float. The claim sums the reservations again,
// under a lock.
func (c *Cards) readInventory(ctx context.Context, p *provider) (Inventory, error) {
	// As of our clock before the call, less the clock skew of other processes: the float may not show later releases
	// yet.
	asOf := c.Now()
	// Whoever happens to ask: what is read is shared with sales.
	inv, err := p.Stock.Stock(limit.WithUse(ctx, limit.ForSale))
	if err != nil {
		return Inventory{}, fmt.Errorf("ask the issuer: %w", errors.Join(err, issuerDown()))
	}
	if inv.AsOf.Before(asOf) {
		asOf = inv.AsOf // an issuer may remember its stock
	}
	asOf = asOf.Add(-clockSkew)
	held, err := c.Store.Reserved(ctx, p.resource(), asOf)
	if err != nil {
		return Inventory{}, fmt.Errorf("sum the reserved float: %w", err)
	}
	inv.AsOf, inv.Reserved = asOf, money.Cents(held)
	if inv.Float-inv.Reserved >= MaxLoad {
		return inv, nil // there is enough for any order
	}
	unpaid, err := c.Store.Unpaid(ctx, p.resource())
	if err != nil {
		return Inventory{}, fmt.Errorf("sum what is not paid: %w", err)
	}
	inv.Unpaid = money.Cents(unpaid)
	return inv, nil
}

// Float is the reservation of an amount of a provider's float.
func (c *Cards) Float(ctx context.Context, name string, amount money.Cents) (order.Reservation, error) {
	p, err := c.at(name)
	if err != nil {
		return order.Reservation{}, err
	}
	inv, err := p.inventory(ctx)
	if err != nil {
		return order.Reservation{}, err
	}
	return order.Reservation{
		Resource: p.resource(), Units: int64(amount), Most: int64(MaxLoad), Limit: int64(inv.Float), AsOf: inv.AsOf,
		Unsettled: order.UnsettledLimit(int64(inv.Float), int64(amount), c.UnsettledPercent),
		Refusal:   fault.FloatUnavailable, Detail: noFloat,
	}, nil
}

// clockSkew is the largest difference between the clocks of two processes.
const clockSkew = 5 * time.Second

const noFloat = "The issuer's float does not cover that."

// Invite implements checkout.Inviter: no terms are sent to a wallet that has a card.
func (c *Cards) Invite(ctx context.Context, o order.Order) error {
	return c.without(ctx, o.Owner, beforeTerms)
}

// without fails when a wallet has a live card, as its issuer has reported it within a time.
func (c *Cards) without(ctx context.Context, owner x402.Address, within time.Duration) error {
	switch _, err := c.live(ctx, owner, within); {
	case err == nil:
		return fault.New(fault.CardAlreadyExists, "This wallet has a card. Top it up instead of buying another.")
	case !errors.Is(err, ErrNotFound):
		return err
	}
	return nil
}

// Reserve implements checkout.Product: the issuer, which the order names, one live card per owner, and 25.00 of the
// issuer's float.
func (c *Cards) Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error) {
	asOf := c.Now()
	if err := c.without(ctx, owner, atOnce); err != nil {
		return order.Claim{}, err
	}
	of, err := readItem(o.Item)
	if err != nil {
		return order.Claim{}, err
	}
	chosen, err := c.choose(ctx, o.Price, of.Provider)
	if err != nil {
		return order.Claim{}, err
	}
	float, err := c.Float(ctx, chosen.Name, o.Price)
	if err != nil {
		return order.Claim{}, err
	}
	one := order.Reservation{
		Resource: "card/" + owner.Lower(), Units: 1, Limit: 1, AsOf: asOf,
		Refusal: fault.CardAlreadyExists, Detail: "This wallet is buying a card already.",
	}
	return order.Claim{
		Item: marshal(item{chosen.Name}), Reservations: []order.Reservation{one, float}, Provider: chosen.Name,
	}, nil
}

func (i Inventory) open() bool {
	for _, b := range i.BINs {
		if b.Open {
			return true
		}
	}
	return false
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("card: marshal %T: %v", v, err))
	}
	return b
}
