// Package ledger is every movement of value as balanced entries.
//
// An entry adds to an account or takes from it; a posting is the entries of one thing that happened, and they sum to
// zero. What the service has is positive, what it owes is negative:
//
//	has    treasury:usdc         USDC received and not sent back
//	       issuer:float          what was taken from the issuer's float, negative: the treasury replaces it by hand
//	       supplier:float        the same at the eSIM supplier
//	       card:<card>           what should be on a card, before its holder spends
//	       receivable:<card>     an issue fee that its holder spent before it could be withdrawn
//	owes   customer:<order>      paid for and not delivered; zero once the order is delivered or refunded
//	       holder:<card>         a holder's claim to what is on the card
//	       unmatched             USDC that arrived for no order
//	earned revenue:issue_fee     revenue:load_fee     revenue:esim     revenue:donation
//	spent  cost:esim             what the supplier charged for the eSIMs it made
//	       cost:issue_fee        issue fees that were written off
//
// A card for 25.00 and a top-up of 25.00, in dollars:
//
//	                 treasury  float    card    customer  holder   revenue
//	settled           +25.00                     -25.00
//	loaded                     -25.00  +25.00    +25.00   -25.00
//	fee withdrawn              +10.00  -10.00             +10.00   -10.00
//	                 ----------------------------------------------------
//	                  +25.00   -15.00  +15.00      0      -15.00   -10.00
//
// Where the issuer limits spending, a card opens with what remains, and the fee never is on it:
//
//	settled           +25.00                     -25.00
//	loaded                     -15.00  +15.00    +15.00   -15.00
//	fee kept                                     +10.00            -10.00
//
// Where it does not, the holder may have spent the fee before it is withdrawn:
//
//	fee owed          +10.00 in receivable:<card>                  -10.00
//	fee collected              +10.00  -10.00             +10.00 and -10.00 in receivable:<card>
//	fee written off   +10.00 in cost:issue_fee, -10.00 in receivable:<card>
//
// A top-up:
//
//	settled           +25.00                     -25.00
//	loaded                     -24.50  +24.50    +24.50   -24.50
//	load fee                                      +0.50             -0.50
//
// The close of a card with 6.50 left on it, whose holder gets them back:
//
//	                 treasury  float    card    customer  holder
//	remainder                   +6.50   -6.50     -6.50   +6.50
//	returned           -6.50                      +6.50
//
// And what belongs to no card:
//
//	refunded          -25.00                     +25.00
//	unmatched          +x      and -x in unmatched
//	matched            -x and +x in unmatched, once an order has claimed it
//	resolved                       +x in unmatched, and -x where it went: treasury:usdc or revenue:donation
//
// An eSIM for 5.00 that costs 4.00:
//
//	                 treasury  supplier:float  cost:esim  customer  revenue:esim
//	settled             +5.00                                -5.00
//	supplied                            -4.00      +4.00
//	sold                                                     +5.00         -5.00
//
// The supplier takes it back unused, credits 4.00, and its buyer gets them:
//
//	cancelled                           +4.00      -4.00     -4.00         +4.00
//	returned            -4.00                                +4.00
package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// Account names one side of a movement: a kind, and after a colon what it is of.
type Account string

// The accounts that exist once.
const (
	Treasury        Account = "treasury:usdc"
	Float           Account = "issuer:float"
	IssueFeeRevenue Account = "revenue:issue_fee"
	LoadFeeRevenue  Account = "revenue:load_fee"
	SupplierFloat   Account = "supplier:float"
	EsimRevenue     Account = "revenue:esim"
	EsimCost        Account = "cost:esim"
	UnmatchedFunds  Account = "unmatched"
	Donations       Account = "revenue:donation"
	IssueFeeCost    Account = "cost:issue_fee"
)

// Customer is what is owed to the payer of an order.
func Customer(order string) Account { return Account("customer:" + order) }

// Card is what should be on a card, spending aside.
func Card(card string) Account { return Account("card:" + card) }

// Holder is the claim of a card's holder to what is on it.
func Holder(card string) Account { return Account("holder:" + card) }

// Receivable is the issue fee of a card that its holder owes.
func Receivable(card string) Account { return Account("receivable:" + card) }

// Kind is what a posting records.
type Kind string

