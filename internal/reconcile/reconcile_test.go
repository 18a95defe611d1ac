package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/x402"
)

// desk is every port in memory. Between two looks it does what a test says.
type desk struct {
	safe      uint64
	asked     [][2]uint64
	records   Records
	statement Statement
	meanwhile func(*desk)
	down      error
	report    *Report
	acts      []string
}

func (d *desk) Safe(context.Context) (uint64, error) { return d.safe, d.down }

func (d *desk) Transfers(_ context.Context, _ x402.Address, from, to uint64) ([]Transfer, error) {
	d.asked = append(d.asked, [2]uint64{from, to})
	return nil, nil
}

func (d *desk) Statement(context.Context) (Statement, error) {
	s := d.statement
	if d.meanwhile != nil {
		d.meanwhile(d)
		d.meanwhile = nil
	}
	return s, nil
}

func (d *desk) Scanned(context.Context) (Scan, error) { return d.records.Scan, nil }

func (d *desk) Arrive(_ context.Context, first, next uint64, _ []Transfer) error {
	d.records.Scan = Scan{First: first, Next: max(next, d.records.Scan.Next), Begun: true}
	return nil
}

func (d *desk) Records(context.Context) (Records, error) { return d.records, nil }

func (d *desk) Post(_ context.Context, all []ledger.Posting) error {
	d.records.Postings = append(slices.Clone(d.records.Postings), all...)
	return nil
}

func (d *desk) Keep(_ context.Context, r Report) error { d.report = &r; return nil }

func (d *desk) Last(context.Context) (Report, bool, error) {
	if d.report == nil {
		return Report{}, false, d.down
	}
	return *d.report, true, d.down
}

func (d *desk) Audit(_ context.Context, operator, action string) error {
	d.acts = append(d.acts, operator+" "+action)
	return nil
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func (d *desk) reconciler() *Reconciler {
	return New(Config{Chain: d, Issuer: d, Arrivals: d, Books: d, Reports: d, Now: func() time.Time { return noon }})
}

func (d *desk) run(t *testing.T) Report {
	t.Helper()
	r, err := d.reconciler().Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWhatHappensBetweenTwoReadingsIsNoDifference places an order after our books are read and before the issuer's are.
func TestWhatHappensBetweenTwoReadingsIsNoDifference(t *testing.T) {
	after, statement := good()
	before := after
	before.Orders = slices.Concat(after.Orders[:2], after.Orders[3:])
	before.Payments = slices.Concat(after.Payments[:2], after.Payments[3:])
	before.Postings = slices.Concat(after.Postings[:4], after.Postings[5:])
	loadOpen(&statement)
	d := &desk{records: before, statement: statement, safe: 99, meanwhile: func(d *desk) { d.records = after }}
	if r := d.run(t); len(r.Findings) > 0 {
		t.Errorf("found %+v", r.Findings)
	}
	// Without the order it stays a difference.
	d = &desk{records: before, statement: statement, safe: 99}
	if r := d.run(t); len(r.Findings) != 1 || r.Findings[0].Code != ProviderUnknown {
		t.Errorf("found %+v", r.Findings)
	}
}

func TestASecondRunFindsTheSameAndPostsNothing(t *testing.T) {
	records, statement := good()
	records.Arrivals = append(records.Arrivals, Transfer{Transaction: x402.Hash{0xdd}, Block: 50, From: bob, Value: 7})
	statement.Accounts[0].Loaded++
	d := &desk{records: records, statement: statement, safe: 99}
	first := d.run(t)
	posted := len(d.records.Postings)
	second := d.run(t)
	if len(d.records.Postings) != posted || posted != len(records.Postings)+1 {
		t.Errorf("%d postings at first, %d after the first run, %d after the second", len(records.Postings), posted, len(d.records.Postings))
	}
	second.Checked.Postings--
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second report differs (-first +second):\n%s", diff)
	}
	if len(first.Findings) != 2 || !first.Blocks() || first.At != noon {
		t.Errorf("report %+v", first)
	}
}

func TestTheChainIsReadInStepsFromWhereItWasLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		at   Scan
		safe uint64
		want [][2]uint64
		end  Scan
	}{
		"the first time":                       {Scan{}, 5000, [][2]uint64{{5000, 5000}}, Scan{First: 5000, Next: 5001, Begun: true}},
		"the first time, with payments":        {Scan{Oldest: 900}, 5000, [][2]uint64{{900, 2899}, {2900, 4899}, {4900, 5000}}, Scan{First: 900, Next: 5001, Begun: true}},
		"the first time, with one of a moment": {Scan{Oldest: 6000}, 5000, [][2]uint64{{5000, 5000}}, Scan{First: 5000, Next: 5001, Begun: true}},
		"later":                                {Scan{First: 10, Next: 1000, Begun: true}, 1100, [][2]uint64{{700, 1100}}, Scan{First: 10, Next: 1101, Begun: true}},
		"soon after the first":                 {Scan{First: 990, Next: 1000, Begun: true}, 1001, [][2]uint64{{990, 1001}}, Scan{First: 990, Next: 1002, Begun: true}},
		"the first block":                      {Scan{}, 0, [][2]uint64{{0, 0}}, Scan{First: 0, Next: 1, Begun: true}},
		"a node far behind":                    {Scan{First: 10, Next: 1000, Begun: true}, 600, nil, Scan{First: 10, Next: 1000, Begun: true}},
	} {
		d := &desk{records: Records{Scan: tt.at}, safe: tt.safe}
		r := d.run(t)
		if diff := cmp.Diff(tt.want, d.asked); diff != "" || d.records.Scan != tt.end {
			t.Errorf("%s: ends at %+v (-want +got):\n%s", name, d.records.Scan, diff)
		}
		if r.FirstBlock != tt.end.First || r.LastBlock != tt.end.Next-1 {
			t.Errorf("%s: reports blocks %d to %d", name, r.FirstBlock, r.LastBlock)
		}
	}
}

