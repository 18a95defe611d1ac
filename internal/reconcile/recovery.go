package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Product is a product as a recovery knows it.
type Product interface {
	Kind() order.Kind
	// References are what its provider knows an order by, one for each attempt at its delivery.
	References(o order.Order) []order.Reference
	// Made reads its provider's whole book: all that was made for us, or is about to be.
	Made(ctx context.Context) ([]order.Goods, error)
}

// Unmatched is money that arrived by an authorization, that no order has claimed and no operator has resolved.
type Unmatched struct {
	Transfer
	// At is the time of its block.
	At time.Time
	// ValidAfter and ValidBefore are the authorization's, zero when only the chain's logs are known.
	ValidAfter, ValidBefore uint64
}

// Lost is what our books know around what they have lost.
type Lost struct {
	// Unmatched are all such transfers, oldest first.
	Unmatched []Unmatched
	// Orders are those of their payers and of the owners named, and whatever is on its way.
	Orders []order.Order
	// References are those that something delivered by us has.
	References map[uuid.UUID]bool
}

// LostBooks keep what a recovery reads and writes.
type LostBooks interface {
	// Lost reads what our books have of these owners and for these references.
	Lost(ctx context.Context, owners []x402.Address, references []uuid.UUID) (Lost, error)
	// Adopt makes the order of goods and of the transfer that paid for them, or goes on with the order that there is.
	// It is delivered like any other, from what the provider has. Audited; false when it has been done.
	Adopt(ctx context.Context, a Adoption, act order.Act) (bool, error)
	// Return makes an order of a transfer only to send its money back. Audited; false when it has been done.
	Return(ctx context.Context, t Unmatched, act order.Act) (bool, error)
}

// Adoption is an order that is made anew for goods.
type Adoption struct {
	Transfer Unmatched
	Kind     order.Kind
	// Of is the order that our books still have, unpaid; empty to make one.
	Of order.ID
	// Reference is the provider's for the goods, Item what the order remembers of them, Step the marker of the call that
	// made them: it is read, not made again.
	Reference uuid.UUID
	Item      []byte
	Step      string
}

// Act is what a recovery does about a transfer or about goods.
type Act string

// The acts.
const (
	// ActAdopt makes an order of the transfer and the goods, so that their owner sees them.
	ActAdopt Act = "adopt"
	// ActLeave leaves the transfer to its payer's repeat, or next purchase at this price.
	ActLeave Act = "leave"
	// ActReturn sends the money back.
	ActReturn Act = "return"
	// ActReview leaves it to a person.
	ActReview Act = "review"
)

// Step is one thing that a recovery would do, or has done.
type Step struct {
	Act    Act    `json:"act"`
	Detail string `json:"detail"`
	// Transfer, Payer and Amount are of the money; empty for goods without any.
	Transfer string     `json:"transfer,omitempty"`
	Payer    string     `json:"payer,omitempty"`
	Amount   money.USDC `json:"amount,omitempty,string"`
	// Kind, Reference and Order are of the goods; Order is one that our books still have.
	Kind      order.Kind `json:"kind,omitempty"`
	Reference string     `json:"reference,omitempty"`
	Order     order.ID   `json:"orderId,omitempty"`
	// Done says that it was done now.
	Done bool `json:"done"`

	adoption *Adoption
	money    *Unmatched
}

// Plan is what a recovery would do, or has done.
type Plan struct {
	At    time.Time `json:"at"`
	Steps []Step    `json:"steps"`
}

// Open says that there is something left to do, or to decide.
func (p Plan) Open() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.Done && s.Act != ActLeave })
}

// made is something that a provider made for us and that our books do not explain.
type made struct {
	order.Goods
	// of is an unpaid order of ours that it was made for.
	of *order.Order
}

// Recovery pairs transfers that belong to no order, what providers have carried out, and our orders.
type Recovery struct {
	// Products are in the order in which their goods are paired: what others depend on comes first.
	Products []Product
	Books    LostBooks
	Head     Head
	// ReturnAfter is how old a transfer without goods is before its money goes back.
	ReturnAfter time.Duration
	Now         func() time.Time
}

// Plan reads all books and says what is to be done. It changes nothing. The transfers have been read to the head
// before.
func (r Recovery) Plan(ctx context.Context) (Plan, error) {
	// Our books after the providers': what is being delivered now is in ours by then.
	var goods []order.Goods
	for _, p := range r.Products {
		all, err := p.Made(ctx)
		if err != nil {
			return Plan{}, err
		}
		goods = append(goods, all...)
	}
	var owners []x402.Address
	var refs []uuid.UUID
	for _, g := range goods {
		refs = append(refs, g.Reference)
		if g.Known {
			owners = append(owners, g.Owner)
		}
	}
	lost, err := r.Books.Lost(ctx, owners, refs)
	if err != nil {
		return Plan{}, fmt.Errorf("read our books: %w", err)
	}
	for i := range lost.Unmatched {
		t := &lost.Unmatched[i]
		if _, t.At, err = r.Head.Block(ctx, t.Block); err != nil {
			return Plan{}, fmt.Errorf("find the time of block %d: %w", t.Block, err)
		}
	}
	return Plan{At: r.Now().UTC(), Steps: r.steps(lost, r.unexplained(lost, goods))}, nil
}

