package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
	"github.com/roamcard/roamcard/internal/x402"
)

// Resolution is an operator's decision on an unmatched transfer, which is final, or on another finding.
type Resolution string

// The resolutions.
const (
	// RefundedByHand says that the treasury has refunded the transfer.
	RefundedByHand Resolution = "refunded_by_hand"
	// Donation says that we keep the money.
	Donation Resolution = "donation"
	// Known says that the owner of the money is known, and that it stays where it is.
	Known Resolution = "known"
	// Explained says that a finding that is not an unmatched transfer is explained.
	Explained Resolution = "explained"
)

// Postings are the ledger postings of a resolved transfer; none for Known.
func (r Resolution) Postings(t Transfer) []ledger.Posting {
	to := map[Resolution]ledger.Account{RefundedByHand: ledger.Treasury, Donation: ledger.Donations}[r]
	if to == "" {
		return nil
	}
	return []ledger.Posting{ledger.Resolved(t.Transaction.String(), t.LogIndex, t.Value, to)}
}

// Place is the place of a transfer in the chain.
type Place struct {
	Transaction x402.Hash
	LogIndex    uint
}

// isPlace reports whether a text is a place.
func isPlace(text string) bool {
	_, err := ParsePlace(text)
	return err == nil
}

// ParsePlace parses a place in the form of reports.
func ParsePlace(text string) (Place, error) {
	hash, index, _ := strings.Cut(text, "/")
	transaction, err1 := x402.ParseHash(hash)
	n, err2 := strconv.ParseUint(index, 10, 31)
	at := Place{transaction, uint(n)}
	if err1 != nil || err2 != nil || at.String() != text {
		return Place{}, errors.New("not the place of a transfer")
	}
	return at, nil
}

// String is the place in the form of reports: "0x…/5".
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Transaction, p.LogIndex) }

// Resolved is a resolution with its operator and reason.
type Resolved struct {
	Place            Place
	As               Resolution
	Reason, Operator string
	At               time.Time
}

// UnmatchedTransfer is a transfer that no order has claimed.
type UnmatchedTransfer struct {
	Transfer
	// Row is its number in the list of all arrivals.
	Row    int64
	SeenAt time.Time
	// Resolved is nil while it is open.
	Resolved *Resolved
	// Pending is the resolution that waits for a second operator; nil when none does.
	Pending *approval.Approval
}

// Version is 1 while it is open and 2 once it is resolved.
func (t UnmatchedTransfer) Version() int {
	if t.Resolved != nil {
		return 2
	}
	return 1
}

// UnmatchedQuery selects a page of unmatched transfers.
type UnmatchedQuery struct {
	// Resolved selects the resolved ones instead of the open ones.
	Resolved bool
	// Before is the row of the last transfer of the previous page, or zero.
	Before int64
	Limit  int
}

// UnmatchedTransfers stores the operators' resolutions of unmatched transfers and of other findings. Each call writes
// its audit record in the same transaction.
type UnmatchedTransfers interface {
	// ListUnmatched lists unmatched transfers, newest first.
	ListUnmatched(ctx context.Context, q UnmatchedQuery, act order.OperatorContext) ([]UnmatchedTransfer, error)
	// Resolve stores a resolution and its postings, once per key. ErrNoUnmatched when no comparison has found the
	// transfer, ErrResolved when another action resolved it, order.KeyReused when the operator used the key for another
	// resolution, ErrChanged when it is not at the act's version. A resolution that needs a second operator is Pending.
	Resolve(ctx context.Context, at Place, as Resolution, act order.OperatorContext) (UnmatchedTransfer, error)
	// Findings lists findings, newest first.
	Findings(ctx context.Context, q FindingQuery, act order.OperatorContext) ([]Finding, error)
	// ResolveFinding stores that a finding is explained, once per key, and resolves the transfer if it is about one.
	// ErrNoFinding when there is none; ErrResolved, ErrChanged and order.KeyReused as in Resolve; approval.PendingError
	// when the transfer needs a second operator.
	ResolveFinding(ctx context.Context, id int64, act order.OperatorContext) (Finding, error)
}