// The kinds.
const (
	KindSettled      Kind = "settled"
	KindLoaded       Kind = "loaded"
	KindLoadFee      Kind = "load_fee"
	KindFeeWithdrawn Kind = "fee_withdrawn"
	KindFeeKept      Kind = "fee_kept"
	KindFeeOwed      Kind = "fee_owed"
	KindFeeCollected Kind = "fee_collected"
	KindFeeWritten   Kind = "fee_written_off"
	KindRemainder    Kind = "remainder_withdrawn"
	KindReturned     Kind = "remainder_returned"
	KindSold         Kind = "sold"
	KindSupplied     Kind = "supplied"
	KindCancelled    Kind = "cancelled"
	KindRefunded     Kind = "refunded"
	KindUnmatched    Kind = "unmatched"
	KindMatched      Kind = "matched"
	KindResolved     Kind = "resolved"
)

// Kinds lists every kind.
func Kinds() []Kind {
	return []Kind{
		KindSettled, KindLoaded, KindLoadFee, KindFeeWithdrawn, KindFeeKept, KindFeeOwed, KindFeeCollected, KindFeeWritten,
		KindRemainder, KindReturned, KindSold, KindSupplied, KindCancelled, KindRefunded, KindUnmatched, KindMatched,
		KindResolved,
	}
}

// ID names a posting by what it records, so that the same thing cannot be posted twice.
type ID string

// Entry changes one account. Amount is in millionths of a dollar, never zero.
type Entry struct {
	Account Account
	Amount  money.USDC
}

// String is the entry in dollars, as in "issuer:float -25.000000".
func (e Entry) String() string { return string(e.Account) + " " + e.Amount.Dollars() }

// Posting is one thing that happened.
type Posting struct {
	ID ID
	// Order is the order it belongs to; empty for money that belongs to none.
	Order string
	Kind  Kind
	// Undoes is a posting that this one takes back: it is made only where that one is. Empty for all others.
	Undoes ID
	// At is when it was recorded. The store sets it.
	At      time.Time
	Entries []Entry
}

// Settled records that an order's payment arrived.
func Settled(order string, amount money.USDC) Posting {
	return posting(KindSettled, order, order, Entry{Treasury, amount}, Entry{Customer(order), -amount})
}

// Loaded records that the issuer put an amount on a card for an order: its opening load, or a top-up's credit.
func Loaded(order, card string, amount money.Cents) Posting {
	u := amount.USDC()
	return posting(KindLoaded, order, order,
		Entry{Float, -u}, Entry{Card(card), u}, Entry{Customer(order), u}, Entry{Holder(card), -u})
}

// LoadFee records what is kept of a top-up.
func LoadFee(order string, fee money.Cents) Posting {
	u := fee.USDC()
	return posting(KindLoadFee, order, order, Entry{Customer(order), u}, Entry{LoadFeeRevenue, -u})
}

// FeeWithdrawn records that the issue fee of an order was taken from its card, back into the float.
func FeeWithdrawn(order, card string, fee money.Cents) Posting {
	u := fee.USDC()
	return posting(KindFeeWithdrawn, order, order,
		Entry{Card(card), -u}, Entry{Float, u}, Entry{Holder(card), u}, Entry{IssueFeeRevenue, -u})
}

// FeeKept records the issue fee of an order whose card opened without it.
func FeeKept(order string, fee money.Cents) Posting {
	u := fee.USDC()
	return posting(KindFeeKept, order, order, Entry{Customer(order), u}, Entry{IssueFeeRevenue, -u})
}

// FeeOwed records that the issue fee of an order could not be withdrawn, because the holder has spent it.
func FeeOwed(order, card string, fee money.Cents) Posting {
	u := fee.USDC()
	return posting(KindFeeOwed, order, order, Entry{Receivable(card), u}, Entry{IssueFeeRevenue, -u})
}

// FeeCollected records that a fee that was owed was taken from the card after all. debt is where it stood:
// the card's receivable, or IssueFeeCost once it was written off.
func FeeCollected(order, card string, fee money.Cents, debt Account) Posting {
	u := fee.USDC()
	return posting(KindFeeCollected, order, order,
		Entry{Card(card), -u}, Entry{Float, u}, Entry{Holder(card), u}, Entry{debt, -u})
}

// FeeWrittenOff records that an operator gave up a fee that was owed.
func FeeWrittenOff(order, card string, fee money.Cents) Posting {
	u := fee.USDC()
	return posting(KindFeeWritten, order, order, Entry{IssueFeeCost, u}, Entry{Receivable(card), -u})
}

// Remainder records that what was left on a card was taken from it, back into the float, because the card is closed. It
// is owed to the payer of the order that the card was bought with.
func Remainder(order, card string, amount money.Cents) Posting {
	u := amount.USDC()
	return posting(KindRemainder, order, order,
		Entry{Card(card), -u}, Entry{Float, u}, Entry{Holder(card), u}, Entry{Customer(order), -u})
}

