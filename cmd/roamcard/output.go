package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// show prints a message: as the service's JSON, or as text for people.
func (b *buyer) show(cmd *cobra.Command, m proto.Message, text func(w io.Writer)) error {
	if !b.asJSON {
		w := tabwriter.NewWriter(printable{cmd.OutOrStdout()}, 0, 4, 2, ' ', 0)
		text(w)
		return w.Flush()
	}
	data, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return b.showJSON(cmd, json.RawMessage(data))
}

// printable drops the control characters of what others wrote: a terminal would obey them.
type printable struct{ to io.Writer }

// Write implements io.Writer.
func (p printable) Write(text []byte) (int, error) {
	clean := bytes.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError:
			return -1
		}
		return r
	}, text)
	if _, err := p.to.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}

// showJSON prints a document, always spelled the same.
func (b *buyer) showJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
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
	if path, err := exec.LookPath(name); err == nil && (runtime.GOOS != "linux" || os.Getenv("DISPLAY")+os.Getenv("WAYLAND_DISPLAY") != "") {
		if c := exec.Command(path, url); c.Start() == nil {
			go func() { _ = c.Wait() }() // what the browser does after is not ours to judge
		}
	}
}
