// Package payment decides whether a payment meets our terms and moves the money exactly once.
//
// A payment passes through these states; every one is stored before anything irreversible happens:
//
//	claimed ──► attempted ──► paid
//	   │            │
//	   └────────────┴───────► dead   (cancelled, nonce spent elsewhere, or expired unused)
//
// Only the chain decides between paid and dead. A timeout, a lost answer or a reverted transaction decides nothing:
// anyone may still submit the authorization, so the payment stays undecided until the chain shows the transfer, or
// shows that it can never happen.
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

// Payment is one authorization claimed for one order. (Asset, payer, nonce) is unique and never reused.
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
	// DeadReason is set when the payment is dead: one of the reasons of a Void verdict.
	DeadReason string
	CreatedAt  time.Time
	// ArrivedAt is the time of the transfer's block when the money had moved before the payment was claimed, else nil.
	ArrivedAt *time.Time
}

// Signed reports whether the payment can be submitted. A transfer read from the chain is claimed without its signature.
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

// Decided is an order with its payment, after the chain has decided the payment.
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
		return SearchFrom(*p.ArrivedAt)
	}
	return SearchFrom(p.CreatedAt)
}

// SearchFrom is the time from which the chain is searched for a transfer that was made at earliest or later.
func SearchFrom(earliest time.Time) time.Time { return earliest.Add(-lookback) }

// Receipt is the proof that a payment arrived: the transaction, sent by anyone, in which the asset logged
// AuthorizationUsed(payer, nonce) directly followed by the exact Transfer.
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

// Verdict is the state of an authorization, read at one block.
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

// State is the state of an authorization on the chain.
type State int

// The states.
const (
	// Unknown: the chain's answer is not conclusive; ask again.
	Unknown State = iota
	// Unused: the authorization can still be used.
	Unused
	// Settled: exactly this amount was transferred.
	Settled
	// Void: the authorization can never make the transfer.
	Void
)

// Chain reads the state of authorizations. An error means that the chain did not answer, never that a payment failed.
type Chain interface {
	// Simulate checks whether the authorization would make the transfer now. A *Rejection says why not.
	Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) error
	// Verdict reads the state of an authorization. Transfers are searched from since, shortly before it was claimed.
	Verdict(ctx context.Context, a x402.Authorization, since time.Time) (Verdict, error)
}

// Settler submits claimed payments to the chain.
type Settler interface {
	// Submit stores a transaction for the payment durably, and then sends it. It may be called any number of times, by
	// several processes concurrently, and makes no second transaction while an earlier one can still be included. A nil
	// error does not promise inclusion.
	Submit(ctx context.Context, p Payment) error
}

// Attempt is one transaction of a relayer for a payment. Its bytes are stored before they are first sent, and the same
// bytes are sent again after a crash.
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
	// AttemptReverted: included without making the transfer; its account nonce is used.
	AttemptReverted AttemptStatus = "reverted"
	// AttemptClosed: included and final, by the configured finality.
	AttemptClosed AttemptStatus = "closed"
)

// ClockSkew is the largest difference between the clocks of two processes.
const ClockSkew = time.Minute

// ErrAttemptClosed says that an attempt is no longer open and takes no further variant.
var ErrAttemptClosed = errors.New("the attempt is closed")

// Attempts keeps the relayer's transactions.
type Attempts interface {
	// Prepare returns the open attempt of a payment or makes the next one, exactly one even when several processes call
	// it concurrently. The account nonce is the larger of floor (the chain's own count) and one past the last stored
	// one. sign is called with it inside the transaction, must be pure, and may be called again when the transaction is
	// retried.
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
	// Last is the largest account nonce stored for a relayer, in an attempt of any status. ok is false when there is
	// none.
	Last(ctx context.Context, relayer x402.Address) (nonce uint64, ok bool, err error)
	// Relayers lists the relayers that have open attempts, each once, by address.
	Relayers(ctx context.Context) ([]x402.Address, error)
	// Close ends an open attempt. spent is what its included transaction cost the relayer, in wei; zero when none
	// of ours was included. Closing again changes nothing.
	Close(ctx context.Context, attempt uuid.UUID, status AttemptStatus, spent int64) error
	// Lost is what reverted transactions have cost, for a payment, its payer and in all.
	Lost(ctx context.Context, p Payment, since time.Time) (Losses, error)
}

// Losses are what was spent on transactions that reverted.
type Losses struct {
	// Reverts is how many transactions reverted for the payment's authorization.
	Reverts int
	// Payer and All are what was lost on the payer's payments and on all payments, since a time, in wei.
	Payer, All int64
}
