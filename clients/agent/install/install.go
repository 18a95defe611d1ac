// Package install adds the local MCP server to the settings of agents' programs, and keeps everything else in them:
// order, white space, comments, other servers.
package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Entry is how a program starts the server. It never holds a key.
type Entry struct {
	// Name is what the server is called, "roamcard".
	Name    string
	Command string
	Args    []string
}

// Client is a program whose settings name MCP servers.
type Client struct {
	// Name is that of the command line, Title that of people.
	Name, Title string
	// Key is the member that holds the servers.
	Key string
	// typed entries say that they are started, not called.
	typed bool
	toml  bool
	path  func(place) (string, error)
}

// place is where files belong on this machine.
type place struct {
	os, home, work string
	env            func(string) string
}

// Clients are all known programs.
var Clients = []Client{
	{Name: "claude", Title: "Claude Code", Key: "mcpServers", path: func(p place) (string, error) {
		return filepath.Join(p.work, ".mcp.json"), nil
	}},
	{Name: "claude-desktop", Title: "Claude Desktop", Key: "mcpServers", path: claudeDesktop},
	{Name: "cursor", Title: "Cursor", Key: "mcpServers", path: func(p place) (string, error) {
		return filepath.Join(p.home, ".cursor", "mcp.json"), nil
	}},
	{Name: "vscode", Title: "Visual Studio Code", Key: "servers", typed: true, path: func(p place) (string, error) {
		return filepath.Join(p.work, ".vscode", "mcp.json"), nil
	}},
	{Name: "codex", Title: "Codex", Key: "mcp_servers", toml: true, path: func(p place) (string, error) {
		if home := p.env("CODEX_HOME"); home != "" {
			return filepath.Join(home, "config.toml"), nil
		}
		return filepath.Join(p.home, ".codex", "config.toml"), nil
	}},
}

func claudeDesktop(p place) (string, error) {
	const name = "claude_desktop_config.json"
	switch p.os {
	case "darwin":
		return filepath.Join(p.home, "Library", "Application Support", "Claude", name), nil
	case "windows":
		data := p.env("APPDATA")
		if data == "" {
			return "", errors.New("find Claude Desktop's settings: APPDATA is not set")
		}
		return filepath.Join(data, "Claude", name), nil
	}
	if config := p.env("XDG_CONFIG_HOME"); config != "" {
		return filepath.Join(config, "Claude", name), nil
	}
	return filepath.Join(p.home, ".config", "Claude", name), nil
}

// Names lists the clients as the command line spells them.
func Names() []string {
	names := make([]string, len(Clients))
	for i, c := range Clients {
		names[i] = c.Name
	}
	return names
}

// Find is the client of a name.
func Find(name string) (Client, error) {
	i := slices.IndexFunc(Clients, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, fmt.Errorf("there is no client %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return Clients[i], nil
}

// File is the client's file on this machine: of the user, or of the folder that the command runs in where the client
// keeps its servers by project.
func (c Client) File() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the settings of %s: %w", c.Title, err)
	}
	work, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the settings of %s: %w", c.Title, err)
	}
	return c.path(place{os: runtime.GOOS, home: home, work: work, env: os.Getenv})
}

// Text is the entry by itself, to be pasted.
func (c Client) Text(e Entry) string {
	if c.toml {
		return tomlTable(c.Key, e)
	}
	return jsonDocument(c.Key, c.members(e), e.Name)
}

// Change is what a file would become.
type Change struct {
	// File is the file itself: links were followed.
	File string
	// Old is its text, and Existed whether there was one.
	Old     []byte
	Existed bool
	New     []byte
}

// None says that the entry is there already.
func (c Change) None() bool { return c.Existed && string(c.Old) == string(c.New) }

// ErrManual says that a file cannot be changed without risk to what else is in it: its owner pastes the entry.
var ErrManual = errors.New("the file was left as it is")

// Plan reads the file and enters the server, in memory only. A file that is damaged, or written in a way that this
// package cannot change without touching the rest, is ErrManual.
func (c Client) Plan(file string, e Entry) (Change, error) {
	change := Change{File: file}
	// A link, as dotfiles have them, stays one: what it points to changes.
	if real, err := filepath.EvalSymlinks(file); err == nil {
		change.File = real
	}
	text, err := os.ReadFile(change.File)
	switch {
	case err == nil:
		change.Old, change.Existed = text, true
	case !errors.Is(err, fs.ErrNotExist):
		return change, fmt.Errorf("read the settings of %s: %w", c.Title, err)
	}
	if c.toml {
		change.New, err = enterTOML(change.Old, c.Key, e)
	} else {
		change.New, err = enterJSON(change.Old, c.Key, e.Name, c.members(e))
	}
	if err != nil {
		return change, fmt.Errorf("%w: %s: %w", ErrManual, file, err)
	}
	return change, nil
}

// members are the entry's, in their order.
func (c Client) members(e Entry) []member {
	m := []member{{"command", e.Command}, {"args", e.Args}}
	if c.typed {
		m = append([]member{{"type", "stdio"}}, m...)
	}
	return m
}
