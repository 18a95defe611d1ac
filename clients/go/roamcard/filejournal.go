package roamcard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileJournal remembers in a file, for this program and others on this machine: every change is made under a
// lock, and is on the disk before it returns.
type FileJournal struct {
	path string
	mu   sync.Mutex
}

// NewFileJournal opens a journal, and makes its folder when there is none. Only the user may read either.
func NewFileJournal(path string) (*FileJournal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's folder: %w", err)
	}
	j := &FileJournal{path: path}
	// A journal that cannot be read must not pass for an empty one.
	return j, j.locked(func(book) (bool, error) { return false, nil })
}

// Find implements Journal.
func (j *FileJournal) Find(_ context.Context, key string) (e Entry, ok bool, err error) {
	err = j.locked(func(b book) (bool, error) {
		e, ok = b[key]
		return false, nil
	})
	return e, ok, err
}

// Sign implements Journal.
func (j *FileJournal) Sign(_ context.Context, e Entry, was *Entry, since time.Time, limit Cents) error {
	return j.locked(func(b book) (bool, error) { return true, b.sign(e, was, since, limit) })
}

// Conclude implements Journal.
func (j *FileJournal) Conclude(_ context.Context, key, header string, s EntryState) error {
	return j.locked(func(b book) (bool, error) {
		b.conclude(key, header, s)
		return true, nil
	})
}

// locked runs act on the journal's content, alone on this machine, and writes what it changed.
func (j *FileJournal) locked(act func(book) (changed bool, err error)) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	unlock, err := lockFile(j.path + ".lock")
	if err != nil {
		return fmt.Errorf("lock the journal: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	b, err := j.read()
	if err != nil {
		return err
	}
	changed, err := act(b)
	if err != nil || !changed {
		return err
	}
	return j.write(b)
}

func (j *FileJournal) read() (book, error) {
	data, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return book{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	b := book{}
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("read the journal %s: %w", j.path, err)
	}
	return b, nil
}

// write replaces the file whole: file and folder are on the disk before it returns.
func (j *FileJournal) write(b book) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the journal: %w", err)
	}
	tmp := j.path + ".tmp"
	if err := writeSynced(tmp, data); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := os.Rename(tmp, j.path); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := syncFolder(filepath.Dir(j.path)); err != nil {
		return fmt.Errorf("write the journal's folder: %w", err)
	}
	return nil
}

func writeSynced(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}