// Apply does what a plan says, each step once whoever else does it too. What fails does not keep the others from being
// done.
func (r Recovery) Apply(ctx context.Context, p Plan, act order.Act) (Plan, error) {
	var errs error
	for i := range p.Steps {
		s := &p.Steps[i]
		var err error
		switch s.Act {
		case ActAdopt:
			s.Done, err = r.Books.Adopt(ctx, *s.adoption, act)
		case ActReturn:
			s.Done, err = r.Books.Return(ctx, *s.money, act)
		case ActLeave, ActReview:
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s %s: %w", s.Act, cmp.Or(s.Transfer, s.Reference), err))
		}
	}
	return p, errs
}

// owning names what a wallet may have one of.
type owning struct {
	kind  order.Kind
	owner x402.Address
}

// steps pairs money and goods of each payer, and says what becomes of what is left.
func (r Recovery) steps(lost Lost, goods []made) []Step {
	payers := map[string]x402.Address{}
	for _, t := range lost.Unmatched {
		payers[order.BuyerOf(t.From)] = t.From
	}
	for i := range goods {
		if owner, ok := payers[goods[i].Note]; ok && !goods[i].Known {
			goods[i].Owner, goods[i].Known = owner, true
		}
	}
	// What a payer gets now that it may have one of at most.
	owns := map[owning]bool{}
	var all []Step
	used := make([]bool, len(goods))
	for i := range lost.Unmatched {
		t := &lost.Unmatched[i]
		step := Step{Transfer: t.subject(), Payer: t.From.String(), Amount: t.Value, money: t}
		switch at := best(goods, used, *t); {
		case at >= 0 && goods[at].Single && (goods[at].Taken(t.From) || owns[owning{goods[at].Kind, t.From}]):
			used[at] = true
			step.Kind, step.Reference = goods[at].Kind, goods[at].Reference.String()
			step.Act, step.Detail = ActReview, goods[at].What+", and the payer has bought another since"
		case at >= 0:
			used[at] = true
			step.adopt(goods[at], *t)
			owns[owning{goods[at].Kind, t.From}] = true
		case slices.ContainsFunc(goods,
			func(g made) bool { return g.Later && g.Known && g.Owner == t.From && g.Costs(t.Value) > 0 }):
			step.Act, step.Detail = ActReview,
				"no order has it; the card that it was put on comes first: run this again once that is done"
		case slices.ContainsFunc(goods, func(g made) bool { return !g.Known && g.Note == "" && g.Costs(t.Value) > 0 }):
			step.Act, step.Detail = ActReview,
				"no order has it; a provider has goods of this price, and does not tell whose they are"
		case r.Now().Sub(t.At) > r.ReturnAfter:
			step.Act, step.Detail = ActReturn, "no order and no goods, since "+t.At.UTC().Format(time.DateTime)
		default:
			step.Act, step.Detail = ActLeave,
				"no order and no goods: the payer's repeat, or next purchase at this price, uses it"
		}
		all = append(all, step)
	}
	for i, g := range goods {
		if !used[i] {
			step := Step{Act: ActReview, Kind: g.Kind, Reference: g.Reference.String(), Detail: g.What +
				", and no transfer that belongs to no order pays for it"}
			if g.Known {
				step.Payer = g.Owner.String()
			}
			all = append(all, step)
		}
	}
	return all
}

// adopt says that a transfer has paid for goods.
func (s *Step) adopt(g made, t Unmatched) {
	s.Act, s.Kind, s.Reference, s.Detail = ActAdopt, g.Kind, g.Reference.String(), g.What
	s.adoption = &Adoption{Transfer: t, Kind: g.Kind, Reference: g.Reference, Item: g.Item(t.Value), Step: g.Step}
	if g.of != nil {
		s.Order, s.adoption.Of = g.of.ID, g.of.ID
	}
}

// best finds the goods of a transfer's payer that fit it best, the oldest first; -1 when there are none.
func best(goods []made, used []bool, t Unmatched) int {
	at, fit := -1, 0
	for i, g := range goods {
		if used[i] || g.Later || !g.Known || g.Owner != t.From {
			continue
		}
		if f := g.Costs(t.Value); f > fit {
			at, fit = i, f
		}
	}
	return at
}
