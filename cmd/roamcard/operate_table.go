package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// show shows an answer: what it is about, where it has nothing else, or the rows of its list.
func (o *operation) show(cmd *cobra.Command, w io.Writer, res proto.Message) error {
	output, err := cmd.Flags().GetString("output")
	if err != nil {
		return err
	}
	switch {
	case o.b.asJSON || output == "json":
		return writeJSON(w, documentOf(res, viewFor(res) != nil))
	case output == "csv":
		return writeCSV(w, subjectOf(res))
	}
	tidy(res)
	return writeColumns(w, func(w io.Writer) { viewOf(w, res, isRead(o.method)) })
}

// documentOf is an answer as JSON shows it: without secrets, but for a token that was minted, which is shown on
// purpose.
func documentOf(res proto.Message, whole bool) any {
	if minted, ok := res.(*roamcardv1.MintTokenResponse); ok {
		return struct {
			Token  *roamcardv1.OperatorToken `json:"token"`
			Secret string                    `json:"secret,omitempty"`
		}{minted.GetToken(), minted.GetSecret()}
	}
	if whole {
		return res
	}
	return subjectOf(res)
}

// isRead says that a method changes nothing.
func isRead(method protoreflect.MethodDescriptor) bool {
	options, _ := method.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// subjectOf is what an answer is about: its one message, or the answer itself.
func subjectOf(res proto.Message) proto.Message {
	m := res.ProtoReflect()
	if fields := m.Descriptor().Fields(); fields.Len() == 1 {
		if f := fields.Get(0); f.Kind() == protoreflect.MessageKind && !f.IsList() && m.Has(f) {
			return m.Get(f).Message().Interface()
		}
	}
	return res
}

// viewOf shows an answer to people: whole, or what a table has of it.
func viewOf(w io.Writer, res proto.Message, whole bool) {
	if view := viewFor(res); view != nil {
		view(w)
		return
	}
	about := subjectOf(res)
	if listOf(about.ProtoReflect().Descriptor()) != nil {
		head, rows := tableOf(about, false)
		for _, row := range append([][]string{head}, rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		return
	}
	head, rows := tableOf(about, whole)
	for i, cell := range rows[0] {
		if cell != "" {
			fmt.Fprintf(w, "%s\t%s\n", strings.ToLower(head[i]), cell)
		}
	}
	if may, ok := about.(interface{ GetPendingApproval() *roamcardv1.Approval }); ok {
		pendingText(w, may.GetPendingApproval())
	}
	if may, ok := about.(interface {
		GetAllowedActions() []*roamcardv1.AllowedAction
	}); ok {
		actionsText(w, may.GetAllowedActions())
	}
}

// pendingText says that a decision has not taken effect. One that another decision has overtaken never does.
func pendingText(w io.Writer, a *roamcardv1.Approval) {
	switch {
	case a.GetOutdated():
		fmt.Fprintf(w, "asked for before this, outdated\troamcard admin approvals reject %s --reason …\n", a.GetId())
	case a.GetStatus() == "pending":
		fmt.Fprintf(w, "waits for a second operator\troamcard admin approvals approve %s --reason …\n", a.GetId())
	}
}

// tableOf are the heading and the rows of a list, or of one message: of all their fields where whole is set, or no
// table says which.
func tableOf(of proto.Message, whole bool) (head []string, rows [][]string) {
	m, row := of.ProtoReflect(), of.ProtoReflect().Descriptor()
	list := listOf(row)
	if list != nil {
		row = list.Message()
	}
	var columns []string
	if !whole {
		columns = optionOf[*roamcardv1.Table](row, roamcardv1.E_Table).GetColumns()
	}
	if columns == nil {
		for i := range row.Fields().Len() {
			columns = append(columns, string(row.Fields().Get(i).Name()))
		}
	}
	for _, c := range columns {
		head = append(head, heading(c))
	}
	each := func(m protoreflect.Message) (cells []string) {
		for _, c := range columns {
			var parts []string
			for _, path := range strings.Split(c, "/") {
				parts = append(parts, cellAt(m, path))
			}
			cells = append(cells, strings.Join(parts, "/"))
		}
		return cells
	}
	if list == nil {
		return head, [][]string{each(m)}
	}
	for i := range m.Get(list).List().Len() {
		rows = append(rows, each(m.Get(list).List().Get(i).Message()))
	}
	return head, rows
}

// heading is the heading of a column.
func heading(column string) string {
	var all []string
	for _, part := range strings.Split(column, "/") {
		name := part[strings.LastIndex(part, ".")+1:]
		if cents, ok := strings.CutSuffix(name, "_usd_cents"); ok {
			name = strings.TrimPrefix(cents+"_usd", "amount_")
		} else if isUSDC(name) {
			name = strings.TrimSuffix(name, "amount") + "usdc"
		}
		for _, unit := range []string{"_id", "_at", "_ms", "_seconds"} {
			name = strings.TrimSuffix(name, unit)
		}
		all = append(all, strings.ToUpper(strings.ReplaceAll(name, "_", " ")))
	}
	return strings.Join(all, "/")
}

// isUSDC says that a field is an amount in the token's atomic units, a decimal string.
func isUSDC(name string) bool { return name == "amount" || strings.HasSuffix(name, "_amount") }

// micros shows an amount in millionths of a dollar in dollars; what is none as it is.
func micros(units string) string {
	n, err := strconv.ParseInt(units, 10, 64)
	if err != nil {
		return units
	}
	return roamcard.USDC(n).Dollars()
}

// cellAt is the text of a field, or of one of a message below.
func cellAt(m protoreflect.Message, path string) string {
	name, rest, below := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if below {
		return cellAt(m.Get(f).Message(), rest)
	}
	if f.HasPresence() && !m.Has(f) || f.IsList() {
		return ""
	}
	v := m.Get(f)
	switch {
	case f.Kind() == protoreflect.BoolKind:
		return map[bool]string{true: "yes", false: "no"}[v.Bool()]
	case f.Kind() == protoreflect.MessageKind:
		if at, ok := v.Message().Interface().(interface{ AsTime() time.Time }); ok {
			return at.AsTime().Format("2006-01-02 15:04:05")
		}
		return ""
	case strings.HasSuffix(name, "_usd_cents"):
		return dollars(uint32(v.Uint()))
	case isUSDC(name):
		return micros(v.String())
	case strings.HasSuffix(name, "_ms"):
		return (time.Duration(v.Uint()) * time.Millisecond).String()
	case isDuration(f):
		return (time.Duration(v.Uint()) * time.Second).String()
	}
	return v.String()
}

// writeCSV writes a table by RFC 4180.
func writeCSV(w io.Writer, of proto.Message) error {
	head, rows := tableOf(of, false)
	return writeRows(w, head, func(yield func([]string, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	})
}

// writeRows writes rows by RFC 4180, as they come.
func writeRows(w io.Writer, head []string, rows iter.Seq2[[]string, error]) error {
	out := csv.NewWriter(w)
	_ = out.Write(head) // Flush has the error
	for row, err := range rows {
		if err != nil {
			return err
		}
		for i := range row {
			row[i] = inert(row[i])
		}
		if err := out.Write(row); err != nil {
			return fmt.Errorf("write a row: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	return nil
}