func TestABookThatCannotBeReadLeavesTheLastReport(t *testing.T) {
	d := &desk{down: errors.New("no answer")}
	_, err := d.reconciler().RunFor(t.Context(), "ada")
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != fault.DependencyDown || d.report != nil {
		t.Errorf("%v, report %v", err, d.report)
	}
	d.down = nil
	if _, err := d.reconciler().LastFor(t.Context(), "ada"); !errors.As(err, &f) || f.Code != fault.ReportNotFound {
		t.Errorf("before the first report: %v", err)
	}
	d.run(t)
	if r, err := d.reconciler().LastFor(t.Context(), "ada"); err != nil || r.At != noon {
		t.Errorf("%+v, %v", r, err)
	}
	if want := []string{"ada treasury.reconcile", "ada treasury.report", "ada treasury.report"}; !slices.Equal(d.acts, want) {
		t.Errorf("audited %q", d.acts)
	}
}

func TestTheGateFollowsTheLastReport(t *testing.T) {
	d := &desk{}
	now := noon
	gate := &Gate{Reports: d, MaxAge: 30 * time.Minute, Now: func() time.Time { return now }}
	is := func(what string, want fault.Code) {
		t.Helper()
		now = now.Add(gateTTL)
		var got fault.Code
		if f, ok := errors.AsType[*fault.Fault](gate.Open(t.Context())); ok {
			got = f.Code
		}
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	is("before the first report", "")
	d.report = &Report{At: now}
	is("books that agree", "")
	d.report.Findings = []Finding{{Code: TransferUnmatched}, {Code: ProviderReversed}}
	is("a stray transfer and a reversal", "")
	d.report.Findings = append(d.report.Findings, Finding{Code: PostingMissing, Blocks: true})
	is("a missing posting", fault.TreasuryUnreconciled)
	d.report.Findings = nil
	is("mended books", "")
	now = d.report.At.Add(30*time.Minute - gateTTL)
	is("an old report", "")
	is("a report too old", fault.TreasuryUnreconciled)
	d.down = errors.New("no answer")
	now = now.Add(gateTTL)
	if err := gate.Open(t.Context()); err == nil {
		t.Error("open while nobody knows")
	}
}
