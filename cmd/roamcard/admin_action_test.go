package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// TestActionSaysThatItWaits: what needs a second operator has not taken effect, and no action may leave that out.
func TestActionSaysThatItWaits(t *testing.T) {
	t.Setenv("ROAMCARD_JOURNAL", t.TempDir())
	for status, waits := range map[string]bool{"pending": true, "approved": false} {
		b := &buyer{}
		root := &cobra.Command{Use: "admin"}
		b.flags(root)
		root.AddCommand(action[*roamcardv1.CardClosing]{
			use: "close CARD", short: "Close a card",
			do: func(context.Context, roamcard.Admin, []string, string) (*roamcardv1.CardClosing, error) {
				return &roamcardv1.CardClosing{
					Id: "a-closing", PendingApproval: &roamcardv1.Approval{Id: "an-approval", Status: status},
				}, nil
			},
			text: func(w io.Writer, c *roamcardv1.CardClosing) { _, _ = io.WriteString(w, c.GetId()+"\n") },
		}.command(b))
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"close", "a-card", "--url", "http://127.0.0.1:1"})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, "a-closing") ||
			strings.Contains(got, "admin approvals approve an-approval") != waits {
			t.Errorf("%s: %q", status, got)
		}
	}
}