// Returned records that the remainder of a card went back to the payer of its order. There is at most one for an order.
func Returned(order string, amount money.USDC) Posting {
	return posting(KindReturned, order, order, Entry{Customer(order), amount}, Entry{Treasury, -amount})
}

// Supplied records what the supplier charged for the eSIM of an order, whatever becomes of the order.
func Supplied(order string, cost money.USDC) Posting {
	return posting(KindSupplied, order, order, Entry{SupplierFloat, -cost}, Entry{EsimCost, cost})
}

// Cancelled records that the supplier took the eSIM of an order back and credited us, and what of that is owed to the
// order's payer: it is not earned any more.
func Cancelled(order string, credit, refund money.USDC) Posting {
	return posting(KindCancelled, order, order,
		Entry{SupplierFloat, credit}, Entry{EsimCost, -credit}, Entry{EsimRevenue, refund}, Entry{Customer(order), -refund})
}

// Sold records that the goods of an order are their buyer's, and what was paid for them ours: it is earned in the
// account of the product's revenue.
func Sold(order string, price money.Cents, revenue Account) Posting {
	u := price.USDC()
	return posting(KindSold, order, order, Entry{Customer(order), u}, Entry{revenue, -u})
}

// Refunded records that an order's payment went back to its payer. There is at most one for an order.
func Refunded(order string, amount money.USDC) Posting {
	return posting(KindRefunded, order, order, Entry{Customer(order), amount}, Entry{Treasury, -amount})
}

// Unmatched records USDC that arrived for no order, in a transfer named by its transaction and log index.
func Unmatched(transaction string, logIndex uint, amount money.USDC) Posting {
	return posting(KindUnmatched, transfer(transaction, logIndex), "", Entry{Treasury, amount},
		Entry{UnmatchedFunds, -amount})
}

// Matched takes such money back out of `unmatched`, because an order has claimed it: it is posted as settled
// there.
func Matched(order, transaction string, logIndex uint, amount money.USDC) Posting {
	p := posting(KindMatched, transfer(transaction, logIndex), order, Entry{UnmatchedFunds, amount},
		Entry{Treasury, -amount})
	p.Undoes = Unmatched(transaction, logIndex, amount).ID
	return p
}

// Resolved records where such money went by an operator's word: out of the treasury, or among what is earned.
func Resolved(transaction string, logIndex uint, amount money.USDC, to Account) Posting {
	return posting(KindResolved, transfer(transaction, logIndex), "", Entry{UnmatchedFunds, amount}, Entry{to, -amount})
}

// SentBack resolves such money by a refund that the chain shows. What of it did not go back is nobody's any more: the
// goods that it bought, of which the records are lost, were returned for less. What went back beyond it is of others.
func SentBack(transaction string, logIndex uint, amount, back money.USDC) Posting {
	p := Resolved(transaction, logIndex, min(amount, back), Treasury)
	if kept := amount - back; kept > 0 {
		p.Entries[0].Amount = amount
		p.Entries = append(p.Entries, Entry{Donations, -kept})
	}
	return p
}

// OfTransfer names the postings that a transfer, "0x…/5", may have in addition to those of an order that it pays.
func OfTransfer(transfer string) []ID {
	return []ID{idOf(KindUnmatched, transfer), idOf(KindMatched, transfer), idOf(KindResolved, transfer)}
}

func transfer(transaction string, logIndex uint) string {
	return fmt.Sprintf("%s/%d", transaction, logIndex)
}

func posting(kind Kind, of, order string, entries ...Entry) Posting {
	return Posting{ID: idOf(kind, of), Order: order, Kind: kind, Entries: entries}
}

func idOf(kind Kind, of string) ID { return ID(string(kind) + "/" + of) }

// ErrUnbalanced says that the entries of a posting do not sum to zero, or that it moves nothing.
var ErrUnbalanced = errors.New("not balanced")

// Check refuses a posting that does not balance.
func (p Posting) Check() error {
	var sum money.USDC
	for _, e := range p.Entries {
		if e.Amount == 0 {
			return fmt.Errorf("posting %s: %s moves nothing: %w", p.ID, e.Account, ErrUnbalanced)
		}
		sum += e.Amount
	}
	if sum != 0 || len(p.Entries) < 2 {
		return fmt.Errorf("posting %s: %d entries sum to %s: %w", p.ID, len(p.Entries), sum, ErrUnbalanced)
	}
	return nil
}

// Balances sums postings by account. An account that comes to zero is there with zero.
func Balances(postings []Posting) map[Account]money.USDC {
	sums := map[Account]money.USDC{}
	for _, p := range postings {
		for _, e := range p.Entries {
			sums[e.Account] += e.Amount
		}
	}
	return sums
}