// FindingQuery selects a page of findings.
type FindingQuery struct {
	// Resolved selects the resolved ones instead of the open ones.
	Resolved bool
	// Code selects the findings of one code; empty selects all.
	Code Code
	// Before is the last finding of the previous page, or zero.
	Before int64
	Limit  int
}

// The errors of UnmatchedTransfers.
var (
	ErrNoUnmatched = errors.New("there is no such unmatched transfer")
	ErrNoFinding   = errors.New("there is no such finding")
	ErrResolved    = errors.New("it has been resolved")
	ErrChanged     = errors.New("it is at another version")
)

// UnmatchedFor lists a page of unmatched transfers for an operator, newest first. next is the cursor of the next page,
// or zero.
func (r *Reconciler) UnmatchedFor(
	ctx context.Context, q UnmatchedQuery, act order.OperatorContext,
) (page []UnmatchedTransfer, next int64, err error) {
	limit := q.Limit
	q.Limit++
	page, err = r.Unmatched.ListUnmatched(ctx, q, act)
	if err != nil {
		return nil, 0, fmt.Errorf("list the transfers: %w", err)
	}
	page, next = paging.Cut(page, limit, func(t UnmatchedTransfer) int64 { return t.Row })
	return page, next, nil
}

// ResolveFor resolves an unmatched transfer for an operator. The next comparison no longer reports it.
func (r *Reconciler) ResolveFor(
	ctx context.Context, at Place, as Resolution, act order.OperatorContext,
) (UnmatchedTransfer, error) {
	s, err := r.Unmatched.Resolve(ctx, at, as, act)
	if err != nil {
		return UnmatchedTransfer{}, Resolving(err)
	}
	return s, nil
}

// Resolving maps the errors of UnmatchedTransfers.Resolve to faults.
func Resolving(err error) error {
	if f, ok := fault.As(err); ok {
		return f
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoUnmatched):
		return fault.New(fault.TransferNotFound, "No comparison of the books has found this transfer without an order.")
	case errors.Is(err, ErrResolved):
		return fault.New(fault.TransferResolved, "This transfer has been resolved, which is final.")
	case errors.Is(err, ErrChanged):
		return changed()
	}
	return fmt.Errorf("resolve the transfer: %w", err)
}

func changed() error {
	return fault.New(fault.VersionChanged, "It has changed since it was read. Read it again, then decide.")
}

// FindingsFor lists a page of findings for an operator, newest first. next is the cursor of the next page, or zero.
func (r *Reconciler) FindingsFor(
	ctx context.Context, q FindingQuery, act order.OperatorContext,
) (page []Finding, next int64, err error) {
	limit := q.Limit
	q.Limit++
	page, err = r.Unmatched.Findings(ctx, q, act)
	if err != nil {
		return nil, 0, fmt.Errorf("list the findings: %w", err)
	}
	// What was found before may have a code that nothing is found by any more.
	if codes := Codes(); len(page) == 0 && q.Code != "" && !slices.Contains(codes, q.Code) {
		return nil, 0, fault.NotOneOf("code", codes)
	}
	page, next = paging.Cut(page, limit, func(f Finding) int64 { return f.ID })
	return page, next, nil
}

// ResolveFindingFor resolves a finding as explained, for an operator. From then on it blocks nothing.
func (r *Reconciler) ResolveFindingFor(ctx context.Context, id int64, act order.OperatorContext) (Finding, error) {
	f, err := r.Unmatched.ResolveFinding(ctx, id, act)
	if known, ok := fault.As(err); ok {
		return Finding{}, known
	}
	pending, waits := errors.AsType[*approval.PendingError](err)
	switch {
	case waits:
		return Finding{}, fault.Newf(fault.SecondOperatorRequired,
			"The transfer is above the amount for which a second operator is needed: approval %s waits for one.",
			pending.Approval.ID)
	case errors.Is(err, ErrChanged):
		return Finding{}, changed()
	case errors.Is(err, ErrNoFinding):
		return Finding{}, fault.New(fault.FindingNotFound, "Nothing of this kind differs.")
	case errors.Is(err, ErrResolved):
		return Finding{}, fault.New(fault.FindingResolved, "This finding has been resolved.")
	case err != nil:
		return Finding{}, fmt.Errorf("resolve the finding: %w", err)
	}
	return f, nil
}
