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

// ErrUnwitnessed says that fewer nodes of the chain show the same than have to. A question for less does not help.
var ErrUnwitnessed = errors.New("too few nodes of the chain show the same")

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

// Arrivals keep the transfers of the blocks that have been read.
type Arrivals interface {
	// Scanned says how far that is.
	Scanned(ctx context.Context) (Scan, error)
	// Arrive stores the transfers of the blocks up to next, without it, as read. Storing one again changes nothing, and
	// next never goes back.
	Arrive(ctx context.Context, first, next uint64, found []Transfer) error
}

// Scan says which blocks have been read: those from First on, up to Next without it.
type Scan struct {
	First, Next uint64
	// Begun is false before the first block was read. Oldest is then the block of the oldest payment, or zero.
	Begun  bool
	Oldest uint64
}

// Books are our own, read in parts: a comparison takes the same memory however much was ever sold.
type Books interface {
	// Progress says how far comparisons have come; Advance records it.
	Progress(ctx context.Context) (Progress, error)
	Advance(ctx context.Context, p Progress) error
	// Page lists units that a comparison has to look at, in the order of their cursors: limit of them at most, from after
	// a cursor on. next is the cursor of the last, empty when there are no more.
	Page(ctx context.Context, l List, since time.Time, after string, limit int) (units []Unit, next string, err error)
	// OrdersOfLines are the orders that may explain lines of the issuer.
	OrdersOfLines(ctx context.Context, lines []string) ([]order.ID, error)
	// OfOrders reads all that belongs to some orders, and the lines of the issuer that are named, at one moment.
	OfOrders(ctx context.Context, orders []order.ID, lines []string) (Records, error)
	// OfTransfers reads all that belongs to some transfers, named as subjects, and some postings without an order, at one
	// moment. The orders of the payments among them are not in it.
	OfTransfers(ctx context.Context, subjects, postings []string) (Records, error)
	// Enter copies a page of the issuer's books.
	Enter(ctx context.Context, lines []card.Line, epoch int64) error
	// Open are those of some findings that are open already, or resolved.
	Open(ctx context.Context, found []Finding) ([]Finding, error)
	// Conclude stores what a comparison of some units came to, all or nothing: findings of them that it did not find are
	// closed.
	Conclude(ctx context.Context, c Conclusion) error
	// Sum adds the ledger up by kind of account: the entries after one number up to another, without bound when that is 0.
	Sum(ctx context.Context, after, upto int64) (sums map[string]money.USDC, last int64, err error)
}

// List names units that a comparison has to look at.
type List int

// The lists.
const (
	// OrdersChanged are the orders that changed since a time.
	OrdersChanged List = iota
	// OrdersPosted are the orders of what was posted since a time.
	OrdersPosted
	// PostingsChanged are the postings without an order of the same time.
	PostingsChanged
	// LinesChanged are the lines of the issuer that changed and were not compared since.
	LinesChanged
	// Standing are the units with a finding that is not closed, without those of transfers: each resolution, payment and
	// posting of a transfer brings it here another way.
	Standing
	// NewArrivals are the transfers that no finding is about, from one number on.
	NewArrivals
	// AllArrivals, AllOrders and AllPostings are everything: transfers, orders and what is posted for them, and postings
	// without an order.
	AllArrivals
	AllOrders
	AllPostings
)

// Conclusion is what the comparison of some units came to.
type Conclusion struct {
	Units []Unit
	Found []Finding
	// Postings are missing, and are added.
	Postings []ledger.Posting
	// Lines are those of the issuer that were looked at.
	Lines []LineOrder
}

// LineOrder is a line of the issuer with the order that explains it, if one does.
type LineOrder struct {
	Line  string
	Order order.ID
	// Spent is what the holder of a card has spent.
	Spent money.Cents
}

// Records are a part of our own books at one moment.
type Records struct {
	Scan Scan
	// Unread are the blocks of the payments that could not be read.
	Unread   []uint64
	Arrivals []Transfer
	// Resolved are those among them that operators have resolved.
	Resolved []Resolved
	Orders   []order.Sale
	Payments []Payment
	// Goods are what each product has of the orders.
	Goods    []Goods
	Postings []ledger.Posting
	// Balances are what the ledger has on the cards; Loading is what is being put on them.
	Balances map[uuid.UUID]money.USDC
	Loading  map[uuid.UUID]money.Cents
	// Lines are the issuer's, as they were last read.
	Lines []card.Line
	// Epoch is the last whole reading of the issuer's books. A line that it did not show is gone.
	Epoch int64
}

// Payment is an authorization claimed for an order. Its place on the chain is set once it is paid.
type Payment struct {
	ID     uuid.UUID
	Order  order.ID
	Status payment.Status
	Payer  x402.Address
	Value  money.USDC
	Nonce  x402.Hash
	// Elsewhere says that it was made to another payee, whose transfers are not read.
	Elsewhere bool

	Transaction x402.Hash
	LogIndex    uint
	Block       uint64
}

// Goods are what the records of one product say of some orders.
type Goods interface {
	// Differs says what of an order does not agree with its price; empty when all does.
	Differs(s order.Sale) string
	// Postings are what the ledger has to have besides the payments.
	Postings(sales []order.Sale) []ledger.Posting
	// Calls are what the product's provider was asked for, or may be at any moment, each under a reference of its own.
	Calls(sales []order.Sale) []order.Call
}

// Reports keep the last report.
type Reports interface {
	// Sums counts what is open by code, and lists the newest open and resolved findings, so many of each.
	Sums(ctx context.Context, list int) (sums []Sum, open, resolved []Finding, spent money.Cents, err error)
	// Keep replaces the last report.
	Keep(ctx context.Context, r Report) error
	// Last is the last report; ok is false before there was one.
	Last(ctx context.Context) (r Report, ok bool, err error)
	// Audit records that an operator ran a comparison or read its report.
	Audit(ctx context.Context, operator, action string) error
}
