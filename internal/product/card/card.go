// Package card is the card product and the cards sold: price, delivery, balance, reveal and platform fee.
//
// A paid order becomes a card in three steps, each stored before the next begins:
//
//	settled ─► row PENDING, our reference stored ─► Open at the issuer ─► ACTIVE + fee job
//	                                                                         │
//	                                        the fee job withdraws 10.00, 15.00 remain
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
	// Remaining is the expected balance after that.
	Remaining = Price - Fee

	// MaxLoad is the largest single load.
	MaxLoad money.Cents = 25_000
)

// Status is the status of a card.
type Status string

// The statuses.
const (
	Pending Status = "PENDING"
	Active  Status = "ACTIVE"
	Frozen  Status = "FROZEN"
	Closed  Status = "CLOSED"
	Failed  Status = "FAILED"
)

// moves are the legal status changes of a card. Its order's delivery makes the first one, the issuer's reports the
// others.
var moves = map[Status][]Status{
	Pending: {Active, Failed},
	Active:  {Frozen, Closed},
	Frozen:  {Active, Closed},
}

// Moves are the status changes that an issuer's report can cause.
func Moves() (all [][2]Status) {
	for _, from := range []Status{Active, Frozen} {
		for _, to := range moves[from] {
			all = append(all, [2]Status{from, to})
		}
	}
	return all
}

// Live reports whether a card in this status counts as its owner's one card.
func (s Status) Live() bool { return s == Pending || s == Active || s == Frozen }

