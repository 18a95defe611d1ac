package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Product is the part of a product that recovery needs.
type Product interface {
	Kind() order.Kind
	// References are the provider's references of an order, one for each attempt at its delivery.
	References(o order.Order) []order.Reference
	// Made reads all goods that the provider has made for us, or is making.
	Made(ctx context.Context) ([]order.Goods, error)
}

// Unmatched is a transfer by an authorization that no order has claimed and no operator has resolved.
type Unmatched struct {
	Transfer
	// At is the time of its block.
	At time.Time
	// ValidAfter and ValidBefore are the authorization's, zero when only the chain's logs are known.
	ValidAfter, ValidBefore uint64
}

// Lost are the remaining records around lost ones.
type Lost struct {
	// Unmatched are all such transfers, oldest first.
	Unmatched []Unmatched
	// Orders are those of the payers, those of the named owners, and all that are in progress.
	Orders []order.Order
	// References are those of goods that we have delivered.
	References map[uuid.UUID]bool
}

// LostBooks read and write the records of a recovery.
type LostBooks interface {
	// Lost reads the records of these owners and references.
	Lost(ctx context.Context, owners []x402.Address, references []uuid.UUID) (Lost, error)
	// Adopt recreates the order of some goods with the transfer that paid for them, or continues the existing unpaid
	// one. It is delivered like any other order, from the provider's record. Audited; false when it has been done
	// before.
	Adopt(ctx context.Context, a Adoption, act order.OperatorContext) (bool, error)
	// Return makes an order of a transfer only to refund it. Audited; false when it has been done before.
	Return(ctx context.Context, t Unmatched, act order.OperatorContext) (bool, error)
}

// Adoption is the recreation of an order for goods.
type Adoption struct {
	Transfer Unmatched
	Kind     order.Kind
	// Of is an existing unpaid order; empty to make one.
	Of order.ID
	// Reference is the provider's reference of the goods, Item the order's item, and Step the marker of the call that
	// made the goods, so that it is looked up and not repeated.
	Reference uuid.UUID
	Item      []byte
	Step      string
	// Made reports whether the goods are those of an order.
	Made func(order.Order) bool
}

// Act is the action of a recovery for a transfer or for goods.
type Act string

// The acts.
const (
	// ActAdopt recreates the order of the transfer and the goods, so that their owner sees them.
	ActAdopt Act = "adopt"
	// ActLeave leaves the transfer to its payer's repeat, or next purchase at this price.
	ActLeave Act = "leave"
	// ActReturn refunds the transfer.
	ActReturn Act = "return"
	// ActReview leaves the decision to an operator.
	ActReview Act = "review"
)

// Step is one step of a recovery.
type Step struct {
	Act    Act    `json:"act"`
	Detail string `json:"detail"`
	// Transfer, Payer and Amount describe the transfer; they are empty for goods without one.
	Transfer string     `json:"transfer,omitempty"`
	Payer    string     `json:"payer,omitempty"`
	Amount   money.USDC `json:"amount,omitempty,string"`
	// Kind, Reference and Order describe the goods; Order is the existing order, if there is one.
	Kind      order.Kind `json:"kind,omitempty"`
	Reference string     `json:"reference,omitempty"`
	Order     order.ID   `json:"orderId,omitempty"`
	// Done says that Apply has done it.
	Done bool `json:"done"`

	adoption *Adoption
	money    *Unmatched
}

// Plan lists the steps of a recovery, planned or done.
type Plan struct {
	At    time.Time `json:"at"`
	Steps []Step    `json:"steps"`
}

// Open reports whether a step is left to do or to decide.
func (p Plan) Open() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.Done && s.Act != ActLeave })
}

// made are goods that a provider made for us without a record of ours.
type made struct {
	order.Goods
	// of is the unpaid order that they were made for, if we have it.
	of *order.Order
}

// Recovery matches unmatched transfers with the goods that providers have made, and with our orders.
type Recovery struct {
	// Products are in the order in which their goods are matched: products that others depend on come first.
	Products []Product
	Books    LostBooks
	Head     Head
	// RefundAfter is the age from which a transfer without goods is refunded.
	RefundAfter time.Duration
	// Screen fails with a fault when a payer is not served, or while that cannot be known; nil serves all.
	Screen func(ctx context.Context, payer x402.Address) error
	Now    func() time.Time
}

