package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// records yields audit records, and then an error if there is one.
func records(err error, all ...*roamcardv1.AuditRecord) iter.Seq2[*roamcardv1.AuditRecord, error] {
	return func(yield func(*roamcardv1.AuditRecord, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func text(s string) *string { return &s }

var hostileRecords = []*roamcardv1.AuditRecord{
	{Id: "1", Actor: "ann", Action: "order.decide", Subject: "ord_1", Reason: text("two\nlines, \"quoted\""),
		After: text(`{"status":"fulfilled"}`)},
	{Id: "2", Actor: "bob", Action: "switch.set", Subject: "esim", Reason: text("=HYPERLINK(\"http://evil\")")},
	{Id: "3", Actor: "bob", Action: "switch.set", Subject: "esim", Reason: text("\x1b]0;title\x07@SUM(A1)")},
}

func TestAuditIsExportedAsLinesOfJSON(t *testing.T) {
	var out bytes.Buffer
	if err := exportNDJSON(&out, records(nil, hostileRecords...)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(hostileRecords) || strings.ContainsAny(out.String(), "\x1b\x07") {
		t.Fatalf("%q", out.String())
	}
	for i, line := range lines {
		var got struct{ ID, Actor, Reason string }
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.ID != hostileRecords[i].GetId() ||
			got.Reason != hostileRecords[i].GetReason() {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
}

// TestAuditIsExportedAsInertCSV: whatever an operator wrote, a spreadsheet runs nothing, and a terminal obeys nothing.
func TestAuditIsExportedAsInertCSV(t *testing.T) {
	var out bytes.Buffer
	if err := exportCSV(&out, records(nil, hostileRecords...)); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07") {
		t.Errorf("%q", out.String())
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 1+len(hostileRecords) {
		t.Fatalf("%q, %v", rows, err)
	}
	var reasons []string
	for _, row := range rows[1:] {
		reasons = append(reasons, row[5])
	}
	want := []string{"two\nlines, \"quoted\"", "'=HYPERLINK(\"http://evil\")", "'@SUM(A1)"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Error(diff)
	}
}

// TestCellsThatSpreadsheetsRunAreQuoted: some of them skip what stands in front and is not seen.
func TestCellsThatSpreadsheetsRunAreQuoted(t *testing.T) {
	for _, cell := range []string{
		"=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\nx", " =1+1", "   +1", "\u00a0-1", "\u3000@A1", " \t=1", "\u200c=1",
		"\uff1d1+1", " \uff0b1", "\uff0d1", "\uff20A1",
	} {
		if got := inert(cell); got != "'"+cell {
			t.Errorf("%q is shown as %q", cell, got)
		}
	}
	// What the terminal obeys is left out before.
	for cell, want := range map[string]string{
		"\r=1": "'=1", "\ufeff=1": "'=1", "\x1b[1m =1": "' =1", "": "", " ": " ", "a=1": "a=1", "  two": "  two",
		"1-1": "1-1", `{"a":-1}`: `{"a":-1}`, "'=1": "'=1",
	} {
		if got := inert(cell); got != want {
			t.Errorf("%q is shown as %q, want %q", cell, got, want)
		}
	}
}

func TestConsoleQuotesTheSameCells(t *testing.T) {
	text, err := os.ReadFile("../../web/src/console/csv.ts")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^const formula = /(.*)/u;$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("csv.ts has no formula")
	}
	got := regexp.MustCompile(`\\u([0-9A-F]{4})`).ReplaceAllString(string(found[1]), `\x{$1}`)
	if got != formula.String() {
		t.Errorf("the console quotes %s, and the command %s", got, formula)
	}
}

func TestExportFailsWhereTheListDoes(t *testing.T) {
	lost := errors.New("the connection was lost")
	for name, export := range map[string]func(*bytes.Buffer) error{
		"ndjson": func(b *bytes.Buffer) error { return exportNDJSON(b, records(lost, hostileRecords[0])) },
		"csv":    func(b *bytes.Buffer) error { return exportCSV(b, records(lost, hostileRecords[0])) },
	} {
		if err := export(new(bytes.Buffer)); !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
