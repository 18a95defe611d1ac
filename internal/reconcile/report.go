package reconcile

import (
	"cmp"
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
)

// blocks says for each code whether top-ups stay closed while it is found: when what is received, owed or loaded is not known any
// more. What concerns one order, or what a stranger can cause by sending money, does not close them for all.
var blocks = map[Code]bool{
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
	CardBalanceHigh:        true,
}

// Finding is one thing that does not match.
type Finding struct {
	Code Code `json:"code"`
	// Order is the order it concerns, if there is one.
	Order string `json:"orderId,omitempty"`
	// Subject is what differs: a transfer, a payment, a posting, a reference at the issuer, a card.
	Subject string `json:"subject"`
	// Detail says it to a person.
	Detail string `json:"detail"`
	// Blocks says that no top-ups are sold while it is found.
	Blocks bool `json:"blocks"`
}

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
	// SpentUSDCents is what holders have spent, as far as it can be told: what the ledger has on their cards beyond what is there.
	SpentUSDCents money.Cents `json:"spentUsdCents"`
	// Findings are sorted; none means that the books agree.
	Findings []Finding `json:"findings"`
	// Resolved are the transfers of nobody's that operators have resolved.
	Resolved []ResolvedTransfer `json:"resolved"`
}

// ResolvedTransfer is a transfer that would be a finding, had not an operator resolved it.
type ResolvedTransfer struct {
	Subject    string     `json:"subject"`
	Resolution Resolution `json:"resolution"`
	// Detail says it to a person.
	Detail string `json:"detail"`
}

// Checked counts what was compared.
type Checked struct {
	Orders    int `json:"orders"`
	Payments  int `json:"payments"`
	Transfers int `json:"transfers"`
	Postings  int `json:"postings"`
	// Cards and Movements are the issuer's.
	Cards     int `json:"cards"`
	Movements int `json:"movements"`
}

// Balance is the sum of the accounts of one kind, in millionths of a dollar.
type Balance struct {
	Account string     `json:"account"`
	Units   money.USDC `json:"units,string"`
}

// Blocks says that something was found for which no top-ups are sold.
func (r Report) Blocks() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Blocks })
}

func sorted(all []Finding) []Finding {
	slices.SortFunc(all, compareFindings)
	return slices.CompactFunc(all, func(a, b Finding) bool { return compareFindings(a, b) == 0 })
}

func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Subject, b.Subject))
}

// both are the findings of the later reading that the earlier one had too.
func both(earlier, later []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(later), func(f Finding) bool {
		return !slices.ContainsFunc(earlier, func(e Finding) bool { return compareFindings(e, f) == 0 })
	})
}
