package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) whoAmI() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Args: noArgs, Short: "Show whose token it is, its role, and when it expires",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().WhoAmI(cmd.Context(), &roamcardv1.WhoAmIRequest{})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s\n", res.GetOperator(), res.GetRole())
				if res.ExpiresAt != nil {
					fmt.Fprintf(w, "expires\t%s\n", res.GetExpiresAt().AsTime().Format(time.RFC3339))
				}
			})
		}),
	}
}

func (b *buyer) audit() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Args: noArgs, Short: "What operators did", RunE: help}
	cmd.AddCommand(b.auditList(), b.auditExport())
	return cmd
}

// auditFilters are the flags that select audit records.
type auditFilters struct{ actor, action, subject, since, until string }

func (f *auditFilters) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.actor, "actor", "", "only what this operator did")
	cmd.Flags().StringVar(&f.action, "action", "", "only actions of this name, such as order.decide")
	cmd.Flags().StringVar(&f.subject, "subject", "", "only what was done to this order, job, card or product")
	cmd.Flags().StringVar(&f.since, "since", "", "the earliest time, such as 2026-05-04T10:00:00Z")
	cmd.Flags().StringVar(&f.until, "until", "", "the first time that is too late")
}

func (f *auditFilters) request() *roamcardv1.ListAuditRequest {
	return &roamcardv1.ListAuditRequest{
		Actor: given(f.actor), Action: given(f.action), Subject: given(f.subject), Since: given(f.since),
		Until: given(f.until),
	}
}

func (b *buyer) auditList() *cobra.Command {
	var filters auditFilters
	var most int
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the newest records of the audit trail",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			var found []*roamcardv1.AuditRecord
			for r, err := range client.Admin().Audit(cmd.Context(), filters.request()) {
				if err != nil {
					return err
				}
				if found = append(found, r); len(found) == most {
					break
				}
			}
			return b.show(cmd, &roamcardv1.ListAuditResponse{Records: found}, func(w io.Writer) {
				fmt.Fprintln(w, "AT\tBY\tACTION\tSUBJECT\tREASON")
				for _, r := range found {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.GetAt().AsTime().Format("2006-01-02 15:04:05"), r.GetActor(),
						r.GetAction(), r.GetSubject(), r.GetReason())
				}
			})
		}),
	}
	filters.flags(cmd)
	cmd.Flags().IntVar(&most, "most", 50, "how many to list")
	return cmd
}

func (b *buyer) auditExport() *cobra.Command {
	var filters auditFilters
	var format string
	cmd := &cobra.Command{
		Use: "export", Args: noArgs, Short: "Write the audit trail to standard output, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			write, ok := map[string]func(io.Writer, iter.Seq2[*roamcardv1.AuditRecord, error]) error{
				"ndjson": exportNDJSON, "csv": exportCSV,
			}[format]
			if !ok {
				return fmt.Errorf("%w: the format is ndjson or csv", errUsage)
			}
			return write(cmd.OutOrStdout(), client.Admin().Audit(cmd.Context(), filters.request()))
		}),
	}
	filters.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "ndjson", "ndjson or csv")
	choose(cmd, "format", "ndjson", "csv")
	return cmd
}

// exportNDJSON writes a record as JSON on each line.
func exportNDJSON(w io.Writer, all iter.Seq2[*roamcardv1.AuditRecord, error]) error {
	for r, err := range all {
		if err != nil {
			return err
		}
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode the record: %w", err)
		}
		if _, err := w.Write(append(escaped(line), '\n')); err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
	}
	return nil
}

