// Package reconcile compares the books: what the chain moved, what we recorded and posted, and what the issuer carried out.
//
//	chain ─ transfers of safe blocks ─► arrivals ─┐
//	our payments, orders, cards, fees, ledger ────┼─► compare, twice ─► findings ─► report
//	issuer ─ its statement ───────────────────────┘            └─► a posting for money that belongs to nobody
//
// It moves no money and changes no order: it reads, posts stray money once, and keeps its report. A second run finds the same. What
// belongs to nobody is found until an operator says what has become of it.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what a Reconciler is made of.
type Config struct {
	Chain    Chain
	Issuer   Issuer
	Arrivals Arrivals
	Books    Books
	Reports  Reports
	Strays   Strays
	// PayTo is the payee, whose transfers are read.
	PayTo x402.Address
	Now   func() time.Time
}

// Reconciler compares the books. Any number of them may run at once.
type Reconciler struct{ Config }

// New makes a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{c} }

// Run compares the books and keeps the report. An error means that a book could not be read, and the last report stays.
func (r *Reconciler) Run(ctx context.Context) (Report, error) {
	if err := NewScanner(ScannerConfig{Chain: r.Chain, Arrivals: r.Arrivals, PayTo: r.PayTo}).Scan(ctx); err != nil {
		return Report{}, fmt.Errorf("read the chain: %w", err)
	}
	report, strays, err := r.look(ctx)
	if err != nil {
		return Report{}, err
	}
	if len(report.Findings) > 0 {
		// The books are read one after the other, and things happen meanwhile. What differs for that reason
		// does not differ a second time.
		earlier := report.Findings
		if report, strays, err = r.look(ctx); err != nil {
			return Report{}, err
		}
		report.Findings = both(earlier, report.Findings)
	}
	if err := r.Books.Post(ctx, strays); err != nil {
		return Report{}, fmt.Errorf("post what belongs to no order: %w", err)
	}
	report.At = r.Now().UTC()
	if err := r.Reports.Keep(ctx, report); err != nil {
		return Report{}, fmt.Errorf("keep the report: %w", err)
	}
	return report, nil
}

// look reads our books and then the issuer's, which must have whatever ours have, and compares them.
func (r *Reconciler) look(ctx context.Context) (Report, []ledger.Posting, error) {
	records, err := r.Books.Records(ctx)
	if err != nil {
		return Report{}, nil, fmt.Errorf("read our books: %w", err)
	}
	statement, err := r.Issuer.Statement(ctx)
	if err != nil {
		return Report{}, nil, fmt.Errorf("read the issuer's books: %w", down(err, "card issuer"))
	}
	c := compare(records, statement)
	report := Report{
		FirstBlock: records.Scan.First, LastBlock: records.Scan.Next - min(records.Scan.Next, 1),
		Checked: Checked{
			Orders: len(records.Orders), Payments: len(records.Payments), Transfers: len(records.Arrivals),
			Postings: len(records.Postings), Cards: len(statement.Accounts), Movements: len(statement.Movements),
		},
		Balances: balances(append(slices.Clone(records.Postings), c.unposted...)), SpentUSDCents: c.spent, Findings: sorted(c.found),
		Resolved: c.resolved,
	}
	return report, c.unposted, nil
}

// balances sums the ledger by kind of account: the part before the colon where there is one for each order or card.
func balances(postings []ledger.Posting) []Balance {
	sums := map[string]money.USDC{}
	for account, units := range ledger.Balances(postings) {
		kind, _, _ := strings.Cut(string(account), ":")
		if kind != "customer" && kind != "card" && kind != "holder" {
			kind = string(account)
		}
		sums[kind] += units
	}
	all := make([]Balance, 0, len(sums))
	for account, units := range sums {
		all = append(all, Balance{account, units})
	}
	slices.SortFunc(all, func(a, b Balance) int { return strings.Compare(a.Account, b.Account) })
	return all
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
		return Report{}, fault.New(fault.ReportNotFound, "The books have not been compared yet. Do so at POST /api/admin/reconcile.")
	}
	return report, nil
}
