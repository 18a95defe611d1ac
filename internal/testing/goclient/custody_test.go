package goclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// custodyCases are what the clients of all languages refuse alike, and in which words.
type custodyCases struct {
	Journals []custodyCase
	Secrets  []struct {
		Name, Mode, Refused string
		Owner               int
	}
}

type custodyCase struct {
	Name string
	Make []struct {
		Folder, File, Link, To, Mode string
		Owner                        int
	}
	// Home is the user's, if it is not the machine's; Absent is what is not made.
	Home, Journal, Absent string
	// Refused is why the journal is neither read nor changed, Locked why it is not changed.
	Refused, Locked string
}

func custodyCasesOf(t *testing.T) (c custodyCases) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing here")
	}
	data, err := os.ReadFile("../../../clients/testing/custody.json")
	if err := errors.Join(err, json.Unmarshal(data, &c)); err != nil {
		t.Fatal(err)
	}
	return c
}

// made makes what a case is about below root. What is another user's can be made by root alone.
func (c custodyCase) made(t *testing.T, root string) {
	t.Helper()
	for _, m := range c.Make {
		path := filepath.Join(root, m.Folder+m.File+m.Link)
		var err error
		switch {
		case m.Folder != "":
			err = os.Mkdir(path, 0o700)
		case m.Link != "":
			err = os.Symlink(strings.ReplaceAll(m.To, "{root}", root), path)
		default:
			err = os.WriteFile(path, []byte(contentOf(m.File)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Owner != 0 {
			give(t, path, m.Owner)
		}
		if m.Mode != "" {
			changeMode(t, path, m.Mode)
		}
	}
}

// contentOf is an empty journal, or a lock that was let go.
func contentOf(name string) string {
	if strings.HasSuffix(name, ".json") {
		return `{"schema": "roamcard.journal", "version": 2, "payees": {}, "purchases": {}}`
	}
	return "0"
}

func give(t *testing.T, path string, owner int) {
	t.Helper()
	if err := os.Lchown(path, owner, -1); err != nil {
		t.Skipf("nothing can be given away here: %v", err)
	}
}

func changeMode(t *testing.T, path, mode string) {
	t.Helper()
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	to := fs.FileMode(bits & 0o777)
	if bits&0o1000 != 0 {
		to |= fs.ModeSticky
	}
	if err := os.Chmod(path, to); err != nil {
		t.Fatal(err)
	}
}

// Who can write the journal, or put another one in its place, decides what is paid.
func TestJournalThatOthersMayWriteIsRefused(t *testing.T) {
	for _, c := range custodyCasesOf(t).Journals {
		t.Run(c.Name, func(t *testing.T) {
			root := t.TempDir()
			c.made(t, root)
			if c.Home != "" {
				t.Setenv("HOME", filepath.Join(root, c.Home))
			}
			says := func(pattern string) string {
				return strings.NewReplacer("{root}", root, "{user}", strconv.Itoa(os.Geteuid())).Replace(pattern)
			}
			store, err := roamcard.NewFileStore(filepath.Join(root, c.Journal))
			if want := says(c.Refused); !toldAs(err, want) {
				t.Errorf("%v, want %q", err, want)
			}
			if store == nil || c.Refused != "" {
				if _, err := os.Lstat(filepath.Join(root, c.Absent)); c.Absent != "" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there: %v", c.Absent, err)
				}
				return
			}
			if err := store.Update(t.Context(), notes("a")); !toldAs(err, says(c.Locked)) {
				t.Errorf("%v, want %q", err, says(c.Locked))
			}
			if c.Locked == "" {
				noted(t, filepath.Join(root, c.Journal), "a")
			}
		})
	}
}

// What was opened is looked at again with each use.
func TestJournalThatIsOpenedToOthersLaterIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing here")
	}
	above := t.TempDir()
	store := journalIn(t, filepath.Join(above, "journal"))
	if err := os.Chmod(above, 0o777); err != nil {
		t.Fatal(err)
	}
	_, reading := store.Read(t.Context())
	for _, err := range []error{reading, store.Update(t.Context(), notes("a"))} {
		if !isJournalError(err, roamcard.JournalExposed) || !strings.Contains(err.Error(), above) {
			t.Error(err)
		}
	}
}

// toldAs says whether an error is an exposed journal's with this text; no error when there is none.
func toldAs(err error, want string) bool {
	if want == "" {
		return err == nil
	}
	return isJournalError(err, roamcard.JournalExposed) && strings.HasSuffix(err.Error(), ": "+want)
}

func TestKeyFileThatOthersMayUseIsRefused(t *testing.T) {
	for _, c := range custodyCasesOf(t).Secrets {
		t.Run(c.Name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, []byte(strings.Repeat("46", 32)), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.Owner != 0 {
				give(t, file, c.Owner)
			}
			changeMode(t, file, c.Mode)
			t.Setenv("ROAMCARD_WALLET_KEY_FILE", file)
			_, err := roamcard.FromEnv(roamcard.Config{
				BaseURL: "https://roamcard.example", Store: roamcard.NewMemoryStore(),
			})
			want := strings.NewReplacer("{file}", file, "{user}", strconv.Itoa(os.Geteuid())).Replace(c.Refused)
			if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
