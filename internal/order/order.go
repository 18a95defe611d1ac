// Package order is what was asked for, at what price, and how far it has come.
package order

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNotFound says that there is no such order, or that the order has no such record.
var ErrNotFound = errors.New("no such order")

// ID names an order to the outside: "ord_", the time in milliseconds and 128 random bits, in hex. It sorts
// by time and cannot be guessed.
type ID string

// Kind is the product an order is for. Each product module declares its own.
type Kind string

// PayPath is the URL path where an order is paid that was created to be paid later.
func PayPath(id ID) string { return "/pay/" + url.PathEscape(string(id)) }

// Order is one thing asked for by one wallet. The wallet that pays owns it.
type Order struct {
	ID ID
	// Operation names the asynchronous work behind the order.
	Operation uuid.UUID
	Kind      Kind
	Status    Status
	Owner     x402.Address
	// Key is the caller's idempotency key, or one of our own (see Keyless); (Kind, Owner, Key) is unique
	// for ever.
	Key string
	// Fingerprint is a digest of the request's meaning; the same key with another one is refused.
	Fingerprint Fingerprint
	Price       money.Cents
	// Item is what the product needs to deliver, as the product wrote it when it priced the order.
	Item json.RawMessage
	// Resource is the URL that a payer is told the payment is for; empty for the order's own address.
	Resource string
	// Reference names the order to providers, see ReferenceOf; nil for an order without a key of its caller's, or older
	// than that.
	Reference *uuid.UUID
	// RecoveredReference is the provider's reference of goods that were found after data loss, and that the order was
	// made for: its first delivery is theirs. Nil for all others.
	RecoveredReference *uuid.UUID
	// RefundReason says why the order was claimed only to bring its payment back; empty for all others.
	RefundReason string
	// Version rises with every change and guards against stale ones.
	Version int
	// Delivery counts the attempts at the delivery: 1, and one more for each refusal that the provider
	// confirmed. Each has its own reference at the provider, or a retry would be told the same again.
	Delivery  int
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpiresAt ends the time in which an order can be paid for the first time; nil once a payment was
	// claimed for it, also when that payment turned out dead.
	ExpiresAt *time.Time
}

// AsOf is the order as it stands at a time: when the time to pay it is over it is expired, also before
// that is recorded.
func (o Order) AsOf(now time.Time) Order {
	if o.Status == PaymentRequired && o.ExpiresAt != nil && !now.Before(*o.ExpiresAt) {
		o.Status = Expired
	}
	return o
}

// purchases is the namespace of references. It never changes: a lost row must not change a reference.
var purchases = uuid.MustParse("b5c0cf0b-6f0c-5f6e-8a0e-3f6f2c9d7a51")

// ReferenceOf names a purchase by what makes it one. An order that is made again for it, because its row was lost, has
// the same reference, and finds what its provider has for it.
func ReferenceOf(kind Kind, owner x402.Address, key string) *uuid.UUID {
	id := uuid.NewSHA1(purchases, []byte(string(kind)+"/"+owner.Lower()+"/"+key))
	return &id
}

// Name is what the order's references at providers are derived from.
func (o Order) Name() string {
	if o.RecoveredReference != nil {
		return adoptedName + o.RecoveredReference.String()
	}
	if o.Reference == nil {
		return string(o.ID)
	}
	return o.Reference.String()
}

// MaxKey is the longest idempotency key that a caller may send, in characters.
const MaxKey = 200

// Keyless is the key of an order that was created without one. No caller can send it: it is too long.
func Keyless(id ID) string { return strings.Repeat("-", MaxKey) + string(id) }

// IsKeyless reports whether an order was created without a key of its caller's.
func (o Order) IsKeyless() bool { return o.Key == Keyless(o.ID) }

// Fingerprint is the SHA-256 of an operation and the canonical form of its request.
type Fingerprint [sha256.Size]byte