// exportCSV writes a record as a row of RFC 4180.
func exportCSV(w io.Writer, all iter.Seq2[*roamcardv1.AuditRecord, error]) error {
	rows := csv.NewWriter(w)
	_ = rows.Write([]string{"id", "at", "actor", "action", "subject", "reason", "before", "after"}) // Flush has the error
	for r, err := range all {
		if err != nil {
			return err
		}
		cells := []string{
			r.GetId(), r.GetAt().AsTime().Format(time.RFC3339Nano), r.GetActor(), r.GetAction(), r.GetSubject(),
			r.GetReason(), r.GetBefore(), r.GetAfter(),
		}
		for i := range cells {
			cells[i] = inert(cells[i])
		}
		if err := rows.Write(cells); err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
	}
	rows.Flush()
	if err := rows.Error(); err != nil {
		return fmt.Errorf("write the records: %w", err)
	}
	return nil
}

// formula is how a text begins that a spreadsheet runs: some skip what is not seen in front, and read wide signs as
// others. A tab or a line's end in front may leave the rest to a cell of its own.
var formula = regexp.MustCompile(`^[\p{Z}\p{C}]*(?:[\t\r\n]|[=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])`)

// inert is a text that neither a terminal obeys nor a spreadsheet runs as a formula: that gets an apostrophe in front.
// The console's csv.ts has the same rule.
func inert(cell string) string {
	var shown strings.Builder
	_, _ = printable{&shown}.Write([]byte(cell)) // a Builder does not fail
	if cell = shown.String(); formula.MatchString(cell) {
		return "'" + cell
	}
	return cell
}

func (b *buyer) gauges() *cobra.Command {
	return &cobra.Command{
		Use: "gauges", Args: noArgs, Short: "Show floats, accounts, jobs and the nodes of the chain, as they are now",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().GetGauges(cmd.Context(), &roamcardv1.GetGaugesRequest{})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) { gaugesText(w, res) })
		}),
	}
}

func (b *buyer) summary() *cobra.Command {
	return &cobra.Command{
		Use: "summary", Args: noArgs, Short: "Count what waits for operators: orders, jobs, findings and transfers",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			res, err := client.Admin().GetSummary(cmd.Context(), &roamcardv1.GetSummaryRequest{})
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) { summaryText(w, res) })
		}),
	}
}

func summaryText(w io.Writer, s *roamcardv1.GetSummaryResponse) {
	for _, o := range s.GetOrders() {
		fmt.Fprintf(w, "orders\t%d %s %s since %s\n", o.GetCount(), o.GetKind(), o.GetStatus(),
			o.GetSince().AsTime().Format("2006-01-02 15:04"))
	}
	for _, j := range s.GetStoppedJobs() {
		fmt.Fprintf(w, "jobs\t%d %s %s\n", j.GetCount(), j.GetKind(), j.GetStatus())
	}
	fmt.Fprintf(w, "findings\t%d open, %d blocking\n", s.GetOpenFindings(), s.GetBlockingFindings())
	fmt.Fprintf(w, "transfers\t%d open\n", s.GetOpenTransfers())
}

func gaugesText(w io.Writer, g *roamcardv1.GetGaugesResponse) {
	fmt.Fprintf(w, "as of\t%s\n", g.GetAsOf().AsTime().Format("2006-01-02 15:04:05 MST"))
	for _, f := range g.GetFloats() {
		fmt.Fprintf(w, "float\t%s: %s USDC units\n", f.GetProvider(), f.GetUnits())
	}
	for _, a := range g.GetAccounts() {
		if a.Wei != nil {
			fmt.Fprintf(w, "%s\t%s: %s wei\n", a.GetName(), a.GetAddress(), a.GetWei())
		}
		if a.Units != nil {
			fmt.Fprintf(w, "%s\t%s: %s USDC units\n", a.GetName(), a.GetAddress(), a.GetUnits())
		}
	}
	for _, j := range g.GetJobs() {
		fmt.Fprintf(w, "jobs\t%d %s %s since %s\n", j.GetCount(), j.GetKind(), j.GetStatus(),
			j.GetOldest().AsTime().Format("2006-01-02 15:04"))
	}
	for _, n := range g.GetNodes() {
		fmt.Fprintf(w, "node\t%s: block %d, %d s old\n", n.GetNode(), n.GetBlock(), n.GetAgeSeconds())
	}
}
