// Package payment decides whether a payment meets our terms and moves the money exactly once.
//
// A payment passes through these states; every one is stored before anything irreversible happens:
//
//	claimed ──► attempted ──► paid
//	   │            │
//	   └────────────┴───────► dead   (cancelled, nonce spent elsewhere, or expired unused)
//
// The chain alone decides between paid and dead. A timeout, a lost answer or a reverted transaction
// decides nothing: anyone may still submit the authorization, so the payment stays open until the
// chain shows the transfer, or shows that it can never happen.
package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Status is how far a payment has come.
type Status string

// The statuses.
const (
	Claimed Status = "claimed"
	Paid    Status = "paid"
	Dead    Status = "dead"
)

// Payment is one authorization claimed for one order. (Asset, payer, nonce) is unique for ever.
type Payment struct {
	ID            uuid.UUID
	Order         order.ID
	Status        Status
	Network       string
	Asset         x402.Address
	Authorization x402.Authorization
	Signature     x402.Signature
	// Receipt is set once the payment is paid.
	Receipt *Receipt
	// DeadReason says why a dead payment is dead.
	DeadReason string
	CreatedAt  time.Time
	// ArrivedAt is the time of the transfer's block when the money had moved before the payment was claimed, else nil.
	ArrivedAt *time.Time
}

// Signed says that the payment can be sent for. Money that had arrived may have been claimed without its signature.
func (p Payment) Signed() bool { return p.Signature != x402.Signature{} }

// Postings are the ledger's entries when the payment is proven. Money that arrived before its order claimed it may be
// posted as unmatched; that posting is reversed.
func (p Payment) Postings() []ledger.Posting {
	settled := ledger.Settled(string(p.Order), p.Authorization.Value)
	if p.ArrivedAt == nil {
		return []ledger.Posting{settled}
	}
	r := p.Receipt
	return []ledger.Posting{ledger.Matched(string(p.Order), r.Transaction.String(), r.LogIndex, r.Amount), settled}
}

// Decided is an order with its payment, once the chain has decided the payment.
type Decided struct {
	Order   order.Order
	Payment Payment
}

// lookback is how long before a payment's claim the chain is searched for its transfer: a copy of
// the authorization may have been submitted first, and clocks differ.
const lookback = 5 * time.Minute

// Since is the time from which the chain is searched for the payment's transfer.
func (p Payment) Since() time.Time {
	if p.ArrivedAt != nil && p.ArrivedAt.Before(p.CreatedAt) {
		return LookedForSince(*p.ArrivedAt)
	}
	return LookedForSince(p.CreatedAt)
}

// LookedForSince is the time from which the chain is searched for a transfer that was made at a time or later.
func LookedForSince(earliest time.Time) time.Time { return earliest.Add(-lookback) }

// Receipt is the proof that a payment arrived: the transaction in which the asset logged
// AuthorizationUsed(payer, nonce) directly followed by the exact Transfer. Ours or anyone's.
type Receipt struct {
	Transaction x402.Hash
	Block       uint64
	BlockHash   x402.Hash
	// LogIndex is the Transfer's index in its block.
	LogIndex uint
	Payer    x402.Address
	PayTo    x402.Address
	Amount   money.USDC
	// SettledAt is the block's time.
	SettledAt time.Time
}

// Verdict is what the chain says of an authorization, all of it read at one block.
type Verdict struct {
	State State
	// Receipt is set when the state is Settled.
	Receipt *Receipt
	// Reason is set when the state is Void.
	Reason string
}

// The reasons why an authorization is void.
const (
	ReasonCancelled     = "cancelled"
	ReasonUsedElsewhere = "used_elsewhere"
	ReasonExpired       = "expired"
	// ReasonNeverMade: the block from which the transfer was read does not contain it.
	ReasonNeverMade = "never_made"
)

// State is what became of an authorization on chain.
type State int

// The states.
const (
	// Unknown: the chain's answer does not decide; ask again.
	Unknown State = iota
	// Unused: the authorization can still be used.
	Unused
	// Settled: exactly this money moved.
	Settled
	// Void: it can never move.
	Void
)

