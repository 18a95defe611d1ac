package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrUnwitnessed says that too few nodes give the same answer. Asking for a smaller range does not help.
var ErrUnwitnessed = errors.New("too few nodes of the chain show the same")

// Chain reads the token's transfers.
type Chain interface {
	// Safe is the newest final block.
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
	// Nonce is that of the authorization that it executed; zero for a plain transfer.
	Nonce x402.Hash
}

// Arrivals store the transfers of the blocks that have been read.
type Arrivals interface {
	// Scanned says which blocks have been read.
	Scanned(ctx context.Context) (Scan, error)
	// Arrive stores the transfers of the blocks below next, and that these blocks have been read. Storing a transfer
	// again changes nothing, and next never decreases.
	Arrive(ctx context.Context, first, next uint64, found []Transfer) error
}

// Scan says which blocks have been read: those from First up to but not including Next.
type Scan struct {
	First, Next uint64
	// Begun is false until a block has been read. Until then, Oldest is the block of the oldest payment, or zero.
	Begun  bool
	Oldest uint64
}

// Books are our own records. They are read in batches, so that a comparison needs bounded memory.
type Books interface {
	Units
	Snapshots
	// Enter copies a page of the issuer's books.
	Enter(ctx context.Context, lines []card.Line, epoch int64) error
	// Conclude stores the result of comparing some units, in one transaction. Their open findings that the comparison
	// did not find again are closed.
	Conclude(ctx context.Context, c Conclusion) error
}

// Units are what is compared, and how far a comparison is.
type Units interface {
	// Progress reads the progress of comparisons; Advance stores it.
	Progress(ctx context.Context) (Progress, error)
	Advance(ctx context.Context, p Progress) error
	// Page lists units to compare, in the order of their cursors: at most limit of them, after a cursor. next is the
	// cursor of the last one, or empty when there are no more.
	Page(ctx context.Context, l List, since time.Time, after string, limit int) (units []Unit, next string, err error)
	// OrdersOfLines are the orders that may explain some of the issuer's lines.
	OrdersOfLines(ctx context.Context, lines []string) ([]order.ID, error)
}

// Snapshots read the records of some units.
type Snapshots interface {
	// OfOrders reads all records of some orders, and the named lines of the issuer, in one snapshot.
	OfOrders(ctx context.Context, orders []order.ID, lines []string) (Records, error)
	// OfTransfers reads all records of some transfers, named as subjects, and some postings without an order, in one
	// snapshot, without the orders of their payments.
	OfTransfers(ctx context.Context, subjects, postings []string) (Records, error)
	// Open are those of some findings that are stored already, open or resolved.
	Open(ctx context.Context, found []Finding) ([]Finding, error)
	// Sum adds the ledger up by kind of account: the entries numbered after+1 to upto; upto 0 is unbounded.
	Sum(ctx context.Context, after, upto int64) (sums map[string]money.USDC, last int64, err error)
}

// List names a list of units to compare.
type List int

// The lists.
const (
	// OrdersChanged are the orders that changed since a time.
	OrdersChanged List = iota
	// OrdersPosted are the orders with a posting since a time.
	OrdersPosted
	// PostingsChanged are the postings without an order since a time.
	PostingsChanged
	// LinesChanged are the lines of the issuer that changed and were not compared since.
	LinesChanged
	// Standing are the units with a finding that is not closed, except transfers: each resolution, payment and posting
	// of a transfer lists it again elsewhere.
	Standing
	// NewArrivals are the transfers without a finding, after a number.
	NewArrivals
	// AllArrivals, AllOrders and AllPostings are all transfers, all orders with their postings, and all postings
	// without an order.
	AllArrivals
	AllOrders
	AllPostings
)

// Conclusion is the result of comparing some units.
type Conclusion struct {
	Units []Unit
	Found []Finding
	// Postings are missing from the ledger, and are added.
	Postings []ledger.Posting
	// Lines are the issuer's lines that were compared.
	Lines []LineOrder
}

// LineOrder is a line of the issuer and the order that explains it, if there is one.
type LineOrder struct {
	Line  string
	Order order.ID
	// Spent is how much the card's holder has spent.
	Spent money.Cents
}

// Records are a part of our own books, from one snapshot.
type Records struct {
	Scan Scan
	// Unread are the blocks of payments that could not be read.
	Unread   []uint64
	Arrivals []Transfer
	// Resolved are the resolutions of those transfers.
	Resolved []Resolved
	Orders   []order.Sale
	Payments []Payment
	// Goods are each product's records of the orders.
	Goods    []Goods
	Postings []ledger.Posting
	// Balances are the cards' balances in the ledger; Loading is what is being loaded.
	Balances map[uuid.UUID]money.USDC
	Loading  map[uuid.UUID]money.Cents
	// Lines are the issuer's lines, as last read.
	Lines []card.Line
	// Epochs are the last complete passes over the books of each issuer, by its name. A line of an earlier epoch has been
	// removed there.
	Epochs map[string]int64
	// Providers are the issuers whose books are read; nil is all that there are.
	Providers []string
}

// Payment is an authorization claimed for an order. Its place in the chain is set once it is paid.
type Payment struct {
	ID     uuid.UUID
	Order  order.ID
	Status payment.Status
	Payer  x402.Address
	Value  money.USDC
	Nonce  x402.Hash
	// Elsewhere says that it was paid to another payee, whose transfers are not read.
	Elsewhere bool

	Transaction x402.Hash
	LogIndex    uint
	Block       uint64
}

// Goods are one product's records of some orders.
type Goods interface {
	// Differs says which record of an order does not match its price; empty when all match.
	Differs(s order.Sale) string
	// Postings are the expected ledger postings, without those of the payments.
	Postings(sales []order.Sale) []ledger.Posting
	// Calls are the calls to the product's provider that were made or may be in progress, each with its own reference.
	Calls(sales []order.Sale) []order.Call
}

// Reports store the last report, and list the comparisons.
type Reports interface {
	// Sums counts the open findings by code, and lists the newest open and resolved findings, at most list of each.
	Sums(ctx context.Context, list int) (sums []Sum, open, resolved []Finding, spent money.Cents, err error)
	// Keep replaces the last report, and lists its comparison, in one transaction.
	Keep(ctx context.Context, r Report) error
	// Fail lists a comparison of which there is no report.
	Fail(ctx context.Context, f Finished) error
	// Finished lists comparisons, newest first, and audits it.
	Finished(ctx context.Context, q FinishedQuery, act order.OperatorContext) ([]Finished, error)
	// Last is the last report; ok is false before the first one.
	Last(ctx context.Context) (r Report, ok bool, err error)
	// Audit records that an operator ran a comparison or read its report.
	Audit(ctx context.Context, operator, action string) error
}
