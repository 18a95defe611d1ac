package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Head reads the chain beyond what is safe.
type Head interface {
	// Head is the newest block at which a payment counts as made.
	Head(ctx context.Context) (uint64, error)
	// TransfersFrom are those of one sender to an account in the blocks from..to, both included.
	TransfersFrom(ctx context.Context, sender, payTo x402.Address, from, to uint64) ([]Transfer, error)
	// Block tells a block's hash and when it was made.
	Block(ctx context.Context, number uint64) (x402.Hash, time.Time, error)
	// Payouts are the transfers that an account has sent in the blocks from..to, both included.
	Payouts(ctx context.Context, sender x402.Address, from, to uint64) ([]Payout, error)
}

// Reader reads the transfers of the blocks that have become safe.
type Reader interface {
	Scan(ctx context.Context) error
}

// Early keeps what a block says that may still be undone.
type Early interface {
	// Arrive keeps a transfer under the authorization that it carried out. Keeping it again changes only where it stands.
	Arrive(ctx context.Context, a payment.Arrived) error
}

// Payout is a transfer from an account of ours.
type Payout struct {
	Transfer
	To x402.Address
}

// Mark is what a process leaves in the database so that it knows it again.
type Mark struct {
	ID uuid.UUID
	// Beat counts how often the process has found its mark.
	Beat int64
}

// Marks keep the mark of this process. From the first Begin on, nothing is claimed in a database that lacks the
// mark that was last kept, or has an older state of it.
type Marks interface {
	// Begin leaves a new mark, with which nothing may be claimed yet.
	Begin(ctx context.Context) (Mark, error)
	// Keep finds the mark and makes it newer, with the block up to which transfers have been read. From then on the
	// mark allows claims. ErrHistoryLost when the database does not have the mark as it was left.
	Keep(ctx context.Context, m Mark, head uint64) (Mark, error)
	// Prune ends what Keep allows.
	Prune()
	// Refunds are those of the nonces with which a refund of ours was signed.
	Refunds(ctx context.Context, nonces []x402.Hash) ([]x402.Hash, error)
	// SentBack resolves transfers that belong to no order as sent back, each unless that is done.
	SentBack(ctx context.Context, back []SentBack) error
	// Unclaimed are the transfers of some senders that belong to no payment and are not resolved, oldest first.
	Unclaimed(ctx context.Context, senders []x402.Address) ([]Transfer, error)
}

// SentBack is a transfer to the payee whose money went back, as the chain shows.
type SentBack struct {
	Arrived, Back Transfer
}

// Postings are what the ledger gets when the transfer is resolved: no comparison may have found it to be nobody's yet.
func (b SentBack) Postings() []ledger.Posting {
	t := b.Arrived
	unmatched := ledger.Unmatched(t.Transaction.String(), t.LogIndex, t.Value)
	return append([]ledger.Posting{unmatched}, RefundedByHand.Postings(t)...)
}
