package install

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var server = Entry{Name: "roamcard", Command: "roamcard", Args: []string{"mcp", "serve"}}

func client(t *testing.T, name string) Client {
	t.Helper()
	c, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// file is a client's file with a text.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEntryIsWhatTheClientsDocument(t *testing.T) {
	const servers = `{"mcpServers":{"roamcard":{"command":"roamcard","args":["mcp","serve"]}}}`
	for name, want := range map[string]string{
		"claude": servers, "claude-desktop": servers, "cursor": servers,
		"vscode": `{"servers":{"roamcard":{"type":"stdio","command":"roamcard","args":["mcp","serve"]}}}`,
	} {
		var got, expected any
		if err := errors.Join(json.Unmarshal([]byte(client(t, name).Text(server)), &got),
			json.Unmarshal([]byte(want), &expected)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got, want := client(t, "codex").Text(server), "[mcp_servers.roamcard]\ncommand = \"roamcard\"\nargs = [\"mcp\", "+
		"\"serve\"]\n"; got != want {
		t.Errorf("codex: %s", got)
	}
	if _, err := Find("emacs"); err == nil || !strings.Contains(err.Error(), "claude-desktop") {
		t.Errorf("an unknown client: %v", err)
	}
}

func TestFileIsWhereEachClientLooks(t *testing.T) {
	set := map[string]string{}
	at := place{os: "linux", home: "/home/u", work: "/work", env: func(name string) string { return set[name] }}
	expect := func(name, want string) {
		t.Helper()
		got, err := client(t, name).path(at)
		if err != nil || got != filepath.FromSlash(want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	expect("claude", "/work/.mcp.json")
	expect("vscode", "/work/.vscode/mcp.json")
	expect("cursor", "/home/u/.cursor/mcp.json")
	expect("codex", "/home/u/.codex/config.toml")
	expect("claude-desktop", "/home/u/.config/Claude/claude_desktop_config.json")
	set["CODEX_HOME"], set["XDG_CONFIG_HOME"], set["APPDATA"] = "/codex", "/xdg", "/data"
	expect("codex", "/codex/config.toml")
	expect("claude-desktop", "/xdg/Claude/claude_desktop_config.json")
	at.os = "darwin"
	expect("claude-desktop", "/home/u/Library/Application Support/Claude/claude_desktop_config.json")
	at.os = "windows"
	expect("claude-desktop", "/data/Claude/claude_desktop_config.json")
}

// changed is the file's text with the entry, which is there to stay: a second time changes nothing.
func changed(t *testing.T, c Client, old string) (string, error) {
	t.Helper()
	path := file(t, old)
	change, err := c.Plan(path, server)
	if err != nil {
		return "", err
	}
	if again, err := c.Plan(file(t, string(change.New)), server); err != nil || !again.None() {
		t.Errorf("a second time: %v\n%s", err, again.New)
	}
	return string(change.New), nil
}

func TestPlanChangesNothingButTheEntry(t *testing.T) {
	const roamcard = `"roamcard": {
      "command": "roamcard",
      "args": ["mcp", "serve"]
    }`
	for name, tt := range map[string]struct{ client, old, want string }{
		"an empty file":   {"cursor", "\n", "{\n  \"mcpServers\": {\n    " + roamcard + "\n  }\n}\n"},
		"an empty object": {"cursor", "{}", "{\n  \"mcpServers\": {\n    " + roamcard + "\n  }\n}"},
		"other settings": {"claude-desktop", "{\n  \"b\": 1.50,\n  \"a\": \"\\u00e4\"\n}\n",
			"{\n  \"b\": 1.50,\n  \"a\": \"\\u00e4\",\n  \"mcpServers\": {\n    " + roamcard + "\n  }\n}\n"},
		"another server": {"cursor", "{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"}\n  },\n  \"z\": []\n}",
			"{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"},\n    " + roamcard + "\n  },\n  \"z\": []\n}"},
		"tabs and carriage returns": {"cursor", "{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": {}\r\n\t}\r\n}\r\n",
			"{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": {},\r\n\t\t\"roamcard\": {\r\n\t\t\t\"command\": " +
				"\"roamcard\",\r\n\t\t\t\"args\": [\"mcp\", \"serve\"]\r\n\t\t}\r\n\t}\r\n}\r\n"},
		"one line": {
			"cursor", `{"mcpServers":{"x":{}}}`,
			"{\"mcpServers\":{\"x\":{},\n  \"roamcard\": {\n    \"command\": \"roamcard\",\n    \"args\": [\"mcp\", " +
				"\"serve\"]\n  }\n}}",
		},
		"comments and final commas": {"vscode",
			"// mine\n{\n  /* all */\n  \"servers\": {\n    \"x\": {\"url\": \"http://a/*b*/\"}, // keep, \"this\"\n  }, // " +
				"and this\n}\n",
			"// mine\n{\n  /* all */\n  \"servers\": {\n    \"x\": {\"url\": \"http://a/*b*/\"}, // keep, \"this\"\n    " +
				"\"roamcard\": {\n      \"type\": \"stdio\",\n      \"command\": \"roamcard\",\n      \"args\": [\"mcp\", " +
				"\"serve\"]\n    }\n  }, // and this\n}\n"},
		"a comment behind the last server": {"vscode", "{\"servers\": {\n  \"x\": {} // keep\n}}",
			"{\"servers\": {\n  \"x\": {}, // keep\n  \"roamcard\": {\n    \"type\": \"stdio\",\n    \"command\": " +
				"\"roamcard\",\n    \"args\": [\"mcp\", \"serve\"]\n  }\n}}"},
		"an older entry keeps what is not ours": {"cursor",
			`{"mcpServers": {"roamcard": {"command": "/old/roamcard", /* env */ "env": {"A": "b"}, "args": ["mcp", "serve"]}}}`,
			`{"mcpServers": {"roamcard": {"command": "roamcard", /* env */ "env": {"A": "b"}, "args": ["mcp", "serve"]}}}`},
		"an entry in other words": {"cursor",
			`{"mcpServers": {"roamcard": {"args": [ "mcp","serve" ], "command": "ro\u0061mcard"}}}`,
			`{"mcpServers": {"roamcard": {"args": [ "mcp","serve" ], "command": "ro\u0061mcard"}}}`},
		"no TOML yet": {"codex", "", "[mcp_servers.roamcard]\ncommand = \"roamcard\"\nargs = [\"mcp\", \"serve\"]\n"},
		"TOML with more": {
			"codex", "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = 'b'",
			"model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = 'b'\n\n[mcp_servers.roamcard]\ncommand = \"roamcard\"\nargs = " +
				"[\"mcp\", \"serve\"]\n",
		},
		"an older table": {"codex",
			"[mcp_servers.roamcard]\n# mine\nstartup_timeout_sec = 20\n  command = '/old' # " +
				"here\n\n[mcp_servers.roamcard.env]\ncommand = \"x\"\n",
			"[mcp_servers.roamcard]\nargs = [\"mcp\", \"serve\"]\n# mine\nstartup_timeout_sec = 20\n  command = \"roamcard\"# " +
				"here\n\n[mcp_servers.roamcard.env]\ncommand = \"x\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := changed(t, client(t, tt.client), tt.old)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanRefusesAFileThatItCannotParse(t *testing.T) {
	for name, tt := range map[string]struct{ client, old string }{
		"cut off":                {"cursor", `{"mcpServers": {`},
		"a list":                 {"cursor", `[]`},
		"two objects":            {"cursor", `{} {}`},
		"servers in a list":      {"cursor", `{"mcpServers": []}`},
		"a server that is none":  {"cursor", `{"mcpServers": {"roamcard": "x"}}`},
		"a remote server":        {"cursor", `{"mcpServers": {"roamcard": {"url": "https://x"}}}`},
		"two lists of servers":   {"cursor", `{"mcpServers": {}, "mcpServers": {}}`},
		"an endless comment":     {"vscode", `{"servers": {} /* }`},
		"two commas":             {"vscode", `{"servers": {},, }`},
		"no commas":              {"vscode", `{"servers": {} "x": 1}`},
		"very deep":              {"vscode", strings.Repeat("[", 100_000)},
		"no TOML":                {"codex", "model = \n"},
		"servers in one line":    {"codex", `mcp_servers = { a = { command = "b" } }`},
		"a table in dotted keys": {"codex", "mcp_servers.roamcard.command = 'x'\n"},
		"arguments in lines":     {"codex", "[mcp_servers.roamcard]\nargs = [\n 'x',\n]\ncommand = 'y'\n"},
		"a header in a text":     {"codex", "a = '''\n[mcp_servers.roamcard]\n'''\n[mcp_servers.roamcard]\ncommand = 'x'\n"},
		"a remote table":         {"codex", "[mcp_servers.roamcard]\nurl = 'https://x'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := changed(t, client(t, tt.client), tt.old); !errors.Is(err, ErrManual) {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

// FuzzEntryChangesNothingElse holds that whatever comes out says what went in and the entry; enterJSON compares that
// itself, so this looks for panics, and for a second time that changes something.
func FuzzEntryChangesNothingElse(f *testing.F) {
	for _, s := range []string{
		"", "{}", `{"servers":{"x":{},}}`, "// a\n{/**/}", `{"servers":{"roamcard":{"args":[]}}}`, "\ufeff{ }",
	} {
		f.Add(s)
	}
	c, err := Find("vscode")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, old string) {
		text, err := enterJSON([]byte(old), c.Key, server.Name, c.members(server))
		if err != nil {
			return
		}
		again, err := enterJSON(text, c.Key, server.Name, c.members(server))
		if err != nil || string(again) != string(text) {
			t.Errorf("%q, then %q, then %q, %v", old, text, again, err)
		}
	})
}

func TestWriteReplacesTheFileAndKeepsACopy(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	real := file(t, `{"a": 1}`)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	change, err := client(t, "cursor").Plan(link, server)
	if err != nil {
		t.Fatal(err)
	}
	backup, err := change.Write(now)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(backup); err != nil || string(kept) != `{"a": 1}` {
		t.Errorf("backup %s, %v", kept, err)
	}
	if text, err := os.ReadFile(real); err != nil || string(text) != string(change.New) {
		t.Errorf("%s, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if info, err := os.Stat(real); err != nil || (info.Mode().Perm() != 0o640 && runtime.GOOS != "windows") {
		t.Errorf("the mode: %v, %v", info, err)
	}
	again, err := client(t, "cursor").Plan(link, server)
	if err != nil || !again.None() {
		t.Errorf("%v", err)
	}
	if backup, err := again.Write(now); err != nil || backup != "" {
		t.Errorf("%q, %v", backup, err)
	}
}

func TestWriteKeepsAFileThatChangedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "mcp.json")
	change, err := client(t, "cursor").Plan(path, server)
	if err != nil || change.None() {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := change.Write(time.Now()); err == nil {
		t.Error("written over what came meanwhile")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
