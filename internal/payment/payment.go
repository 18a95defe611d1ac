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
func (p Payment) Signed() bool { return p.Signature != "" }

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
	// Missed says of an Unused one that its settler has an ErrMissed for it. Chain leaves it out.
	Missed bool
	// Held says why an Unused one was not submitted, or not taken. Chain leaves it out.
	Held string
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
	// Funds is what a payer holds at the latest block. Where nodes differ, it is the most that one of them shows.
	Funds(ctx context.Context, payer x402.Address) (money.USDC, error)
}

// ErrMissed is wrapped by the error of a settler for a payment that a block included without moving it, or for which
// the settler sends nothing more. It can still be settled, by its payer or anybody else.
var ErrMissed = errors.New("the payment was not moved when it could have been")

// Settler submits claimed payments to the chain.
type Settler interface {
	// Submit stores a transaction for the payment durably, and then sends it. It may be called any number of times, by
	// several processes concurrently, and makes no second transaction while an earlier one can still be included. A nil
	// error does not promise inclusion, nor that the payment does not wait for its turn.
	Submit(ctx context.Context, p Payment) error
}

// Witness is a Settler that learns what became of what it submitted.
type Witness interface {
	// Moved says that the chain shows the transfer of a payment, whoever made it.
	Moved(p Payment, r Receipt)
}

// Transaction is one transaction of a relayer. It submits one payment, or a batch of them. Its bytes are stored before
// they are first sent, and the same bytes are sent again after a crash.
type Transaction struct {
	ID uuid.UUID
	// Payments are the payments and refunds that it submits, its members, in the order of its call.
	Payments []uuid.UUID
	Relayer  x402.Address
	// Nonce is the relayer's account nonce.
	Nonce uint64
	// Variants are its signed forms, oldest first: a fee bump adds one. All have the same members.
	Variants  []Variant
	Status    TransactionStatus
	CreatedAt time.Time
}

// Variant is a signed form of a transaction, and its hash.
type Variant struct {
	Hash     x402.Hash
	Raw      []byte
	SignedAt time.Time
}

// TransactionStatus is how far a transaction has come.
type TransactionStatus string

// The statuses of a transaction.
const (
	// TransactionOpen: signed and stored, perhaps sent, not known to be final.
	TransactionOpen TransactionStatus = "open"
	// TransactionReverted: included without making a transfer; its account nonce is used.
	TransactionReverted TransactionStatus = "reverted"
	// TransactionClosed: included and final, by the configured finality.
	TransactionClosed TransactionStatus = "closed"
)

// ClockSkew is the largest difference between the clocks of two processes.
const ClockSkew = time.Minute

// ErrTransactionClosed says that a transaction is no longer open and takes no further variant.
var ErrTransactionClosed = errors.New("the transaction is closed")

// ErrNoRoom says that as many transactions of a relayer are waiting for blocks as may be.
var ErrNoRoom = errors.New("too many transactions of the relayer wait for blocks")

// ErrNotStored says that the database does not have a payment, or has lost it.
var ErrNotStored = errors.New("the payment is not stored")

// Window are the account nonces that a relayer may use now: Size of them, from the chain's own count on.
type Window struct{ First, Size uint64 }

// Has reports whether a nonce is in the window or used already.
func (w Window) Has(nonce uint64) bool { return nonce < w.First+w.Size }

// SignBatch signs the transaction of an account nonce that submits payments in the order given.
type SignBatch func(nonce uint64, payments []uuid.UUID) (Variant, error)

// Transactions keeps the relayer's transactions.
type Transactions interface {
	// Prepare makes one transaction for those of the payments that no open transaction has, exactly one even when several
	// processes call it concurrently. It returns the open transactions of all of them, the one that it made last. The
	// account nonce is the larger of the window's first and one past the last stored one; the error is ErrNoRoom, and
	// nothing is made, when that is beyond the window; it may be ErrNotStored for all when one is not. sign is called with
	// it inside the database transaction, must be pure, and may be called again when that is retried.
	Prepare(ctx context.Context, payments []uuid.UUID, relayer x402.Address, w Window, sign SignBatch) (
		[]Transaction, error)
	// Replace stores another variant for an open transaction's nonce, before it is sent. The error is
	// ErrTransactionClosed when the transaction is not open.
	Replace(ctx context.Context, transaction uuid.UUID, v Variant) error
	// Open lists a relayer's open transactions from an account nonce on, in the order of their nonces.
	Open(ctx context.Context, relayer x402.Address, from uint64) ([]Transaction, error)
	// ByPayment finds the open transaction of a payment, whichever relayer made it. ok is false when there
	// is none.
	ByPayment(ctx context.Context, payment uuid.UUID) (t Transaction, ok bool, err error)
	// Last is the largest account nonce stored for a relayer, in a transaction of any status. ok is false when there is
	// none.
	Last(ctx context.Context, relayer x402.Address) (nonce uint64, ok bool, err error)
	// Relayers lists the relayers that have open transactions, each once, by address.
	Relayers(ctx context.Context) ([]x402.Address, error)
	// Close ends an open transaction. spent is what it cost the relayer, in wei; zero when none of its variants was
	// included. unmoved are the members that a closed transaction has not moved; a reverted one has moved none. They
	// may have another transaction then. Closing again changes nothing.
	Close(ctx context.Context, transaction uuid.UUID, status TransactionStatus, spent int64, unmoved []uuid.UUID) error
	// Lost is what members that were not moved have cost, for a payment, its payer and in all.
	Lost(ctx context.Context, p Payment, since time.Time) (Losses, error)
}

// Losses are what was spent on members that were not moved: each has its share of its transaction's cost.
type Losses struct {
	// Reverts is how many transactions did not move the payment's authorization.
	Reverts int
	// Payer and All are what was lost on the payer's payments and on all payments, since a time, in wei. Payer leaves out
	// payments that were paid: somebody has sent their authorization first, which nobody can keep them from.
	Payer, All int64
}
