package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/roamcard/roamcard/clients/agent"
)

const devKey = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

// away is home, in a new folder where nothing is installed.
func away(t *testing.T) string {
	t.Helper()
	home(t)
	dir := t.TempDir()
	for name, value := range map[string]string{
		"HOME": dir, "XDG_CONFIG_HOME": "", "CODEX_HOME": "", "ROAMCARD_AGENT_CONFIG": "", "ROAMCARD_KEYSTORE": "",
		"ROAMCARD_KEYSTORE_PASSPHRASE_FILE": "", "ROAMCARD_KEYCHAIN": "", "PATH": filepath.Join(dir, "bin"),
	} {
		t.Setenv(name, value)
	}
	t.Chdir(dir)
	return dir
}

func private(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// publishing is a service that publishes a payee and a token.
func publishing(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"baseUrl": "http://x", "network": {"payTo": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
			"asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "network": "eip155:8453"}}`))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestWalletKeystorePays(t *testing.T) {
	dir := away(t)
	pass := private(t, filepath.Join(dir, "pass"), "correct horse\n")
	key := private(t, filepath.Join(dir, "key"), "0x"+devKey+"\n")
	out, stderr, code := runWith(t, "wallet", "import", "--keystore", "--passphrase-file", "pass", "--from", key, "--json")
	var kept struct {
		Address string
		Signer  json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &kept); err != nil || code != exitOK ||
		kept.Address != "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266" {
		t.Fatalf("%d, %v\n%s\n%s", code, err, out, stderr)
	}
	file := filepath.Join(dir, ".config", "roamcard", "keystore.json")
	if runtime.GOOS == "linux" && !strings.Contains(string(kept.Signer), file) {
		t.Errorf("signer: %s", kept.Signer)
	}
	if strings.Contains(out+stderr, devKey[:16]) || strings.Contains(out+stderr, "horse") {
		t.Errorf("it tells a secret: %s%s", out, stderr)
	}
	if _, stderr, code := runWith(t, "wallet", "new", "--keystore", "--passphrase-file", "pass"); code != exitFailure ||
		!strings.Contains(stderr, "already") {
		t.Errorf("a second one: %d %s", code, stderr)
	}
	t.Setenv("ROAMCARD_KEYSTORE", file)
	t.Setenv("ROAMCARD_KEYSTORE_PASSPHRASE_FILE", pass)
	if out, stderr, code := runWith(t, "wallet", "address"); code != exitOK || strings.TrimSpace(out) != kept.Address {
		t.Errorf("%d, %s %s", code, out, stderr)
	}
	if err := os.Chmod(pass, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runWith(t, "wallet", "address"); code != exitFailure || !strings.Contains(stderr, "chmod 600") {
		t.Errorf("a readable passphrase: %d %s", code, stderr)
	}
}

func TestWalletWithoutAKeychainNamesTheAlternative(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have a keychain")
	}
	dir := away(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(dir, "no-bus")) // what headless Linux has: nothing
	pass := private(t, filepath.Join(dir, "pass"), "correct horse\n")
	out, stderr, code := runWith(t, "wallet", "new", "--keychain", "--passphrase-file", pass)
	if code != exitOK || !strings.HasPrefix(out, "0x") || !strings.Contains(stderr, "no keychain that answers") ||
		!strings.Contains(stderr, "Fallback: an encrypted keystore") {
		t.Fatalf("%d\n%s\n%s", code, out, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, ".config", "roamcard", "keystore.json")); err != nil {
		t.Error(err)
	}
	if _, stderr, code := runWith(t, "wallet", "new", "--keychain", "--keystore-file", "other"); code != exitFailure ||
		!strings.Contains(stderr, "passphraseFile") {
		t.Errorf("without a passphrase: %d %s", code, stderr)
	}
}

func TestWalletKeychainKeepsAKey(t *testing.T) {
	away(t)
	keyring.MockInit()
	made, stderr, code := runWith(t, "wallet", "new", "--keychain")
	if code != exitOK || !strings.Contains(stderr, `{"address":"`+strings.TrimSpace(made)+`","keychain":"wallet"}`) {
		t.Fatalf("%d\n%s\n%s", code, made, stderr)
	}
	t.Setenv("ROAMCARD_KEYCHAIN", "wallet")
	if out, stderr, code := runWith(t, "wallet", "address"); code != exitOK || out != made {
		t.Errorf("%d, %s %s", code, out, stderr)
	}
}

func TestInstallShowsAsksAndChangesOnce(t *testing.T) {
	dir := away(t)
	url := publishing(t)
	file := filepath.Join(dir, ".cursor", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	private(t, file, "{\n  // mine\n  \"mcpServers\": {\"x\": {\"command\": \"y\"}}\n}\n")
	args := []string{
		"mcp", "install", "--client", "cursor", "--command", "roamcard", "--url", url, "--max", "10", "--max-day", "30.50",
	}

	if _, stderr, code := runWith(t, args...); code != exitUsage || !strings.Contains(stderr, `"roamcard": {`) ||
		!strings.Contains(stderr, "--yes") {
		t.Errorf("without somebody to ask: %d %s", code, stderr)
	}
	if out, _, code := runWith(t, append(args, "--print")...); code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("printed: %d %s", code, out)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "roamcard") {
		t.Errorf("changed before anybody said yes: %s, %v", text, err)
	}
	_, stderr, code := runWith(t, append(args, "--yes")...)
	text, err := os.ReadFile(file)
	if code != exitOK || err != nil || !strings.Contains(string(text), "// mine") ||
		!strings.Contains(string(text), `["mcp", "serve"]`) {
		t.Fatalf("%d %s, %v\n%s", code, text, err, stderr)
	}
	settings := filepath.Join(dir, ".config", "roamcard", "agent.json")
	var got map[string]any
	first, err := os.ReadFile(settings)
	if err == nil {
		err = json.Unmarshal(first, &got)
	}
	if info, failed := os.Stat(settings); err != nil || failed != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", err, failed)
	}
	if got["origin"] != url || got["payTo"] != "0x70997970C51812dc3A010C7d01b50e0d17dc79C8" ||
		got["mode"] != "human_approval" ||
		got["maxPerPaymentUsdCents"] != 1000.0 || got["maxPerDayUsdCents"] != 3050.0 || got["presenter"] != "browser" {
		t.Errorf("settings: %s", first)
	}
	if _, err := agent.ReadSettings(settings); err != nil {
		t.Errorf("the server reads them: %v", err)
	}
	if _, stderr, code := runWith(t, append(args, "--yes", "--max", "99")...); code != exitOK ||
		strings.Count(stderr, "nothing changes") != 1 ||
		!strings.Contains(stderr, "stay as they are") || !strings.Contains(stderr, "--max is for new settings") {
		t.Errorf("again: %d %s", code, stderr)
	}
	after, err := os.ReadDir(filepath.Dir(file))
	second, failed := os.ReadFile(settings)
	if err != nil || failed != nil || len(after) != 2 || string(second) != string(first) {
		t.Errorf("a second time left %v, %v, %s, %v", after, err, second, failed)
	}
	unusable := strings.Replace(string(first), "human_approval", "autonomus", 1)
	if err := os.WriteFile(settings, []byte(unusable), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runWith(t, append(args, "--yes")...); code == exitOK ||
		!strings.Contains(stderr, "delete it and run") {
		t.Errorf("over settings that cannot be used: %d %s", code, stderr)
	}
}

func TestInstallPrintsTheEntryForAFileItCannotParse(t *testing.T) {
	dir := away(t)
	file := private(t, filepath.Join(dir, "config.toml"), "mcp_servers = { a = { command = 'b' } }\n")
	_, stderr, code := runWith(t, "mcp", "install", "--client", "codex", "--command", "roamcard", "--file", file, "--yes")
	if code != exitFailure || !strings.Contains(stderr, "[mcp_servers.roamcard]") ||
		!strings.Contains(stderr, "left as it is") {
		t.Errorf("%d %s", code, stderr)
	}
	if _, stderr, code := runWith(t, "mcp", "install", "--client", "emacs"); code != exitUsage ||
		!strings.Contains(stderr, "claude-desktop") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestInstallLetsClaudeCodeWriteItsSettings has a program in place of Claude Code's, which keeps what it is told in a
// file.
func TestInstallLetsClaudeCodeWriteItsSettings(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	dir := away(t)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROAMCARD_WALLET_KEY", "not-for-other-programs")
	const claude = `#!/bin/sh
[ -z "$ROAMCARD_WALLET_KEY" ] || exit 9
if [ "$2" = get ]; then
  [ -f added ] || exit 1
  printf 'roamcard:\n  Type: stdio\n  Command: roamcard\n  Args: mcp serve\n'
  exit
fi
echo "$@" >added
`
	if err := os.WriteFile(filepath.Join(bin, "claude"), []byte(claude), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	args := []string{"mcp", "install", "--client", "claude", "--command", "roamcard", "--no-settings"}
	if out, _, code := runWith(t, append(args, "--print")...); code != exitOK ||
		out != "claude mcp add roamcard -- roamcard mcp serve\n" {
		t.Errorf("%d %s", code, out)
	}
	if _, stderr, code := runWith(t, append(args, "--yes")...); code != exitOK {
		t.Fatalf("%d %s", code, stderr)
	}
	if text, err := os.ReadFile("added"); err != nil || string(text) != "mcp add roamcard -- roamcard mcp serve\n" {
		t.Errorf("%s, %v", text, err)
	}
	if _, stderr, code := runWith(t, append(args, "--yes")...); code != exitOK ||
		!strings.Contains(stderr, "nothing changes") {
		t.Errorf("again: %d %s", code, stderr)
	}
	if _, stderr, code := runWith(t, append(args, "--yes", "--command", "/elsewhere")...); code != exitFailure ||
		!strings.Contains(stderr, "mcp remove roamcard") {
		t.Errorf("another server: %d %s", code, stderr)
	}
	if err := os.Remove(filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runWith(t, append(args, "--yes")...); code != exitOK {
		t.Fatalf("without the program: %d %s", code, stderr)
	}
	if text, err := os.ReadFile(".mcp.json"); err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
}
