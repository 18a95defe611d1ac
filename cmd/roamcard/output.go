package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
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
	w := tabwriter.NewWriter(printable{cmd.OutOrStdout()}, 0, 4, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// showJSON prints a document, always spelled the same.
func (b *buyer) showJSON(cmd *cobra.Command, v any) error {
	document, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = cmd.OutOrStdout().Write(append(escaped(document), '\n'))
	return err
}

// dollars shows cents.
func dollars(cents uint32) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// openBrowser shows a page. The address goes to stderr in any case: there may be no browser here.
func openBrowser(w io.Writer, url string) {
	fmt.Fprintf(w, "Open %s within a minute; it shows once.\n", url)
	name := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	if name == "" {
		name = "xdg-open"
	}
	if path, err := exec.LookPath(name); err == nil &&
		(runtime.GOOS != "linux" || os.Getenv("DISPLAY")+os.Getenv("WAYLAND_DISPLAY") != "") {
		if c := exec.Command(path, url); c.Start() == nil {
			go func() { _ = c.Wait() }() // the browser's exit code does not matter
		}
	}
}
