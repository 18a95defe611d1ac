package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Head reads the chain beyond what is safe.
type Head interface {
	// Head is the newest block at which a payment counts as made.
	Head(ctx context.Context) (uint64, error)
	// TransfersFrom are those of one sender to an account in the blocks from..to, both included.
	TransfersFrom(ctx context.Context, sender, payTo x402.Address, from, to uint64) ([]Transfer, error)
	// Block is a block's hash and time.
	Block(ctx context.Context, number uint64) (x402.Hash, time.Time, error)
	// Payouts are the transfers that an account has sent in the blocks from..to, both included.
	Payouts(ctx context.Context, sender x402.Address, from, to uint64) ([]Payout, error)
}

// Reader reads the transfers of the blocks that have become safe.
type Reader interface {
	Scan(ctx context.Context) error
}

// Early stores transfers of blocks that may still be reorganised.
type Early interface {
	// Arrive stores a transfer under the authorization that it executed. Storing it again only updates its place.
	Arrive(ctx context.Context, a payment.Arrived) error
}

// Payout is a transfer from an account of ours.
type Payout struct {
	Transfer
	To x402.Address
}

// ProcessWatermark is a process's watermark in the database, by which the process recognises the database.
type ProcessWatermark struct {
	ID uuid.UUID
	// Beat counts how often the process has updated its watermark.
	Beat int64
}

// Watermarks store the watermark of this process. After the first Begin, nothing is claimed in a database without the
// watermark that was last stored, or with an older state of it.
type Watermarks interface {
	// Begin stores a new watermark, which does not allow claims yet.
	Begin(ctx context.Context) (ProcessWatermark, error)
	// Keep checks and advances the watermark, with the last block whose transfers have been read. From then on it
	// allows claims. ErrHistoryLost when the database does not have the watermark as it was stored.
	Keep(ctx context.Context, m ProcessWatermark, head uint64) (ProcessWatermark, error)
	// Revoke revokes what Keep allows.
	Revoke()
}

// Sent is what our records say of money that we have sent.
type Sent interface {
	// Refunds are those of the nonces for which we have signed a refund.
	Refunds(ctx context.Context, nonces []x402.Hash) ([]x402.Hash, error)
	// Concluded are those of the transactions by which an operator has concluded a refund of something else by hand.
	Concluded(ctx context.Context, transactions []x402.Hash) ([]x402.Hash, error)
	// Claimed are the authorizations of some payers that orders have claimed, each with its payer and nonce.
	Claimed(ctx context.Context, payers []x402.Address) ([]x402.Authorization, error)
	// SentBack are the resolutions by which transfers of some senders were sent back, oldest first.
	SentBack(ctx context.Context, senders []x402.Address) ([]SentBack, error)
	// Unclaimed are the unresolved transfers of some senders that no payment has claimed, oldest first.
	Unclaimed(ctx context.Context, senders []x402.Address) ([]Transfer, error)
	// ResolveRefunded resolves unmatched transfers as refunded, unless they are resolved.
	ResolveRefunded(ctx context.Context, back []RefundedTransfer) error
}

// SentBack is a resolution by which a transfer was sent back to its sender.
type SentBack struct {
	To    x402.Address
	Value money.USDC
	// In is the transaction that has sent it back; zero where an operator says that they have.
	In x402.Hash
	At time.Time
}

// RefundedTransfer is a transfer to the payee and the transfer that refunded it.
type RefundedTransfer struct {
	Arrived, Back Transfer
}

// Postings are the ledger postings of the resolution. They include that of the unmatched transfer, which no comparison
// may have posted yet.
func (b RefundedTransfer) Postings() []ledger.Posting {
	t := b.Arrived
	of := t.Transaction.String()
	return []ledger.Posting{
		ledger.Unmatched(of, t.LogIndex, t.Value), ledger.SentBack(of, t.LogIndex, t.Value, b.Back.Value),
	}
}
