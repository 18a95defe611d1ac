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

// given is a text, or nothing when it is empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
