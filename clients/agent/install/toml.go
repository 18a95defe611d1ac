package install

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tomlTable is a server's table by itself.
func tomlTable(key string, e Entry) string {
	return "[" + key + "." + tomlName(e.Name) + "]\n" + tomlLines(e)
}

func tomlLines(e Entry) string {
	return "command = " + quoted(e.Command) + "\nargs = " + member{value: e.Args}.text() + "\n"
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlName(name string) string {
	if bare.MatchString(name) {
		return name
	}
	return quoted(name) // JSON's escapes are TOML's, too
}

// enterTOML appends the server's table, or sets the two lines of the existing one. It edits lines; a parser then checks
// that the file has what it had before and the entry, and nothing else.
func enterTOML(old []byte, key string, e Entry) ([]byte, error) {
	before, err := parseTOML(old)
	if err != nil {
		return nil, err
	}
	if parent, is := before[key].(map[string]any); before[key] != nil && !is {
		return nil, fmt.Errorf("%s is no table", key)
	} else if there, is := parent[e.Name].(map[string]any); parent[e.Name] != nil && !is {
		return nil, fmt.Errorf("%s.%s is no table", key, e.Name)
	} else if there["url"] != nil {
		return nil, errors.New("its entry of this name is a remote server; take another --name")
	}
	want := withServer(before, key, e)
	again, err := parseTOML(old)
	if err == nil && reflect.DeepEqual(again, want) {
		return old, nil
	}
	text := setLines(string(old), key, e)
	after, err := parseTOML([]byte(text))
	if err != nil || !reflect.DeepEqual(after, want) {
		return nil, errors.New("its servers are written in a way that would have to be rewritten")
	}
	return []byte(text), nil
}

func parseTOML(text []byte) (map[string]any, error) {
	v := map[string]any{}
	if err := toml.Unmarshal(text, &v); err != nil {
		return nil, errors.New("it is not TOML") // the parser's error quotes the file
	}
	return v, nil
}

// withServer is what the file must contain afterwards.
func withServer(v map[string]any, key string, e Entry) map[string]any {
	servers, _ := v[key].(map[string]any)
	if servers == nil {
		servers = map[string]any{}
		v[key] = servers
	}
	entry, _ := servers[e.Name].(map[string]any)
	if entry == nil {
		entry = map[string]any{}
		servers[e.Name] = entry
	}
	args := make([]any, len(e.Args))
	for i, a := range e.Args {
		args[i] = a
	}
	entry["command"], entry["args"] = e.Command, args
	return v
}

func setLines(text, key string, e Entry) string {
	newline := "\n"
	if strings.Contains(text, "\r\n") {
		newline = "\r\n"
	}
	header := regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*` + key + `[ \t]*\.[ \t]*"?` + regexp.QuoteMeta(e.Name) +
		`"?[ \t]*\][^\n]*\n?`)
	at := header.FindStringIndex(text)
	if at == nil {
		gap := ""
		switch {
		case text == "":
		case !strings.HasSuffix(text, "\n"):
			gap = newline + newline
		default:
			gap = newline
		}
		return text + gap + strings.ReplaceAll(tomlTable(key, e), "\n", newline)
	}
	head, rest := text[:at[1]], text[at[1]:]
	if !strings.HasSuffix(head, "\n") {
		head += newline
	}
	table, tail := rest, ""
	if next := regexp.MustCompile(`(?m)^[ \t]*\[`).FindStringIndex(rest); next != nil {
		table, tail = rest[:next[0]], rest[next[0]:]
	}
	// From the last to the first: a line that is missing goes to the top.
	for _, m := range []member{{"args", e.Args}, {"command", e.Command}} {
		line := regexp.MustCompile(`(?m)^([ \t]*)` + m.name + `[ \t]*=[^#\r\n]*`)
		if was := line.FindStringIndex(table); was != nil {
			white, _ := lineStart(table, was[1])
			table = table[:was[0]] + white + m.name + " = " + m.text() + table[was[1]:]
		} else {
			table = m.name + " = " + m.text() + newline + table
		}
	}
	return head + table + tail
}
