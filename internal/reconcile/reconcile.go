// Package reconcile compares the books: what the chain moved, what we recorded and posted, and what the issuer carried
// out.
//
//	chain ─ transfers of safe blocks ──► arrivals ─┐
//	issuer ─ what changed in its books ─► lines ───┼─► units ─► compare, twice ─► findings ─► gate, report
//	our orders, payments, cards, fees, ledger ─────┘                    └─► a posting for money that belongs to nobody
//
// It is done in parts: what changed since the last time, what differs still, and a bounded part of everything else,
// round after round. It moves no money and changes no order: it reads, posts unmatched money once, and keeps its
// findings and a report. A second run finds the same. What belongs to nobody is found until an operator says what has
// become of it.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what a Reconciler is made of.
type Config struct {
	Chain     Chain
	Issuer    card.Book
	Arrivals  Arrivals
	Unread    Unread
	Books     Books
	Reports   Reports
	Unmatched UnmatchedTransfers
	// PayTo is the payee, whose transfers are read.
	PayTo x402.Address
	Now   func() time.Time
}

// Reconciler compares the books. Any number of them may run at once; one of them runs one comparison at a time.
type Reconciler struct {
	Config
	turn chan struct{}
}

// New makes a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{c, make(chan struct{}, 1)} }

// Run compares the books and keeps the report. An error means that a book could not be read, and the last report stays.
func (r *Reconciler) Run(ctx context.Context) (Report, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Report{}, fmt.Errorf("wait for another comparison: %w", ctx.Err())
	}
	scanner := NewScanner(ScannerConfig{Chain: r.Chain, Arrivals: r.Arrivals, Unread: r.Unread, PayTo: r.PayTo})
	if err := scanner.Scan(ctx); err != nil {
		return Report{}, fmt.Errorf("read the chain: %w", err)
	}
	p, err := r.Books.Progress(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read how far comparisons have come: %w", err)
	}
	run := &run{Reconciler: r, progress: p, began: r.Now().UTC(), done: map[Unit]bool{}}
	if err := run.all(ctx); err != nil {
		return Report{}, err
	}
	report, err := run.report(ctx)
	if err != nil {
		return Report{}, err
	}
	if err := r.Books.Advance(ctx, run.progress); err != nil {
		return Report{}, fmt.Errorf("record how far this comparison has come: %w", err)
	}
	if err := r.Reports.Keep(ctx, report); err != nil {
		return Report{}, fmt.Errorf("keep the report: %w", err)
	}
	return report, nil
}

// report says what was found, by this comparison and those before it.
func (r *run) report(ctx context.Context) (Report, error) {
	sums, err := r.balances(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("add the ledger up: %w", err)
	}
	scan, err := r.Arrivals.Scanned(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("find the last block read: %w", err)
	}
	report := Report{
		At: r.Now().UTC(), FirstBlock: scan.First, LastBlock: scan.Next - min(scan.Next, 1), Checked: r.checked,
		CompleteAt: r.progress.completeAt(), Began: r.began,
	}
	for kind, units := range sums {
		report.Balances = append(report.Balances, Balance{kind, units})
	}
	slices.SortFunc(report.Balances, func(a, b Balance) int { return strings.Compare(a.Account, b.Account) })
	var resolved []Finding
	report.Sums, report.Findings, resolved, report.SpentUSDCents, err = r.Reports.Sums(ctx, listed)
	if err != nil {
		return Report{}, fmt.Errorf("sum the findings: %w", err)
	}
	slices.SortFunc(report.Findings, compareFindings)
	for _, f := range resolved {
		report.Resolved = append(report.Resolved, ResolvedDifference{
			Code: f.Code, Subject: f.Subject, Resolution: f.Resolved.As,
			Detail: fmt.Sprintf("%s; %s says: %s", f.Detail, f.Resolved.Operator, f.Resolved.Reason),
		})
	}
	return report, nil
}

// summed is how many entries of the ledger are summed again by one comparison.
const summed = 1_000_000

// balances adds to the sums that are known what was posted since. They are made once more, too, a part at a time, so
// that an entry that was changed is not missing from them for good.
func (r *run) balances(ctx context.Context) (map[string]money.USDC, error) {
	b := &r.progress.Balances
	add := func(to *map[string]money.USDC, after, upto int64) (last int64, err error) {
		sums, last, err := r.Books.Sum(ctx, after, upto)
		if *to == nil {
			*to = map[string]money.USDC{}
		}
		for kind, units := range sums {
			(*to)[kind] += units
		}
		return last, err
	}
	if b.Entries.settled(r.began) {
		if _, err := add(&b.Sums, b.Entries.Done, b.Entries.Last); err != nil {
			return nil, err
		}
	}
	b.Entries.pass(r.began)
	if b.Upto < b.Entries.Done {
		upto := min(b.Upto+summed, b.Entries.Done)
		if _, err := add(&b.Again, b.Upto, upto); err != nil {
			return nil, err
		}
		if b.Upto = upto; upto == b.Entries.Done {
			b.Sums, b.Again, b.Upto = b.Again, nil, 0
		}
	}
	all := map[string]money.USDC{}
	for kind, units := range b.Sums {
		all[kind] = units
	}
	last, err := add(&all, b.Entries.Done, 0)
	b.Entries.see(last, r.began)
	return all, err
}

// What operators do here, as the audit trail names it.
const (
	actRun  = "treasury.reconcile"
	actRead = "treasury.report"
)

// RunFor is Run for an operator, and audited.
func (r *Reconciler) RunFor(ctx context.Context, operator string) (Report, error) {
	if err := r.Reports.Audit(ctx, operator, actRun); err != nil {
		return Report{}, fmt.Errorf("audit the comparison: %w", err)
	}
	return r.Run(ctx)
}

// LastFor shows an operator the last report, and is audited. report_not_found before there was one.
func (r *Reconciler) LastFor(ctx context.Context, operator string) (Report, error) {
	if err := r.Reports.Audit(ctx, operator, actRead); err != nil {
		return Report{}, fmt.Errorf("audit the reading: %w", err)
	}
	report, ok, err := r.Reports.Last(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read the last report: %w", err)
	}
	if !ok {
		return Report{},
			fault.New(fault.ReportNotFound, "The books have not been compared yet. Do so at POST /api/admin/reconcile.")
	}
	return report, nil
}
