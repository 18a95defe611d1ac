package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Write replaces the file at once, keeps its mode, and leaves what it held in a copy next to it, whose name it returns.
// A file that changed since the plan was made stays.
func (c Change) Write(now time.Time) (backup string, err error) {
	if c.None() {
		return "", nil
	}
	if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the settings: %w", err)
	}
	mode := fs.FileMode(0o600)
	if c.Existed {
		info, err := os.Stat(c.File)
		if err != nil {
			return "", fmt.Errorf("read the settings: %w", err)
		}
		mode = info.Mode().Perm()
		if backup, err = c.keep(now, mode); err != nil {
			return "", err
		}
	}
	draft, err := os.CreateTemp(filepath.Dir(c.File), ".roamcard-*")
	if err != nil {
		return "", fmt.Errorf("write the settings: %w", err)
	}
	defer func() { _ = os.Remove(draft.Name()) }() // gone already once it has the file's name
	_, err = draft.Write(c.New)
	if err := errors.Join(err, draft.Chmod(mode), draft.Sync(), draft.Close()); err != nil {
		return "", fmt.Errorf("write the settings: %w", err)
	}
	if err := c.unchanged(); err != nil {
		return "", err
	}
	if err := os.Rename(draft.Name(), c.File); err != nil {
		return "", fmt.Errorf("write the settings: %w", err)
	}
	return backup, nil
}

// keep copies what the file held.
func (c Change) keep(now time.Time, mode fs.FileMode) (string, error) {
	name := c.File + "." + now.UTC().Format("20060102T150405.000000000Z") + ".bak"
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", fmt.Errorf("copy the settings: %w", err)
	}
	_, err = f.Write(c.Old)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("copy the settings: %w", err)
	}
	return name, nil
}

// unchanged compares the file with what was read: a person may take long to answer, and the client writes it, too.
func (c Change) unchanged() error {
	text, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) && !c.Existed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the settings again: %w", err)
	}
	if !c.Existed || !bytes.Equal(text, c.Old) {
		return errors.New("the settings changed meanwhile; run it again")
	}
	return nil
}
