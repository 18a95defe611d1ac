package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/roamcard/roamcard/internal/secret"
)

// shown is one setting as `config show` prints it.
type shown struct {
	Key    string `json:"key"`
	Env    string `json:"env"`
	Value  string `json:"value"`
	Source string `json:"source"`
	Help   string `json:"help"`
}

// ShowConfig prints every setting with its value and source. Secrets are printed as "[redacted]".
func ShowConfig(path string, asJSON bool, out io.Writer) error {
	file, err := readFile(path)
	if err != nil {
		return err
	}
	var all []shown
	for _, s := range settings() {
		value, source, err := s.value(file, os.LookupEnv, readValue)
		switch {
		case err != nil:
			value, source = err.Error(), "error"
		case value == "":
			source = "not set"
		case value == none:
			value = ""
		default:
			value = s.show(value)
		}
		all = append(all, shown{Key: s.key, Env: s.env(), Value: value, Source: source, Help: s.help})
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, s.Value, s.Source)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// What is wrong with the configuration is not told here.
	if c, _ := Load(file, os.LookupEnv, readValue); c.CheckRouting() == nil {
		_, err = fmt.Fprintf(out, "\nROUTING\n%s\n", strings.Join(c.RoutingInEffect(), "\n"))
	}
	return err
}

// nodesShown are the URLs of nodes without what may be a key: all but scheme and host.
func nodesShown(list string) string {
	var all []string
	for part := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil || u.Host == "":
			all = append(all, secret.Redacted)
		case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
			all = append(all, u.Scheme+"://"+u.Host+"/"+secret.Redacted)
		default:
			all = append(all, u.String())
		}
	}
	return strings.Join(all, ",")
}

// InitConfig prints a configuration file with every setting: required ones are empty, the others are commented out with
// their defaults. Secrets belong in the environment, or in files that variables with the suffix _FILE name.
func InitConfig(out io.Writer) error {
	var b strings.Builder
	b.WriteString("# Settings of `roamcard serve` and `roamcard worker`. The environment goes before this file.\n")
	for _, s := range settings() {
		fmt.Fprintf(&b, "\n# %s\n", s.help)
		switch {
		case s.secret:
			fmt.Fprintf(&b, "# a secret: set %s, or %s_FILE\n", s.env(), s.env())
		case s.byDefault == "":
			fmt.Fprintf(&b, "%s: \"\"\n", s.key)
		case s.byDefault == none:
			fmt.Fprintf(&b, "# %s:\n", s.key)
		default:
			fmt.Fprintf(&b, "# %s: %q\n", s.key, s.byDefault)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
