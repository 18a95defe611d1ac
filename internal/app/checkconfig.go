package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
)

// CheckConfig prints every mistake of a file and the environment together, as `serve` would find them at its start. It
// connects to nothing. It is ErrNotReady when there is a mistake.
func CheckConfig(path string, asJSON bool, out io.Writer) error {
	_, err := LoadFile(path)
	mistakes := lines(err)
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(struct {
			OK       bool     `json:"ok"`
			Mistakes []string `json:"mistakes"`
		}{len(mistakes) == 0, mistakes})
	} else {
		err = printMistakes(mistakes, out)
	}
	if err != nil {
		return err
	}
	if len(mistakes) > 0 {
		return fmt.Errorf("%w: the configuration has %d mistakes", ErrNotReady, len(mistakes))
	}
	return nil
}

func printMistakes(mistakes []string, out io.Writer) error {
	if len(mistakes) == 0 {
		_, err := fmt.Fprintln(out, "no mistakes; roamcard doctor asks what it names")
		return err
	}
	_, err := fmt.Fprintln(out, strings.Join(mistakes, "\n"))
	return err
}

// lines are the lines of an error: of joined ones, one for each. They are never nil.
func lines(err error) []string {
	if err == nil {
		return []string{}
	}
	return strings.Split(err.Error(), "\n")
}

// unusable are the settings that can be read and are of no use.
func (c Config) unusable() (wrong []error) {
	wrong = append(wrong, c.keyMistakes(false)...)
	wrong = append(wrong, c.databaseMistakes()...)
	for _, of := range []struct{ key, addr string }{
		{"addr", c.Addr}, {"metrics.addr", c.MetricsAddr}, {"admin.addr", c.AdminAddr},
		{"console.addr", c.ConsoleAddr},
	} {
		if _, _, err := net.SplitHostPort(of.addr); of.addr != "" && err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %q is not host:port", of.key, of.addr))
		}
	}
	return wrong
}