// Chain reads the state of authorizations. An error means that the chain did not answer, never that a payment failed.
type Chain interface {
	// Simulate says whether the authorization would move the money now. A *Rejection says why not.
	Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) error
	// Verdict decides what became of an authorization since a time shortly before it was claimed.
	Verdict(ctx context.Context, a x402.Authorization, since time.Time) (Verdict, error)
}

// Settler brings a claimed payment to the chain.
type Settler interface {
	// Submit makes sure a transaction for the payment is durably recorded and then on its way. It may
	// be called any number of times, by several processes at once; it never makes a second
	// transaction while an earlier one can still be included. A nil error promises no inclusion.
	Submit(ctx context.Context, p Payment) error
}

// Attempt is one transaction of ours for a payment. Its bytes are stored before they are
// first sent, and the same bytes are sent again after a crash.
type Attempt struct {
	ID      uuid.UUID
	Payment uuid.UUID
	Relayer x402.Address
	// Nonce is the relayer's account nonce.
	Nonce uint64
	// Variants are the signed transactions for this nonce, oldest first: a fee bump adds one.
	Variants  []Transaction
	Status    AttemptStatus
	CreatedAt time.Time
}

// Transaction is a signed transaction and its hash.
type Transaction struct {
	Hash     x402.Hash
	Raw      []byte
	SignedAt time.Time
}

// AttemptStatus is how far an attempt has come.
type AttemptStatus string

// The attempt statuses.
const (
	// AttemptOpen: signed and stored, perhaps sent, not known to be final.
	AttemptOpen AttemptStatus = "open"
	// AttemptReverted: included without moving the money; its account nonce is used.
	AttemptReverted AttemptStatus = "reverted"
	// AttemptClosed: included and past the finality the configuration asks for.
	AttemptClosed AttemptStatus = "closed"
)

// ClockSkew is how far the clocks of two processes may lie apart.
const ClockSkew = time.Minute

// ErrAttemptClosed says that an attempt is not open any more and takes no further variant.
var ErrAttemptClosed = errors.New("the attempt is closed")

// Attempts keeps the relayer's transactions.
type Attempts interface {
	// Prepare returns the open attempt of a payment or makes the next one, exactly one even when
	// called at once by several processes. The account nonce is the larger of floor (the chain's own
	// count) and one past the last stored one; sign is called with it inside the transaction, must be
	// pure, and may be called again when the transaction is retried.
	Prepare(ctx context.Context, payment uuid.UUID, relayer x402.Address, floor uint64,
		sign func(nonce uint64) (Transaction, error)) (Attempt, error)
	// Replace stores another variant for an open attempt's nonce, before it is sent. The error is
	// ErrAttemptClosed when the attempt is not open.
	Replace(ctx context.Context, attempt uuid.UUID, tx Transaction) error
	// Open lists a relayer's open attempts by account nonce.
	Open(ctx context.Context, relayer x402.Address) ([]Attempt, error)
	// ByPayment finds the open attempt of a payment, whichever relayer made it. ok is false when there
	// is none.
	ByPayment(ctx context.Context, payment uuid.UUID) (a Attempt, ok bool, err error)
	// Last is the largest account nonce stored for a relayer, whatever became of its attempt. ok is false when
	// there is none.
	Last(ctx context.Context, relayer x402.Address) (nonce uint64, ok bool, err error)
	// Relayers lists the relayers that have open attempts, each once, by address.
	Relayers(ctx context.Context) ([]x402.Address, error)
	// Close ends an open attempt. spent is what its included transaction cost the relayer, in wei; zero when none
	// of ours was included. Closing again changes nothing.
	Close(ctx context.Context, attempt uuid.UUID, status AttemptStatus, spent int64) error
	// Lost says what reverted transactions have cost, as far as it concerns a payment.
	Lost(ctx context.Context, p Payment, since time.Time) (Losses, error)
}

// Losses are what was spent on transactions that reverted.
type Losses struct {
	// Reverts is how many there were for the authorization at hand.
	Reverts int
	// Payer and All are what was lost on the payer's payments, and on all of them, since a time, in wei.
	Payer, All int64
}