// Plan reads all records and lists the steps. It changes nothing, but that refused payers are audited as such. Before
// it, the transfers have to be read to the head.
func (r Recovery) Plan(ctx context.Context) (Plan, error) {
	// Our records are read after the providers', so that they include what is being delivered now.
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
		return Plan{}, fmt.Errorf("read our records: %w", err)
	}
	for i := range lost.Unmatched {
		t := &lost.Unmatched[i]
		if _, t.At, err = r.Head.Block(ctx, t.Block); err != nil {
			return Plan{}, fmt.Errorf("find the time of block %d: %w", t.Block, err)
		}
	}
	steps := r.steps(lost, r.unexplained(lost, goods))
	for i := range steps {
		r.screen(ctx, &steps[i])
	}
	return Plan{At: r.Now().UTC(), Steps: steps}, nil
}

// screen leaves it to an operator what becomes of the money of a payer who is not served: nothing is sent there.
func (r Recovery) screen(ctx context.Context, s *Step) {
	if s.Act != ActReturn || r.Screen == nil {
		return
	}
	switch err := r.Screen(ctx, s.money.From); {
	case fault.Of(err) == fault.PayerNotAccepted:
		s.Act, s.Detail = ActReview, "no order and no goods, and its payer is not served: nothing is sent there"
	case err != nil:
		s.Act, s.Detail = ActReview, "no order and no goods, and its payer cannot be screened now: run this again"
	}
}

// Apply does the steps of a plan, each once even when several processes do it. A step that fails does not stop the
// others.
func (r Recovery) Apply(ctx context.Context, p Plan, act order.OperatorContext) (Plan, error) {
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

// isPrice reports whether an order can cost an amount: whole cents.
func isPrice(amount money.USDC) bool {
	_, exact := amount.Cents()
	return exact
}

// owning names a kind that its owner may have one of.
type owning struct {
	kind  order.Kind
	owner x402.Address
}

// steps matches the transfers and goods of each payer, and decides about those without a match.
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
	// The goods matched in this plan that their owner may have only one of.
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
			step.Act, step.Detail = ActReview, goods[at].Description+", and the payer has bought another since"
		case at >= 0:
			used[at] = true
			r.adopt(&step, goods[at], *t)
			owns[owning{goods[at].Kind, t.From}] = true
		case slices.ContainsFunc(goods, func(g made) bool {
			return g.Later && g.Known && g.Owner == t.From && g.Costs(t.Value) > 0
		}):
			step.Act, step.Detail = ActReview,
				"no order has it; the card that it was put on comes first: run this again once that is done"
		case slices.ContainsFunc(goods, func(g made) bool { return !g.Known && g.Note == "" && g.Costs(t.Value) > 0 }):
			step.Act, step.Detail = ActReview,
				"no order has it; a provider has goods of this price, and does not tell whose they are"
		case !isPrice(t.Value):
			step.Act, step.Detail = ActReview,
				"no order and no goods, and no price: send it back by hand, and resolve the transfer"
		case r.Now().Sub(t.At) > r.RefundAfter:
			step.Act, step.Detail = ActReturn, "no order and no goods, since "+t.At.UTC().Format(time.DateTime)
		default:
			step.Act, step.Detail = ActLeave,
				"no order and no goods: the payer's repeat, or next purchase at this price, uses it"
		}
		all = append(all, step)
	}
	for i, g := range goods {
		if !used[i] {
			step := Step{Act: ActReview, Kind: g.Kind, Reference: g.Reference.String()}
			step.Detail = g.Description + ", and no unmatched transfer pays for it"
			if g.Known {
				step.Payer = g.Owner.String()
			}
			all = append(all, step)
		}
	}
	return all
}

// adopt makes the step recreate the order of goods with the transfer that paid for them.
func (r Recovery) adopt(s *Step, g made, t Unmatched) {
	s.Act, s.Kind, s.Reference, s.Detail = ActAdopt, g.Kind, g.Reference.String(), g.Description
	s.adoption = &Adoption{
		Transfer: t, Kind: g.Kind, Reference: g.Reference, Item: g.Item(t.Value), Step: g.Step,
		Made: func(o order.Order) bool { return slices.Contains(r.references(o), g.Reference) },
	}
	if g.of != nil {
		s.Order, s.adoption.Of = g.of.ID, g.of.ID
	}
}

// best finds the goods that match a transfer best, the oldest first; -1 when there are none.
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
