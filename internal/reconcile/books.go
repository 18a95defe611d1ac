package reconcile

import (
	"context"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Chain is the token's own book.
type Chain interface {
	// Safe is the newest block that nothing can undo.
	Safe(ctx context.Context) (uint64, error)
	// Transfers are those to an account in the blocks from..to, both included.
	Transfers(ctx context.Context, payTo x402.Address, from, to uint64) ([]Transfer, error)
}

// Transfer is one movement of USDC to the payee. (Transaction, LogIndex) is unique.
type Transfer struct {
	Transaction x402.Hash
	LogIndex    uint
	Block       uint64
	From        x402.Address
	Value       money.USDC
	// Nonce is that of the authorization it carried out; zero for a plain transfer.
	Nonce x402.Hash
}

// Issuer is the issuer's own book.
type Issuer interface {
	// Statement is everything it opened and moved for us. It may be read while things happen.
	Statement(ctx context.Context) (Statement, error)
}

// Statement is what an issuer carried out, or refused to.
type Statement struct {
	Accounts  []StatedAccount
	Movements []card.Moved
}

// StatedAccount is a card and what is on it.
type StatedAccount struct {
	card.Account
	Balance money.Cents
}

// Arrivals keep the transfers of the blocks that have been read.
type Arrivals interface {
	// Scanned says how far that is.
	Scanned(ctx context.Context) (Scan, error)
	// Arrive stores the transfers of the blocks up to next, without it, as read. Storing one again changes nothing, and next
	// never goes back.
	Arrive(ctx context.Context, first, next uint64, found []Transfer) error
}

// Scan says which blocks have been read: those from First on, up to Next without it.
type Scan struct {
	First, Next uint64
	// Begun is false before the first block was read. Oldest is then the block of the oldest payment, or zero.
	Begun  bool
	Oldest uint64
}

// Books are our own.
type Books interface {
	// Records reads all of them at one moment.
	Records(ctx context.Context) (Records, error)
	// Post adds what is not posted yet.
	Post(ctx context.Context, postings []ledger.Posting) error
}

// Records are our own books at one moment.
type Records struct {
	Scan     Scan
	Arrivals []Transfer
	// Resolved are those among them that operators have resolved.
	Resolved []Resolved
	Orders   []Order
	// Payments are those to the payee.
	Payments []Payment
	Cards    []card.Card
	// Esims are those that were made.
	Esims    []Esim
	Fees     []Fee
	Postings []ledger.Posting
}

// Order is what was sold.
type Order struct {
	ID     order.ID
	Kind   order.Kind
	Status order.Status
	Price  money.Cents
	// Delivery is which attempt at the delivery it is at; the issuer refused those before.
	Delivery int
	// ByHand says that an operator delivered it past the issuer's references.
	ByHand bool
	// Topup is set for top-ups.
	Topup card.Topup
	// Name is what its references at the issuer are made of; empty for its id.
	Name string
}

// open says that its delivery may be under way.
func (o Order) open() bool {
	return o.Status == order.Settled || o.Status == order.Provisioning
}

// perhaps says that the issuer may have carried it out, or not, without either being wrong.
func (o Order) perhaps() bool { return o.open() || o.ByHand }

// Payment is an authorization claimed for an order. Its place on the chain is set once it is paid.
type Payment struct {
	ID     uuid.UUID
	Order  order.ID
	Status payment.Status
	Payer  x402.Address
	Value  money.USDC
	Nonce  x402.Hash

	Transaction x402.Hash
	LogIndex    uint
	Block       uint64
}

// Esim is one that its supplier made. Cost is what the supplier charged; zero when that is not known.
type Esim struct {
	Order order.ID
	Cost  money.USDC
}

// Fee is the job that withdraws an issue fee.
type Fee struct {
	Status job.Status
	Args   card.FeeArgs
}

// Reports keep the last report.
type Reports interface {
	// Keep replaces the last report.
	Keep(ctx context.Context, r Report) error
	// Last is the last report; ok is false before there was one.
	Last(ctx context.Context) (r Report, ok bool, err error)
	// Audit records that an operator ran a comparison or read its report.
	Audit(ctx context.Context, operator, action string) error
}
