package roamcard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileStore remembers in a file, for this program and others on this machine: every change is made under a
// lock, and is on the disk before it returns.
type FileStore struct {
	path string
	mu   sync.Mutex
}

// NewFileStore opens a store, and makes its folder when there is none. Only the user may read either.
func NewFileStore(path string) (*FileStore, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's folder: %w", err)
	}
	s := &FileStore{path: path}
	// A journal that cannot be read must not pass for an empty one.
	_, err := s.read()
	return s, err
}

// Read implements Store.
func (s *FileStore) Read(context.Context) (Book, error) { return s.read() }

// Update implements Store.
func (s *FileStore) Update(_ context.Context, change func(*Book) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock, err := lockFile(s.path + ".lock")
	if err != nil {
		return fmt.Errorf("lock the journal: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	b, err := s.read()
	if err != nil {
		return err
	}
	if err := change(&b); err != nil {
		return err
	}
	return s.write(b)
}

// Lock implements Store. The system gives the lock of a program that dies back.
func (s *FileStore) Lock(ctx context.Context, purchase string) (func(), error) {
	sum := sha256.Sum256([]byte(purchase))
	path := s.path + "." + hex.EncodeToString(sum[:8]) + ".lock"
	const every = 25 * time.Millisecond
	for {
		unlock, err := tryLockFile(path)
		if err != nil {
			return nil, fmt.Errorf("lock the purchase: %w", err)
		}
		if unlock != nil {
			return unlock, nil
		}
		if err := pause(ctx, every); err != nil {
			return nil, err
		}
	}
}

func (s *FileStore) read() (Book, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return newBook(), nil
	}
	if err != nil {
		return Book{}, fmt.Errorf("read the journal: %w", err)
	}
	b := newBook()
	b.Version = 0
	if err := json.Unmarshal(data, &b); err != nil {
		return Book{}, fmt.Errorf("read the journal %s: %w", s.path, err)
	}
	if b.Version != bookVersion {
		return Book{}, fmt.Errorf("read the journal %s: it has version %d, not %d", s.path, b.Version, bookVersion)
	}
	return b, nil
}

// write replaces the file whole: file and folder are on the disk before it returns.
func (s *FileStore) write(b Book) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the journal: %w", err)
	}
	tmp := s.path + ".tmp"
	if err := writeSynced(tmp, data); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := os.Rename(tmp, s.path); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := syncFolder(filepath.Dir(s.path)); err != nil {
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
