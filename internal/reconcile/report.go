package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// Code names one way in which the books can differ. Codes are stable.
type Code string

// The codes, by the books that differ.
const (
	// The chain and our payments.
	TransferUnmatched      Code = "transfer_unmatched"
	TransferUnrecorded     Code = "transfer_unrecorded"
	TransferOfDeadPayment  Code = "transfer_of_dead_payment"
	PaymentWithoutTransfer Code = "payment_without_transfer"
	PaymentDiffers         Code = "payment_differs"

	// Our payments and orders.
	OrderAmount         Code = "order_amount"
	OrderWithoutPayment Code = "order_without_payment"

	// Our records and the ledger.
	LedgerUnbalanced  Code = "ledger_unbalanced"
	PostingMissing    Code = "posting_missing"
	PostingDiffers    Code = "posting_differs"
	PostingUnexpected Code = "posting_unexpected"

	// The issuer and our records.
	ProviderUnknown       Code = "provider_unknown"
	ProviderDuplicate     Code = "provider_duplicate"
	ProviderDiffers       Code = "provider_differs"
	ProviderRecordMissing Code = "provider_record_missing"
	ProviderUnrecorded    Code = "provider_unrecorded"
	ProviderReversed      Code = "provider_reversed"
	CardBalanceHigh       Code = "card_balance_high"

	// The chain and what we have read of it.
	BlockUnread Code = "block_unread"
)

// blocking says for each code whether it keeps top-ups from being sold: when what is received, owed or loaded is not
// known any more. It does so for the wallet that it concerns; only what concerns no wallet does so for all. What a
// stranger can cause, by sending money or by a merchant's credit, is never of that sort.
var blocking = map[Code]bool{
	TransferUnmatched:      false,
	TransferUnrecorded:     false,
	TransferOfDeadPayment:  true,
	PaymentWithoutTransfer: true,
	PaymentDiffers:         true,
	OrderAmount:            true,
	OrderWithoutPayment:    true,
	LedgerUnbalanced:       true,
	PostingMissing:         true,
	PostingDiffers:         true,
	PostingUnexpected:      true,
	ProviderUnknown:        true,
	ProviderDuplicate:      true,
	ProviderDiffers:        true,
	ProviderRecordMissing:  true,
	ProviderUnrecorded:     false,
	ProviderReversed:       false,
	CardBalanceHigh:        false,
	BlockUnread:            false,
}

// Codes lists every code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(blocking)) }

// blocks says whether a finding keeps top-ups from being sold, to its owner or, when it has none, to everybody. What
// the issuer has beyond our books on no card of ours concerns no buyer.
func (f Finding) blocks() bool {
	return blocking[f.Code] && (f.Owner != "" || f.Code != ProviderUnknown)
}

// Finding is one thing that does not match.
type Finding struct {
	// ID names it; zero before it is stored.
	ID   int64 `json:"id,string,omitempty"`
	Code Code  `json:"code"`
	// Order is the order it concerns, if there is one.
	Order string `json:"orderId,omitempty"`
	// Subject is what differs: a transfer, a payment, a posting, a reference at the issuer, a card, a block.
	Subject string `json:"subject"`
	// Detail says it to a person.
	Detail string `json:"detail"`
	// Blocks says that no top-ups are sold while it is open: to its owner, or to nobody when it has none.
	Blocks bool `json:"blocks"`
	// Owner is the wallet that it concerns, lower-case, and Product the kind of its order, if there are such.
	Owner   string `json:"owner,omitempty"`
	Product string `json:"product,omitempty"`
	// Unit is what was compared when it was found.
	Unit Unit `json:"-"`
	// Evidence is what it rests on, and Size how large the difference is, where that may change without being news. What
	// an operator has resolved stays so while the evidence is the same and the size does not grow.
	Evidence string `json:"-"`
	Size     int64  `json:"-"`

	FirstSeen time.Time `json:"firstSeenAt,omitzero"`
	LastSeen  time.Time `json:"lastSeenAt,omitzero"`
	// Resolved is nil while it is open.
	Resolved *Resolved `json:"-"`
}

// Sum counts the open findings of one code.
type Sum struct {
	Code Code `json:"code"`
	Open int  `json:"open"`
	// Blocking are those that keep top-ups from being sold.
	Blocking int `json:"blocking"`
}

// listed is how many findings a report lists; all are counted.
const listed = 100

// Report is what one comparison of the books found.
type Report struct {
	// At is when the comparison ended.
	At time.Time `json:"at"`
	// FirstBlock and LastBlock are the first and last block whose transfers have been read so far.
	FirstBlock uint64  `json:"firstBlock"`
	LastBlock  uint64  `json:"lastBlock"`
	Checked    Checked `json:"checked"`
	// Balances are the ledger's, summed by the account's kind.
	Balances []Balance `json:"balances"`
	// SpentUSDCents is what holders have spent, as far as it can be told: what the ledger has on their cards beyond what
	// is there.
	SpentUSDCents money.Cents `json:"spentUsdCents"`
	// Findings are those that are open, at most 100: first what blocks, last what anybody can add to by sending money, and
	// of the same sort the newest. None means that the books agree.
	Findings []Finding `json:"findings"`
	// Resolved are the newest differences that operators have resolved, at most 100.
	Resolved []ResolvedDifference `json:"resolved"`
	// Sums count everything that is open.
	Sums []Sum `json:"sums,omitempty"`
	// CompleteAt: all that there was then has been compared since. Zero before the first round through everything is
	// complete.
	CompleteAt time.Time `json:"completeAt,omitzero"`
	// Began is when the comparison did.
	Began time.Time `json:"-"`
}

// ResolvedDifference is what would be a finding, had not an operator resolved it.
type ResolvedDifference struct {
	Code       Code       `json:"code"`
	Subject    string     `json:"subject"`
	Resolution Resolution `json:"resolution"`
	// Detail says it to a person.
	Detail string `json:"detail"`
}

// Checked counts what one comparison looked at.
type Checked struct {
	Orders    int `json:"orders"`
	Payments  int `json:"payments"`
	Transfers int `json:"transfers"`
	Postings  int `json:"postings"`
	// Cards and Movements are the issuer's.
	Cards     int `json:"cards"`
	Movements int `json:"movements"`
}

func (c *Checked) plus(o Checked) {
	c.Orders += o.Orders
	c.Payments += o.Payments
	c.Transfers += o.Transfers
	c.Postings += o.Postings
	c.Cards += o.Cards
	c.Movements += o.Movements
}

// Balance is the sum of the accounts of one kind, in millionths of a dollar.
type Balance struct {
	Account string     `json:"account"`
	Units   money.USDC `json:"units,string"`
}

// Blocks says that something was found for which some or all top-ups are not sold.
func (r Report) Blocks() bool {
	return slices.ContainsFunc(r.Sums, func(s Sum) bool { return s.Blocking > 0 })
}

// Open is how many findings there are.
func (r Report) Open() (n int) {
	for _, s := range r.Sums {
		n += s.Open
	}
	return n
}

// key is what makes two findings the same.
type key struct {
	unit    Unit
	code    Code
	subject string
}

func (f Finding) key() key { return key{f.Unit, f.Code, f.Subject} }

// seen indexes findings by what makes them the same.
func seen(all ...[]Finding) map[key]bool {
	keys := map[key]bool{}
	for _, list := range all {
		for _, f := range list {
			keys[f.key()] = true
		}
	}
	return keys
}

func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Subject, b.Subject))
}
