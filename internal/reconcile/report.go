package reconcile

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// Code names a kind of difference. Codes are stable.
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
	// ProviderSilent: the books of an issuer could not be read.
	ProviderSilent Code = "provider_silent"

	// The chain and what we have read of it.
	BlockUnread Code = "block_unread"
)

// blocking says for each code whether it stops the sale of top-ups, because received, owed or loaded amounts are no
// longer known. It stops sales to the wallet that it concerns, or to all when it concerns no wallet. A difference that
// outsiders can cause, by a transfer or a merchant's credit, never blocks.
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
	ProviderSilent:         false,
	BlockUnread:            false,
}

// Codes lists every code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(blocking)) }

// blocks reports whether a finding stops the sale of top-ups, to its owner or, without an owner, to everybody. A record
// of the issuer that belongs to no card of ours concerns no buyer.
func (f Finding) blocks() bool {
	return blocking[f.Code] && (f.Owner != "" || f.Code != ProviderUnknown)
}

// Finding is one difference.
type Finding struct {
	// ID names it; zero before it is stored.
	ID   int64 `json:"id,string,omitempty"`
	Code Code  `json:"code"`
	// Order is the order it concerns, if there is one.
	Order string `json:"orderId,omitempty"`
	// Subject is what differs: a transfer, a payment, a posting, an issuer's reference, a card, a block.
	Subject string `json:"subject"`
	// Detail describes it for a person.
	Detail string `json:"detail"`
	// Blocks says that no top-ups are sold while it is open: to its owner, or to anybody when it has none.
	Blocks bool `json:"blocks"`
	// Owner is the wallet that it concerns, in lower case, and Product the kind of its order, if there are any.
	Owner   string `json:"owner,omitempty"`
	Product string `json:"product,omitempty"`
	// Unit is the unit that was compared.
	Unit Unit `json:"-"`
	// Provider is the issuer whose books differ, where they are an issuer's.
	Provider string `json:"-"`
	// Evidence identifies the difference, and Size is its size, if that may change. A resolved finding stays resolved
	// while the evidence is the same and the size does not grow.
	Evidence string `json:"-"`
	Size     int64  `json:"-"`

	FirstSeen time.Time `json:"firstSeenAt,omitzero"`
	LastSeen  time.Time `json:"lastSeenAt,omitzero"`
	// Resolved is nil while it is open.
	Resolved *Resolved `json:"-"`
}

// Version is another number whenever there is something new about the finding, or it is resolved. It is never zero.
func (f Finding) Version() int {
	text := fmt.Sprintf("%s\n%d\n%t", f.Evidence, f.Size, f.Resolved != nil)
	return int(max(crc32.ChecksumIEEE([]byte(text))>>1, 1))
}

// Sum counts the open findings of one code.
type Sum struct {
	Code Code `json:"code"`
	Open int  `json:"open"`
	// Blocking are those that stop the sale of top-ups.
	Blocking int `json:"blocking"`
}

// listed is how many findings a report lists; all are counted.
const listed = 100

// Report is the report of one comparison.
type Report struct {
	// At is when the comparison ended.
	At time.Time `json:"at"`
	// FirstBlock and LastBlock are the first and last block whose transfers have been read so far.
	FirstBlock uint64  `json:"firstBlock"`
	LastBlock  uint64  `json:"lastBlock"`
	Checked    Checked `json:"checked"`
	// Balances are the sums of the ledger by kind of account.
	Balances []Balance `json:"balances"`
	// SpentUSDCents is an estimate of the holders' spending: the cards' balances in the ledger above the issuer's.
	SpentUSDCents money.Cents `json:"spentUsdCents"`
	// Findings are the open ones, at most 100: blocking ones first, those that anybody can cause by a transfer last,
	// and newer ones first within a group. None means that the books agree.
	Findings []Finding `json:"findings"`
	// Resolved are the newest differences that operators have resolved, at most 100.
	Resolved []ResolvedDifference `json:"resolved"`
	// Sums count everything that is open.
	Sums []Sum `json:"sums,omitempty"`
	// CompleteAt: all records of that time have been compared since. Zero until the first full pass is complete.
	CompleteAt time.Time `json:"completeAt,omitzero"`
	// Began is when the comparison began, and ReadSince when the chain began to be read for it.
	Began     time.Time `json:"-"`
	ReadSince time.Time `json:"-"`
}

// ResolvedDifference is a finding that an operator has resolved.
type ResolvedDifference struct {
	Code       Code       `json:"code"`
	Subject    string     `json:"subject"`
	Resolution Resolution `json:"resolution"`
	// Detail describes it for a person.
	Detail string `json:"detail"`
}

// Checked counts what one comparison compared.
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

// Blocks reports whether a finding stops the sale of some or all top-ups.
func (r Report) Blocks() bool {
	return slices.ContainsFunc(r.Sums, func(s Sum) bool { return s.Blocking > 0 })
}

// Silent are the issuers whose books could not be read. While there are any, the comparison is incomplete.
func (r Report) Silent() (issuers []string) {
	for _, f := range r.Findings {
		if f.Code == ProviderSilent {
			issuers = append(issuers, f.Subject)
		}
	}
	if n := r.openOf(ProviderSilent); n > len(issuers) { // the list is full of others
		issuers = append(issuers, fmt.Sprintf("%d more", n-len(issuers)))
	}
	return issuers
}

func (r Report) openOf(code Code) int {
	for _, s := range r.Sums {
		if s.Code == code {
			return s.Open
		}
	}
	return 0
}

// Open is the number of open findings.
func (r Report) Open() (n int) {
	for _, s := range r.Sums {
		n += s.Open
	}
	return n
}

// key identifies a finding.
type key struct {
	unit    Unit
	code    Code
	subject string
}

func (f Finding) key() key { return key{f.Unit, f.Code, f.Subject} }

// seen indexes findings by key.
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