// Card is a card sold to a wallet.
type Card struct {
	ID     uuid.UUID
	Order  order.ID
	Owner  x402.Address
	Status Status
	// Ref is our reference for the opening, stored before the issuer is first called.
	Ref fulfilment.Ref
	// Load is the amount that the card is opened with: the price or, at an issuer with spending limits, the price
	// without the fee.
	Load money.Cents
	// Provider is the name of the card's issuer, Programme the issuer's programme that it is opened in, and Holder whose
	// name it is in.
	Provider, Programme string
	Holder              Holder
	// Account is the issuer's ID of the card; empty until it is known.
	Account string
	Last4   string
	// OwnerFrozen says that the owner has asked to freeze the card, and may unfreeze it.
	OwnerFrozen bool
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Postings are the ledger postings of the card when it becomes ACTIVE: its opening load.
func (c Card) Postings() []ledger.Posting {
	return []ledger.Posting{ledger.Loaded(string(c.Order), c.ID.String(), c.Load)}
}

// Seen is a card as its issuer reports it. What another provider says about the card is ignored.
type Seen struct {
	Ref      fulfilment.Ref
	Status   Status
	Provider string
	// AsOf is when the issuer was asked; zero for what it answered to a change. What a card has become since then counts
	// more.
	AsOf time.Time
}

// MovementLock is one movement of a card, as it takes its turn.
type MovementLock struct {
	Card uuid.UUID
	// Order is whose movement it is; empty for that of a job, which is FeeJob.
	Order  order.ID
	FeeJob uuid.UUID
	Ref    fulfilment.Ref
	// Load is what the movement adds to what is on the card by our books; zero for a withdrawal, which has no target.
	Load money.Cents
	// Held says that an order which an operator has to decide about keeps the card: nobody knows whether its load is in
	// the card's limit.
	Held bool
	// Closing says that it is the movement of a closing, whose job is FeeJob: it waits for every top-up of the card that
	// the issuer may have been asked for, and its target is what is on the card by our books.
	Closing bool
	// Begun says that the issuer may have been asked for the movement already.
	Begun bool
}

// Freezing is how an owner's freezing or unfreezing of a card has ended.
type Freezing struct {
	// Unknown says that its outcome is not known: it may still take effect for as long as it would have had the card.
	Unknown bool
	// Open is until when an earlier one may still take effect, as BeginFreezing has said; zero when there is none.
	Open time.Time
	// Undone says that the card is not frozen by its owner any more. The record of it is kept while a freezing may still
	// take effect: what that freezes, the owner can unfreeze.
	Undone bool
}

// ErrBusy says that another movement has the card.
var ErrBusy = errors.New("another movement of the card is under way")

// ErrClosing says that the card is being closed, or is closed, by an operator.
var ErrClosing = errors.New("the card is being closed")

// ErrNotFound says that there is no such card for this owner.
var ErrNotFound = errors.New("no such card")

// Store keeps the cards sold. A write of a job has the job's fence, and fails with job.ErrLeaseLost once another worker
// has the job.
type Store interface {
	Owned
	Openings
	Fees
	MovementLocks
	States
	order.Float
}

// Owned finds cards.
type Owned interface {
	// Live finds an owner's live card. ErrNotFound when there is none.
	Live(ctx context.Context, owner x402.Address) (Card, error)
	// Cards lists an owner's cards, newest first.
	Cards(ctx context.Context, owner x402.Address) ([]Card, error)
	// Card finds one card of an owner; another owner's is ErrNotFound.
	Card(ctx context.Context, id uuid.UUID, owner x402.Address) (Card, error)
	// Issued finds the latest card of each order; an order without one is left out.
	Issued(ctx context.Context, orders ...order.ID) (map[order.ID]Card, error)
	// ByNames finds a provider's cards by its names of them or by the references of their openings.
	ByNames(ctx context.Context, provider string, accounts []string, refs []fulfilment.Ref) ([]Card, error)
}

// Openings are what a delivery stores of a card.
type Openings interface {
	// Reserve stores c, unless its order already has a card with this reference, and returns the stored card.
	Reserve(ctx context.Context, f job.Fence, c Card) (Card, error)
	// Activate makes a pending card ACTIVE, adds the postings and enqueues its fee job, in one transaction. For an
	// active card it changes and posts nothing.
	Activate(ctx context.Context, f job.Fence, c Card, postings []ledger.Posting, fee job.New) error
	// Fail makes a pending card FAILED, so that its owner can buy another.
	Fail(ctx context.Context, f job.Fence, id uuid.UUID) error
}

// Fees are what is stored of issue fees.
type Fees interface {
	// FeeTaken completes a fee job and adds the postings, in one transaction.
	FeeTaken(ctx context.Context, f job.Fence, postings []ledger.Posting) error
	// FeeOwed fails a fee job because the card's balance was too low, marks the fee as owed and adds the postings, in
	// one transaction.
	FeeOwed(ctx context.Context, f job.Fence, postings []ledger.Posting) error
	// FeeOpen reports whether the card's fee job is queued or processing.
	FeeOpen(ctx context.Context, id uuid.UUID) (bool, error)
	// Owes is the sum of the issue fees that an owner owes for all cards.
	Owes(ctx context.Context, owner x402.Address) (money.Cents, error)
}

// MovementLocks give a card to one movement or change at a time.
type MovementLocks interface {
	// TakeTurn takes a card for one movement, so that there is never another one under way, and says what the movement is
	// to bring the card to. ErrBusy while another one has the card: an order's, until the order has left provisioning and,
	// with Turn.Held, operator_review; a fee job's, until that is neither queued nor processing; a change's of the owner.
	// The same turn is given again, with the same target. ErrClosing for an order's that has not begun, once a closing is
	// ordered.
	TakeTurn(ctx context.Context, f job.Fence, t MovementLock) (target money.Cents, err error)
	// BeginChange takes a card for a change of its owner's, until EndChange or for so long at most. Until then there is no
	// other change, and no movement takes its turn. ErrBusy while another change or a movement has the card, as for
	// TakeTurn with Turn.Held.
	BeginChange(ctx context.Context, id, change uuid.UUID, most time.Duration) error
	// EndChange gives the card back. It does nothing when the change does not have it any more.
	EndChange(ctx context.Context, id, change uuid.UUID) error
	// BeginFreezing takes a card for its owner's freezing or unfreezing, until EndFreezing or for so long at most. Until
	// then there is no other change; a movement may be under way. ErrBusy while another change has the card. open is until
	// when an earlier freezing may still take effect, whose outcome is not known; zero when there is none.
	BeginFreezing(ctx context.Context, id, change uuid.UUID, most time.Duration) (open time.Time, err error)
	// EndFreezing gives the card back. It does nothing when the change does not have it any more.
	EndFreezing(ctx context.Context, id, change uuid.UUID, end Freezing) error
	// Closing reports whether an operator has ordered to close the card.
	Closing(ctx context.Context, id uuid.UUID) (bool, error)
}

// States are what issuers and owners say of a card.
type States interface {
	// Observe sets cards to the status that their issuer reports, where the change is legal, and returns those that
	// changed.
	Observe(ctx context.Context, seen ...Seen) ([]Card, error)
	// SetOwnerFrozen records whether the owner has asked to freeze the card. A card that becomes ACTIVE by Observe loses
	// the record, unless an owner's freezing of it is under way or may still take effect.
	SetOwnerFrozen(ctx context.Context, id uuid.UUID, owner x402.Address, frozen bool) error
}

// references is the namespace of our references at an issuer.
var references = uuid.MustParse("6f1b5a52-8f0e-5c3e-9a57-0d1b7c5b2f10")

// OpeningStep is the opening of a card in a delivery.
const OpeningStep = "open"

var openings = fulfilment.Series{Namespace: references, Name: OpeningStep, Step: OpeningStep}

func openingRef(o order.Order) fulfilment.Ref { return OpeningRef(o.Name(), o.Delivery) }

// OpeningRef is the reference of an attempt at opening a card at the issuer, by the order's name.
func OpeningRef(name string, attempt int) fulfilment.Ref { return openings.Ref(name, attempt) }

// References are the issuer's references of an order's card, one for each attempt at its delivery.
func (c *Cards) References(o order.Order) []order.Reference { return openings.References(o) }
