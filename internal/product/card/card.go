// Package card is the card product and the cards sold: price, delivery, balance, reveal and platform fee.
//
// A paid order becomes a card in three steps, each stored before the next begins:
//
//	settled ─► row PENDING, our reference kept ─► Open at the issuer ─► ACTIVE + fee job
//	                                                                       │
//	                                          10.00 withdrawn by the fee job, 15.00 stays
package card

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// The economics of a card (spec section 2.3).
const (
	// Price is what the wallet pays; all of it is loaded.
	Price money.Cents = 2500
	// Fee is withdrawn once the card is ACTIVE.
	Fee money.Cents = 1000
	// Remaining is expected on the card after that.
	Remaining = Price - Fee

	// MaxLoad is the most that is put on a card at once.
	MaxLoad money.Cents = 25_000
)

// Status is how a card stands.
type Status string

// The statuses.
const (
	Pending Status = "PENDING"
	Active  Status = "ACTIVE"
	Frozen  Status = "FROZEN"
	Closed  Status = "CLOSED"
	Failed  Status = "FAILED"
)

// moves is every legal step of a card. The first is made by its order's delivery, the others by what its
// issuer reports.
var moves = map[Status][]Status{
	Pending: {Active, Failed},
	Active:  {Frozen, Closed},
	Frozen:  {Active, Closed},
}

// Moves are the steps that an issuer's report can make a card take.
func Moves() (all [][2]Status) {
	for _, from := range []Status{Active, Frozen} {
		for _, to := range moves[from] {
			all = append(all, [2]Status{from, to})
		}
	}
	return all
}

// Live reports that a card in this status counts as its owner's one card.
func (s Status) Live() bool { return s == Pending || s == Active || s == Frozen }

// Card is a card sold to a wallet.
type Card struct {
	ID     uuid.UUID
	Order  order.ID
	Owner  x402.Address
	Status Status
	// Ref is our reference for the opening, kept before the issuer is first called.
	Ref fulfilment.Ref
	// Load is what the issuer opens it with: the price or, at an issuer with spending limits, what remains of
	// that after the fee.
	Load money.Cents
	// Account is the issuer's name for the card; empty until the issuer told it.
	Account   string
	Last4     string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Postings are what the ledger gets when the card becomes ACTIVE: its opening load.
func (c Card) Postings() []ledger.Posting {
	return []ledger.Posting{ledger.Loaded(string(c.Order), c.ID.String(), c.Load)}
}

// Seen is a card as its issuer reports it.
type Seen struct {
	Ref    fulfilment.Ref
	Status Status
}

// ErrNotFound says that there is no such card for this owner.
var ErrNotFound = errors.New("no such card")

// Store keeps the cards sold. A write made for a job carries its fence and does nothing, with
// job.ErrLeaseLost, once another worker has the job.
type Store interface {
	// Live finds an owner's live card. ErrNotFound when there is none.
	Live(ctx context.Context, owner x402.Address) (Card, error)
	// Cards lists an owner's cards, newest first.
	Cards(ctx context.Context, owner x402.Address) ([]Card, error)
	// Card finds one card of an owner; another owner's is ErrNotFound.
	Card(ctx context.Context, id uuid.UUID, owner x402.Address) (Card, error)
	// Issued finds the cards of orders, of each the latest; an order without one is left out.
	Issued(ctx context.Context, orders ...order.ID) (map[order.ID]Card, error)
	// Reserve stores c unless its order has a card under this reference already, and returns that card.
	Reserve(ctx context.Context, f job.Fence, c Card) (Card, error)
	// Activate makes a pending card ACTIVE, with what that posts, and enqueues its fee job, in one
	// transaction. An active card stays as it is, and nothing is posted.
	Activate(ctx context.Context, f job.Fence, c Card, postings []ledger.Posting, fee job.New) error
	// FeeTaken ends a fee job whose fee is ours, with what that posts, in one transaction.
	FeeTaken(ctx context.Context, f job.Fence, postings []ledger.Posting) error
	// FeeOwed fails a fee job whose withdrawal met too little on the card, and marks it as owed, with what that
	// posts, in one transaction.
	FeeOwed(ctx context.Context, f job.Fence, postings []ledger.Posting) error
	// Owes is what an owner owes of the issue fees of all cards.
	Owes(ctx context.Context, owner x402.Address) (money.Cents, error)
	// Observe makes cards what their issuer reports, where that is a legal step, and returns those that changed.
	Observe(ctx context.Context, seen ...Seen) ([]Card, error)
	// Fail makes a pending card FAILED, which frees its owner to buy another.
	Fail(ctx context.Context, f job.Fence, id uuid.UUID) error
	// Reserved is how much of a resource live orders hold.
	Reserved(ctx context.Context, resource string, asOf time.Time) (int64, error)
}

// references is the namespace of our references at an issuer.
var references = uuid.MustParse("6f1b5a52-8f0e-5c3e-9a57-0d1b7c5b2f10")

// OpeningStep is the opening of a card in a delivery.
const OpeningStep = "open"

var openings = fulfilment.Series{Namespace: references, Name: OpeningStep, Step: OpeningStep}

func openingRef(o order.Order) fulfilment.Ref { return OpeningRef(o.Name(), o.Delivery) }

// OpeningRef is the reference of an attempt at opening a card at the issuer, by the order's name.
func OpeningRef(name string, attempt int) fulfilment.Ref { return openings.Ref(name, attempt) }

// References are what the issuer knows an order's card by.
func (c *Cards) References(o order.Order) []order.Reference { return openings.References(o) }
