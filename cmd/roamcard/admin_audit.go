package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// auditExport writes all that `audit list` lists, whole and as it comes.
func (b *buyer) auditExport(service protoreflect.ServiceDescriptor) *cobra.Command {
	o := &operation{Command: &roamcardv1.Command{}, b: b, method: service.Methods().ByName("ListAudit")}
	var format string
	cmd := &cobra.Command{
		Use: "export", Args: noArgs, Short: "Write the audit trail to standard output, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			req, err := o.request(cmd, nil)
			if err != nil {
				return err
			}
			all := client.Admin().Audit(cmd.Context(), req.Interface().(*roamcardv1.ListAuditRequest))
			if format == "csv" {
				return exportCSV(cmd.OutOrStdout(), all)
			}
			return exportNDJSON(cmd.OutOrStdout(), all)
		}),
	}
	o.flags(cmd)
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

// exportCSV writes a record as a row.
func exportCSV(w io.Writer, all iter.Seq2[*roamcardv1.AuditRecord, error]) error {
	head := []string{"id", "at", "actor", "action", "subject", "reason", "before", "after"}
	return writeRows(w, head, func(yield func([]string, error) bool) {
		for r, err := range all {
			cells := []string{
				r.GetId(), r.GetAt().AsTime().Format(time.RFC3339Nano), r.GetActor(), r.GetAction(), r.GetSubject(),
				r.GetReason(), r.GetBefore(), r.GetAfter(),
			}
			if !yield(cells, err) {
				return
			}
		}
	})
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
