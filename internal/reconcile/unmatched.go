package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Resolution is what an operator says has become of a transfer that belongs to no order, which is final, or of another
// finding.
type Resolution string

// The resolutions.
const (
	// RefundedByHand says that the money was sent back from the treasury.
	RefundedByHand Resolution = "refunded_by_hand"
	// Donation says that the money is ours to keep.
	Donation Resolution = "donation"
	// Known says that the money is somebody's who is known, and stays where it is.
	Known Resolution = "known"
	// Explained says that a finding about something else than a transfer is understood.
	Explained Resolution = "explained"
)

// Postings are what the ledger gets when a transfer is resolved; none when nothing moves.
func (r Resolution) Postings(t Transfer) []ledger.Posting {
	to := map[Resolution]ledger.Account{RefundedByHand: ledger.Treasury, Donation: ledger.Donations}[r]
	if to == "" {
		return nil
	}
	return []ledger.Posting{ledger.Resolved(t.Transaction.String(), t.LogIndex, t.Value, to)}
}

// Place is where a transfer stands on the chain.
type Place struct {
	Transaction x402.Hash
	LogIndex    uint
}

// isPlace reports whether a text is a place.
func isPlace(text string) bool {
	_, err := ParsePlace(text)
	return err == nil
}

// ParsePlace reads a place as reports show it.
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

// String is the place as reports show it: "0x…/5".
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Transaction, p.LogIndex) }

// Resolved is a resolution, by whom and why.
type Resolved struct {
	Place            Place
	As               Resolution
	Reason, Operator string
	At               time.Time
}

// UnmatchedTransfer is a transfer that belongs to no order.
type UnmatchedTransfer struct {
	Transfer
	// Row is its place in the list of all that arrived.
	Row    int64
	SeenAt time.Time
	// Resolved is nil while it is open.
	Resolved *Resolved
}

// UnmatchedQuery asks for a page of strays.
type UnmatchedQuery struct {
	// Resolved asks for those that are; otherwise for those that are open.
	Resolved bool
	// Before is the row of the last stray of the page before, or zero.
	Before int64
	Limit  int
}

// UnmatchedTransfers keeps what operators do with transfers that belong to no order, as comparisons found them. Every
// use is audited in its own transaction.
type UnmatchedTransfers interface {
	// ListUnmatched lists them, newest first.
	ListUnmatched(ctx context.Context, q UnmatchedQuery, act order.Act) ([]UnmatchedTransfer, error)
	// Resolve stores a resolution and what it posts, once for each key. ErrNoStray when a comparison found no
	// such transfer, ErrResolved when it was resolved by another act, ErrKeyReused when the operator used the
	// key for another resolution.
	Resolve(ctx context.Context, at Place, as Resolution, act order.Act) (UnmatchedTransfer, error)
	// Findings lists what differs still, newest first.
	Findings(ctx context.Context, q FindingQuery, act order.Act) ([]Finding, error)
	// ResolveFinding stores that a finding is understood, once for each key, and does for a transfer what Resolve does.
	// ErrNoFinding when nothing of the kind differs, ErrResolved and ErrKeyReused as there.
	ResolveFinding(ctx context.Context, id int64, act order.Act) (Finding, error)
}

// FindingQuery asks for a page of findings.
type FindingQuery struct {
	// Resolved asks for those that are; otherwise for those that are open.
	Resolved bool
	// Code is that of all of them; empty for any.
	Code Code
	// Before is the last finding of the page before, or zero.
	Before int64
	Limit  int
}

// The errors of Strays.
var (
	ErrNoUnmatched = errors.New("there is no such stray transfer")
	ErrNoFinding   = errors.New("there is no such finding")
	ErrResolved    = errors.New("it has been resolved")
	ErrKeyReused   = errors.New("the key was used for another act")
)

// UnmatchedFor shows an operator a page of strays, newest first, and the row where the next page begins, if there
// is one.
func (r *Reconciler) UnmatchedFor(
	ctx context.Context, q UnmatchedQuery, act order.Act,
) (page []UnmatchedTransfer, next int64, err error) {
	limit := q.Limit
	q.Limit++
	page, err = r.Unmatched.ListUnmatched(ctx, q, act)
	if err != nil {
		return nil, 0, fmt.Errorf("list the transfers: %w", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].Row
	}
	return page, next, nil
}

// ResolveFor closes a stray by an operator's word. The next comparison no longer finds it.
func (r *Reconciler) ResolveFor(
	ctx context.Context, at Place, as Resolution, act order.Act,
) (UnmatchedTransfer, error) {
	s, err := r.Unmatched.Resolve(ctx, at, as, act)
	switch {
	case errors.Is(err, ErrNoUnmatched):
		return UnmatchedTransfer{},
			fault.New(fault.TransferNotFound, "No comparison of the books has found this transfer without an order.")
	case errors.Is(err, ErrResolved):
		return UnmatchedTransfer{}, fault.New(fault.TransferResolved, "This transfer has been resolved, which is final.")
	case errors.Is(err, ErrKeyReused):
		return UnmatchedTransfer{},
			fault.New(fault.IdempotencyKeyReused, "This Idempotency-Key was used for something else, or with another reason.")
	case err != nil:
		return UnmatchedTransfer{}, fmt.Errorf("resolve the transfer: %w", err)
	}
	return s, nil
}

// FindingsFor shows an operator a page of findings, newest first, and where the next page begins, if there is one.
func (r *Reconciler) FindingsFor(
	ctx context.Context, q FindingQuery, act order.Act,
) (page []Finding, next int64, err error) {
	limit := q.Limit
	q.Limit++
	page, err = r.Unmatched.Findings(ctx, q, act)
	if err != nil {
		return nil, 0, fmt.Errorf("list the findings: %w", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, nil
}

// ResolveFindingFor takes an operator's word that a finding is understood. From then on it blocks nothing.
func (r *Reconciler) ResolveFindingFor(ctx context.Context, id int64, act order.Act) (Finding, error) {
	f, err := r.Unmatched.ResolveFinding(ctx, id, act)
	switch {
	case errors.Is(err, ErrNoFinding):
		return Finding{}, fault.New(fault.FindingNotFound, "Nothing of this kind differs.")
	case errors.Is(err, ErrResolved):
		return Finding{}, fault.New(fault.FindingResolved, "This finding has been resolved.")
	case errors.Is(err, ErrKeyReused):
		return Finding{},
			fault.New(fault.IdempotencyKeyReused, "This Idempotency-Key was used for something else, or with another reason.")
	case err != nil:
		return Finding{}, fmt.Errorf("resolve the finding: %w", err)
	}
	return f, nil
}
