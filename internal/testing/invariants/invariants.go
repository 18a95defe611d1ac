// Package invariants checks what must hold after any fault, from three independent books: the database, the chain's
// logs and the issuer's own.
//
// It shares no code with the program that it checks: tables, events, statuses and rules are defined here again.
package invariants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Gap are the account nonces of a relayer from From on and below To.
type Gap struct {
	Relayer  string
	From, To int64
}

// Books says where the three books are, and what the buyers saw.
type Books struct {
	DatabaseURL string
	RPCURL      string
	// Tables, when set, are what the database would have.
	Tables *Tables
	// USDC, PayTo and Treasury are the addresses of the token, of who is paid, and of who refunds; the last
	// may be empty, and otherwise pays nothing but refunds.
	USDC, PayTo, Treasury string
	// Treasuries are other accounts that refund, or have refunded, and pay nothing else.
	Treasuries []string
	SandboxURL string
	// Issuers are where the books of the card issuers are read, and Suppliers those of the eSIM suppliers; none is the
	// sandbox's.
	Issuers, Suppliers []string
	// Relayers are the accounts that settle and had sent nothing before; those of stored attempts are
	// looked at anyway, but not from their first transaction on.
	Relayers []string
	// Lost are the account nonces whose transactions the database has lost with each restore.
	Lost []Gap
	// FromBlock is where the chain's logs begin to matter.
	FromBlock uint64
	// SecondAbove is the amount in cents above which operators' refunds need two names; zero is never.
	SecondAbove int64
	// Unmatched is how many millionths of a dollar the test itself sent to PayTo outside any purchase.
	Unmatched int64
	// Answers are what buyers were told, in any order.
	Answers []Answer
	// Signed are the payments that buyers have signed, each for one purchase.
	Signed []Signed
	// Reorganised says that blocks were replaced: a buyer may have been told of a transaction whose transfer was then made
	// by another one.
	Reorganised bool
	// Down are the times in which something that a sale needs was known to be down.
	Down []Span
	// Skew is by how much the clocks of two processes may differ: what one has written may be earlier than what another
	// had written before.
	Skew time.Duration
}

func (b Books) issuers() []string {
	if len(b.Issuers) > 0 {
		return b.Issuers
	}
	return []string{b.SandboxURL + "/control/books"}
}

func (b Books) suppliers() []string {
	if len(b.Suppliers) > 0 {
		return b.Suppliers
	}
	return []string{b.SandboxURL + "/control/esim/books"}
}

// treasuries are the accounts that pay nothing but refunds, in lower-case hex.
func (b Books) treasuries() map[string]bool {
	all := map[string]bool{lower(b.Treasury): true}
	for _, one := range b.Treasuries {
		all[lower(one)] = true
	}
	return all
}

// Span is a stretch of time.
type Span struct{ From, To time.Time }

func (s Span) holds(at time.Time) bool { return !at.Before(s.From) && at.Before(s.To) }

// Answer is one answer to a purchase, as a buyer saw it.
type Answer struct {
	// Payer and Key are whose purchase it was; Paid says that the request had a payment.
	Payer, Key string
	Paid       bool
	Status     int
	// What a 200 told.
	OrderID, Transaction, Amount string
	// At is when the request was sent.
	At time.Time
}

// Signed is a payment that a buyer has signed for a purchase.
type Signed struct{ Payer, Key, Nonce string }

// Violation is one broken invariant.
type Violation struct {
	// ID and Rule name the invariant, Message what breaks it.
	ID, Rule, Message string
}

// String is the violation in one line.
func (v Violation) String() string { return fmt.Sprintf("%s (%s): %s", v.ID, v.Rule, v.Message) }

// Check reads the books and reports what does not hold. It is for a system at rest: while an order is in progress, the
// books may differ. An error means that a book could not be read. Two rules need more than the books: Unchanged checks
// I20, and Leaks I23.
func Check(ctx context.Context, b Books) ([]Violation, error) {
	r, err := read(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.check(), nil
}

// Settled reports that nothing is in progress in a database: every order is final, unpaid or with an operator, and no
// job of an order or a fee is due.
func Settled(ctx context.Context, database *pgx.Conn) (bool, error) {
	var busy bool
	err := database.QueryRow(ctx, `SELECT
		EXISTS (SELECT 1 FROM orders WHERE status IN ('settling', 'settled', 'provisioning', 'refund_pending')) OR
		EXISTS (SELECT 1 FROM jobs WHERE kind IN ('`+fulfillJob+`', '`+feeJob+`', '`+closeJob+`', '`+cancelJob+`')
			AND status IN ('queued', 'processing'))`).Scan(&busy)
	if err != nil {
		return false, fmt.Errorf("look for what is on its way: %w", err)
	}
	return !busy, nil
}

// Await waits until Settled, or until ctx ends.
func Await(ctx context.Context, b Books) error {
	w := watch{url: b.DatabaseURL}
	defer w.close(ctx)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		done, err := w.settled(ctx)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until every order is final: %w", errors.Join(ctx.Err(), err))
		case <-look.C:
		}
	}
}

