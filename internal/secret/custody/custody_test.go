package custody_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/secret/custody"
)

// TestMain lets the test's own program be the one that is started: it says what its environment is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "environment" {
		_, _ = os.Stdout.WriteString(strings.Join(os.Environ(), "\n"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProgramsGetNoKeyOfOurs(t *testing.T) {
	data, err := os.ReadFile("../../../clients/testing/custody.json")
	var cases struct {
		Environment struct{ Given, Named, Kept []string }
	}
	if err := errors.Join(err, json.Unmarshal(data, &cases)); err != nil {
		t.Fatal(err)
	}
	c := cases.Environment
	for _, name := range slices.Concat(c.Given, c.Named, c.Kept) {
		if runtime.GOOS != "windows" || name != "path" { // where names have no case
			t.Setenv(name, "of "+name)
		}
	}
	out, err := custody.Command(t.Context(), c.Named, os.Args[0], "environment").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(out), "\n")
	for _, name := range slices.Concat(c.Given, c.Named) {
		if !slices.Contains(got, name+"=of "+name) {
			t.Errorf("%s is not given", name)
		}
	}
	for _, name := range c.Kept {
		if slices.Contains(got, name+"=of "+name) {
			t.Errorf("%s is given", name)
		}
	}
	if got := custody.Environ(); got == nil {
		t.Error("an empty environment stands for all of it")
	}
}

func TestFileIsMadeForItsUserAloneAndReplacesNone(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "new", "folder", "key")
	if err := custody.Create(path, []byte("a key")); err != nil {
		t.Fatal(err)
	}
	if err := custody.Create(path, []byte("another")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one: %v", err)
	}
	text, err := custody.Read(path, custody.NoReaders, 4)
	if err != nil || string(text) != "a ke" {
		t.Errorf("%q, %v", text, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, mode := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := os.Chmod(folder, 0o770); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(folder, "other")
	for _, err := range []error{custody.Create(filepath.Join(other, "key"), nil), custody.MakeFolder(other)} {
		if _, ok := errors.AsType[*custody.ExposedError](err); !ok {
			t.Errorf("in a folder that others may write: %v", err)
		}
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}

// A folder or a device is no file, and a link to itself leads nowhere.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{folder, os.DevNull, filepath.Join(os.DevNull, "none")} {
		if text, err := custody.Read(path, custody.NoReaders, 1); err == nil {
			t.Errorf("%s: %q", path, text)
		}
	}
	loop := filepath.Join(folder, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Skip("there are no links here")
	}
	if _, err := custody.Read(filepath.Join(loop, "key"), custody.NoReaders, 1); err == nil {
		t.Error("a link to itself was followed")
	}
}