// NewID makes an id for an order made at a time.
func NewID(at time.Time) ID {
	var id [8 + 16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli()))
	_, _ = rand.Read(id[8:]) // never fails: the program ends when there is no randomness
	// The upper two bytes of the time stay zero until the year 10889.
	return ID(fmt.Sprintf("ord_%x", id[2:]))
}

// FingerprintOf digests an operation and its item. Items are structs, whose JSON has a fixed order.
func FingerprintOf(kind Kind, item json.RawMessage) Fingerprint {
	text := strconv.AppendInt(append([]byte(kind), '\n'), int64(len(item)), 10)
	return sha256.Sum256(append(append(text, '\n'), item...))
}

// Move is one step of an order from a status to another, with who took it and why.
type Move struct {
	Order ID
	// Owner is the order's: rows are found, and may be distributed, by it.
	Owner    x402.Address
	From, To Status
	// Actor is "buyer", "worker" or "operator:<name>".
	Actor  string
	Reason string
	// Evidence is what the move is based on: transaction, provider reference. Never a secret.
	Evidence map[string]string
	// Refused is set when the provider confirmed that this attempt at the delivery will never come: the
	// order's Delivery rises with the move.
	Refused bool
	// Postings are what the ledger gets with the move. The timeline does not keep them.
	Postings []ledger.Posting
}

// ByWorker reports that a worker makes the move, and neither the buyer nor an operator.
func (m Move) ByWorker() bool { return m.Actor == Worker }

// Worker is the actor of moves that no request asked for.
const Worker = "worker"

// Event is a move as the timeline keeps it.
type Event struct {
	Move
	// Request is the request that made it, as its answer names it; empty when none did.
	Request string
	// Version is the order's after the move.
	Version int
	At      time.Time
}

// OperatorContext is an operator's action, for the audit trail.
type OperatorContext struct {
	// Operator is the operator's name.
	Operator string
	// Key makes an act happen once; empty for acts that may be repeated.
	Key    string
	Reason string
	// Version is the version of its subject that the operator has seen; at another one the act is refused. Zero is any.
	Version int
	// Minters are the operators who minted the operator's token, and those who minted theirs.
	Minters []string
}

// KeyReused is the fault of an act whose key was used for another act on the same subject, or with another reason.
func KeyReused() error {
	return fault.New(fault.IdempotencyKeyReused,
		"This Idempotency-Key was used for something else, or with another reason.")
}

// Reference is our name for one call to a provider.
type Reference struct {
	// Step is what was asked for, Version which attempt at it this was.
	Step      string
	Version   int
	Reference string
}

// Reservation is a share of something scarce that an order takes when it is claimed: issuer float, the one
// card a wallet may have. It is given back when the order no longer needs it.
type Reservation struct {
	// Resource names what is scarce, for example "float/card" or "card/0xabc…".
	Resource string
	Units    int64
	// Most is the most that any order takes of the resource at once, so that orders that are well below its limit
	// need not wait for each other; zero when nobody can say. The same for everyone who takes of it.
	Most int64
	// Limit is how much of the resource there is, as known at AsOf.
	Limit int64
	// Unsettled is how much of the resource its owner's orders may reserve while they are not paid; zero is no bound.
	Unsettled int64
	// AsOf is when Limit was read. Reservations that ended after it still count: the reading may not show
	// yet what they turned into.
	AsOf time.Time
	// Refusal and Detail are what a buyer is told when there is not enough.
	Refusal fault.Code
	Detail  string
}

// Float says how much of a resource, such as an issuer's money, orders have reserved.
type Float interface {
	// Reserved is how much of a resource live orders have reserved; what was released at asOf or later counts as reserved.
	Reserved(ctx context.Context, resource string, asOf time.Time) (int64, error)
	// Unpaid is how much of a resource live orders have reserved that are not paid.
	Unpaid(ctx context.Context, resource string) (int64, error)
}