// records is what the books say.
type records struct {
	database
	chain      chainBook
	issuer     issuerBook
	payTo      string
	treasuries map[string]bool
	supplier   supplierBook
	unmatched  int64
	lost       []Gap
	// secondAbove is Books.SecondAbove.
	secondAbove int64

	answers     []Answer
	signed      []Signed
	reorganised bool
	down        []Span
	// skew is Books.Skew.
	skew time.Duration
}

// invariant is one rule and what it finds broken.
type invariant struct {
	id, rule string
	check    func(*records) []string
}

func invariants() []invariant {
	return []invariant{
		{"I1", "every credit is a recorded payment, to the cent", creditsAreThePayments},
		{"I2", "one authorization, one payment, one order", onePaymentOneOrder},
		{"I3", "one purchase is paid once, by one authorization at a time", onePaymentPerPurchase},
		{"I3", "of all that is signed for one purchase, one payment moves money", oneChargePerKey},
		{"I4", "a paid order has its jobs, its timeline and its ledger posting", paidOrdersHaveAJob},
		{"I5", "nothing is delivered without a proven transfer", deliveryNeedsATransfer},
		{"I5", "no eSIM is ordered without a proven transfer", esimNeedsATransfer},
		{"I6", "the issuer executed each reference once", eachReferenceOnce},
		{"I6", "the supplier executed each reference once", eachEsimOnce},
		{"I7", "one live card per owner, here and at the issuer", oneLiveCard},
		{"I8", "every paid order has ended", paidOrdersEnd},
		{"I8", "a fulfilled eSIM order has its eSIM, here and at the supplier", esimsAreThere},
		{"I9", "no order is both fulfilled and refunded", fulfilledOrRefunded},
		{"I9", "every refund is one transfer of the treasury, and the order knows it", refundsAreProven},
		{"I9", "no more comes back than was paid, and to who paid", refundsMatchPayments},
		{"I9", "no operator ends an order above the limit alone", endingsHaveTwoNames},
		{"I9", "the issuer has no card of a refunded order", refundedIsNotDelivered},
		{"I9", "the supplier has no eSIM of a refunded order", refundedHasNoEsim},
		{"I10", "25.00 paid, 25.00 loaded, 10.00 withdrawn", theMoneyAddsUp},
		{"I10", "every load is a paid top-up without its fee of 2 %", loadsAreTheTopups},
		{"I10", "the books balance", booksBalance},
		{"I10", "the ledger is what was paid, loaded, kept and sent back", ledgerIsWhatHappened},
		{"I11", "who paid owns the order and the card", thePayerOwns},
		{"I12", "all answers for one purchase tell of the same order and transaction", answersAgree},
		{"I13", "no 402 once a payment is on its way", noChallengeAfterBroadcast},
		{"I14", "orders move along the graph, one step at a time", movesFollowTheGraph},
		{"I15", "a challenge is used once, in its time", challengesAreUsedOnce},
		{"I16", "one withdrawal of the fee, and the job knows it", oneFee},
		{"I17", "what is reserved belongs to an open order", reservationsBelongToOpenOrders},
		{"I18", "what a buyer was told exists", answersLast},
		{"I19", "a job is leased to one worker at most", oneWorkerPerJob},
		{"I20", "unowned money is posted once, and each posting says what it records", unmatchedMoneyIsPostedOnce},
		{"I21", "the relayer's nonces have no gap and no second use", noncesAreContiguous},
		{"I22", "an operator's act has one audit row", operatorActsAreAudited},
		{"I24", "while something that a sale needs is down, a new purchase gets 503 and claims nothing", downMeansClosed},
		{"I25", "every row of an order has its owner", rowsHaveTheirOwner},
		{"I26", "a closed card is empty, and its remainder was withdrawn and refunded once", closedCardsAreEmptied},
		{"I27", "a cancelled eSIM is the supplier's again, and what it credited was refunded once",
			cancelledEsimsAreGivenBack},
		{"I28", "a top-up is once at the supplier, on the eSIM of who paid for it", topupsAreOnTheirEsims},
		{"I29", "a payment is in one open transaction at most, and a member ends as the chain shows",
			membersEndAsTheChainShows},
		{"I30", "a receipt says what became of its order and of the money", receiptsSayWhatHappened},
	}
}

func (r *records) check() []Violation {
	var found []Violation
	for _, inv := range invariants() {
		messages := inv.check(r)
		slices.Sort(messages)
		for _, m := range slices.Compact(messages) {
			found = append(found, Violation{inv.id, inv.rule, m})
		}
	}
	return found
}

// findings collects what a check finds.
type findings []string

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// same compares addresses and hashes, which come in both cases.
func same(a, b string) bool { return strings.EqualFold(a, b) }

// group sorts things by a key.
func group[K comparable, T any](all []T, key func(T) K) map[K][]T {
	out := map[K][]T{}
	for _, t := range all {
		out[key(t)] = append(out[key(t)], t)
	}
	return out
}
