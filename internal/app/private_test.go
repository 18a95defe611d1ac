package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/secret/custody"
)

// TestConfigurationFileWithSecretsIsPrivate: one that has none itself may be read by anybody.
func TestConfigurationFileWithSecretsIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	const key = "0a1b2c3d4e5f60718293"
	for text, held := range map[string]bool{
		"quote.key: hunter2":                                                true,
		"quote:\n  key: hunter2":                                            true,
		"relayer.keys: " + strings.Repeat("1f", 32):                         true,
		"relayer.keys: file:/etc/a, 0x" + strings.Repeat("1f", 32):          true,
		"treasury.key: web3signer:https://u:hunter2@a.example#" + account:   true,
		"database.url: postgres://u:hunter2@db/d":                           true,
		"database.url: host=db password=hunter2":                            true,
		"chain.rpc_url: https://a.example,https://b.example/v2/" + key:      true,
		"chain.rpc_url: https://u:hunter2@b.example":                        true,
		"screening.lists: /etc/list,https://a.example/l?key=hunter2":        true,
		"facilitator.url: https://hunter2@a.example":                        true,
		"facilitator.key_secret: hunter2":                                   true,
		"relayer.keys: file:/etc/a,env:A,keystore:/etc/k#env:P":             false,
		"relayer.keys: awskms:alias/a,web3signer:https://a#" + account:      false,
		"facilitator.key_secret: file:/etc/a":                               false,
		"facilitator.key_secret: env:CDP_KEY":                               false,
		"treasury.retired: '" + account + "'":                               false,
		"database.url: postgres://u@db/d?sslmode=verify-full":               false,
		"chain.rpc_url: https://a.example,https://b.example/v2":             false,
		"screening.lists: /etc/list,https://a.example/sanctions.txt":        false,
		"quote.key: \"\"\nrelayer.keys: \"-\"\nbase_url: https://a.example": false,
	} {
		for mode, open := range map[fs.FileMode]bool{
			0o600: false, 0o400: false, 0o640: false, 0o440: false, 0o644: true, 0o444: true, 0o660: true, 0o604: true,
		} {
			path := write(t, "roamcard.yaml", text+"\n", mode)
			_, err := readFile(path)
			if (err != nil) != (held && open) {
				t.Errorf("%s, mode %#o: %v", text, mode, err)
			}
			setting, _, _ := strings.Cut(strings.ReplaceAll(text, ":\n  ", "."), ":")
			if said := fmt.Sprint(err); err != nil && (!strings.Contains(said, "run chmod 600 "+path) ||
				!strings.Contains(said, setting) || strings.Contains(said, "hunter2")) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	// Every command that reads it says so.
	path := write(t, "roamcard.yaml", "quote.key: hunter2\n", 0o644)
	var out bytes.Buffer
	err := CheckConfig(path, false, &out)
	if !errors.Is(err, ErrNotReady) || !strings.Contains(out.String(), "chmod 600") {
		t.Errorf("config check: %v, %s", err, out.String())
	}
	if err := ShowConfig(path, false, &out); err == nil {
		t.Error("config show: no error")
	}
}

const account = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"

// TestFileOfASecretIsPrivate: a group may read it, as the chart mounts secrets for the group of the container. What is
// no secret may be read by anybody.
func TestFileOfASecretIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	for mode, open := range map[fs.FileMode]bool{
		0o400: false, 0o600: false, 0o440: false, 0o640: false, 0o444: true, 0o404: true, 0o660: true, 0o601: true,
	} {
		for _, c := range []struct {
			key, text string
			secret    bool
		}{
			{"issuer.key", "hunter2", true}, {"operators", "ops:" + strings.Repeat("ab", 32), true},
			{"chain.rpc_url", "https://u:hunter2@a.example", true}, {"chain.rpc_url", "https://a.example", false},
			{"log.level", "debug", false},
		} {
			path := write(t, "value", c.text+"\n", mode)
			t.Setenv(setting{key: c.key}.env()+"_FILE", path)
			_, err := LoadFile("")
			said := fmt.Sprint(err)
			told := strings.Contains(said, c.key+" (") && strings.Contains(said, "chmod 600 "+path)
			if told != (c.secret && open) || strings.Contains(said, "hunter2") {
				t.Errorf("%s in a file of mode %#o: %v", c.key, mode, err)
			}
			t.Setenv(setting{key: c.key}.env()+"_FILE", "")
		}
	}
	t.Setenv("ROAMCARD_OPERATOR_TOKEN_FILE", write(t, "token", "hunter2", 0o644))
	if got, err := Env("ROAMCARD_OPERATOR_TOKEN"); err == nil || got != "" {
		t.Errorf("a token that anybody reads: %q, %v", got, err)
	}
}

// TestFileIsForeignWhereAnotherUserCanChangeIt, but in a mount of a container, whose owner is a user of its machine.
func TestFileIsForeignWhereAnotherUserCanChangeIt(t *testing.T) {
	other := os.Geteuid() + 1
	for _, c := range []struct {
		of               fileFacts
		exposed, foreign bool
	}{
		{fileFacts{mode: 0o600, owner: os.Geteuid()}, false, false},
		{fileFacts{mode: 0o600, owner: 0}, false, false},
		{fileFacts{mode: 0o600, owner: -1}, false, false},
		{fileFacts{mode: 0o600, owner: other}, false, true},
		{fileFacts{mode: 0o440, owner: other, sealed: true}, false, false},
		{fileFacts{mode: 0o444, owner: other, sealed: true}, true, false},
		{fileFacts{mode: 0o444, owner: 0, sealed: true}, false, false},
		{fileFacts{mode: 0o444, owner: 0}, true, false},
		{fileFacts{mode: 0o644 | fs.ModeNamedPipe, owner: other}, false, false},
	} {
		if got := c.of.exposed() != nil; got != c.exposed && runtime.GOOS != "windows" {
			t.Errorf("%+v is exposed: %t", c.of, got)
		}
		if got := c.of.foreign() != nil; got != c.foreign {
			t.Errorf("%+v is foreign: %t", c.of, got)
		}
	}
	f, err := os.Open(write(t, "a", "a", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	if err != nil || isSealed(f, info) {
		t.Errorf("a file that can be written is sealed, %v", err)
	}
	if owner := ownerOf(info); owner != os.Geteuid() && owner != -1 {
		t.Errorf("its owner is %d", owner)
	}
}

func TestErrorsOfYAMLQuoteNoValues(t *testing.T) {
	for _, text := range []string{
		"hunter2", "- hunter2\n- hunter2", "a: [hunter2", "a: hunter2: b", "\"hunter2", "? [hunter2]\n: hunter2",
		"1: hunter2", "a: *hunter2", "a: !!int hunter2", "a: !!int hunter2`'\"hunter2", "hunter2`\n  hunter2",
	} {
		_, err := readFile(write(t, "roamcard.yaml", text, 0o600))
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(path); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// TestSecretOfACommandIsItsUsers: a key or a token of a command's environment, in a file that others could put another
// one in the place of.
func TestSecretOfACommandIsItsUsers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "key")
	if err := os.WriteFile(path, []byte("a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROAMCARD_WALLET_KEY_FILE", path)
	if key, err := Env("ROAMCARD_WALLET_KEY"); key != "a key" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := Env("ROAMCARD_WALLET_KEY")
	if _, ok := errors.AsType[*custody.ExposedError](err); !ok || !strings.Contains(err.Error(), folder) {
		t.Error(err)
	}
}
