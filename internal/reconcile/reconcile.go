// Package reconcile compares the books: the chain's transfers, our records and postings, and the issuer's movements.
//
//	chain ─ transfers of safe blocks ──► arrivals ─┐
//	issuers ─ changes of their books ───► lines ───┼─► units ─► compare, twice ─► findings ─► gate, report
//	our orders, payments, cards, fees, ledger ─────┘                    └─► postings of unmatched transfers
//
// A run compares what changed since the last run, what differed then, and a bounded part of everything else, so that
// repeated runs pass over all records. It transfers no money and changes no order: it posts unmatched transfers once,
// and stores findings and a report. It is idempotent. An unmatched transfer stays a finding until an operator resolves
// it.
//
// An issuer whose books cannot be read, while another one's can, is a finding of its own, and holds up nobody else:
// what its lines were when they were read last opens no new findings, and closes none that its books would have to
// confirm.
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
	Chain Chain
	// Issuers are the books of all issuers, each of which tells in its lines whose they are. Providers are their names;
	// nil is all that there are.
	Issuers   []card.NamedBook
	Providers []string
	Arrivals  Arrivals
	Unread    Unread
	Books     Books
	Reports   Reports
	Unmatched UnmatchedTransfers
	// PayTo is the payee, whose transfers are read.
	PayTo x402.Address
	Now   func() time.Time
}

// Reconciler compares the books. Several may run concurrently; each runs one comparison at a time.
type Reconciler struct {
	Config
	turn chan struct{}
}

// New makes a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{c, make(chan struct{}, 1)} }

// Run compares the books and stores the report. An error means that the chain or our records could not be read; the
// last report stays. The books of an issuer that could not be read are a finding. Each comparison that ends is listed.
func (r *Reconciler) Run(ctx context.Context) (Report, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Report{}, fmt.Errorf("wait for another comparison: %w", ctx.Err())
	}
	began := r.Now().UTC()
	scanner := NewScanner(ScannerConfig{Chain: r.Chain, Arrivals: r.Arrivals, Unread: r.Unread, PayTo: r.PayTo})
	if err := scanner.Scan(ctx); err != nil {
		return Report{}, r.failed(ctx, began, chainUnread, fmt.Errorf("read the chain: %w", err))
	}
	report, err := r.compareBooks(ctx, began)
	if err != nil {
		return Report{}, r.failed(ctx, began, recordsUnread, err)
	}
	return report, nil
}

// compareBooks compares the books once the chain has been read, since a time.
func (r *Reconciler) compareBooks(ctx context.Context, since time.Time) (Report, error) {
	p, err := r.Books.Progress(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read the progress of comparisons: %w", err)
	}
	run := &run{
		Reconciler: r, progress: p, began: r.Now().UTC(), done: map[Unit]bool{}, silent: map[string]error{},
	}
	if err := run.all(ctx); err != nil {
		return Report{}, err
	}
	report, err := run.report(ctx)
	if err != nil {
		return Report{}, err
	}
	report.ReadSince = since
	if err := r.Books.Advance(ctx, run.progress); err != nil {
		return Report{}, fmt.Errorf("store the progress of this comparison: %w", err)
	}
	if err := r.Reports.Keep(ctx, report); err != nil {
		return Report{}, fmt.Errorf("store the report: %w", err)
	}
	return report, nil
}

// report makes the report of all stored findings, of this comparison and earlier ones.
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
		CompleteAt: r.progress.completeAt(r.names()), Began: r.began,
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

// summed is how many ledger entries one comparison sums again.
const summed = 1_000_000

// balances adds the new postings to the stored sums. It also recomputes the sums, a part in each comparison, so that a
// changed entry does not stay wrong in them.
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
	if b.Entries.settled(r.began) && b.Entries.Last > b.Entries.Done {
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

// The operators' actions, as the audit trail names them.
const (
	actRun  = "treasury.reconcile"
	actRead = "treasury.report"
)

// RunFor is Run for an operator. It is audited.
func (r *Reconciler) RunFor(ctx context.Context, operator string) (Report, error) {
	if err := r.Reports.Audit(ctx, operator, actRun); err != nil {
		return Report{}, fmt.Errorf("audit the comparison: %w", err)
	}
	return r.Run(ctx)
}

// LastFor shows an operator the last report. It is audited. report_not_found before the first one.
func (r *Reconciler) LastFor(ctx context.Context, operator string) (Report, error) {
	if err := r.Reports.Audit(ctx, operator, actRead); err != nil {
		return Report{}, fmt.Errorf("audit the access: %w", err)
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
