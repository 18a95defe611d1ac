package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/clients/agent"
)

// show prints a message: as the service's JSON, without secrets, or as text for people.
func (b *buyer) show(cmd *cobra.Command, m proto.Message, text func(w io.Writer)) error {
	if b.asJSON {
		return b.showJSON(cmd, m)
	}
	tidy(m)
	return b.showText(cmd, text)
}

// showText prints lines of columns.
func (b *buyer) showText(cmd *cobra.Command, text func(w io.Writer)) error {
	return writeColumns(cmd.OutOrStdout(), text)
}

// writeColumns writes lines whose cells are separated by tabs.
func writeColumns(to io.Writer, text func(w io.Writer)) error {
	w := tabwriter.NewWriter(printable{to}, 0, 4, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// showJSON prints a document, always spelled the same.
func (b *buyer) showJSON(cmd *cobra.Command, v any) error { return writeJSON(cmd.OutOrStdout(), v) }

func writeJSON(w io.Writer, v any) error {
	document, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = w.Write(append(escaped(document), '\n'))
	return err
}

// dollars shows cents.
func dollars(cents uint32) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// openBrowser opens the file that leads to a page. Its address goes to stderr in any case: there may be no browser
// here. It is no secret, but only this user can read the file.
func openBrowser(ctx context.Context, w io.Writer, url string) {
	fmt.Fprintf(w, "Open %s within a minute; it shows once.\n", url)
	_ = agent.OpenBrowser(nil)(ctx, url) // the person has the address
}
