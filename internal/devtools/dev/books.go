package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// fake plays a vendor.
type fake interface {
	http.Handler
	// Save is its books, and Restore takes them in another process.
	Save() ([]byte, error)
	Restore(books []byte) error
}

// keeper keeps the books of a fake in a file: whoever is answered finds what was done after a restart, too.
type keeper struct {
	fake
	path string
	log  *slog.Logger

	mu   sync.Mutex
	kept []byte
}

// keepBooks makes a fake keep its books in a folder, which it first reads. Without a folder it forgets them.
func keepBooks(of fake, dir, name string, log *slog.Logger) (http.Handler, error) {
	if dir == "" {
		return of, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the books: %w", err)
	}
	k := &keeper{fake: of, path: filepath.Join(dir, name+".json"), log: log}
	books, err := os.ReadFile(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, nil
	case err != nil:
		return nil, fmt.Errorf("read the books of %s: %w", name, err)
	}
	if err := of.Restore(books); err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	return k, nil
}

// ServeHTTP implements http.Handler. What changes the books is answered once they are kept.
func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		k.fake.ServeHTTP(w, r)
		return
	}
	once := &keptFirst{ResponseWriter: w, keep: sync.OnceFunc(k.save)}
	defer once.keep() // also what is never answered
	k.fake.ServeHTTP(once, r)
}

// save writes the books whole or not at all. Without them the client learns nothing.
func (k *keeper) save() {
	k.mu.Lock()
	defer k.mu.Unlock()
	books, err := k.Save()
	if err == nil && bytes.Equal(books, k.kept) {
		return
	}
	if err == nil {
		err = writeWhole(k.path, books)
	}
	if err == nil {
		k.kept = books
		return
	}
	k.log.Error("keep the books of a vendor's fake", slog.String("file", k.path), slog.Any("error", err))
	panic(http.ErrAbortHandler)
}

func writeWhole(path string, text []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// keptFirst is an answer that begins once the books are kept.
type keptFirst struct {
	http.ResponseWriter
	keep func()
}

// WriteHeader implements http.ResponseWriter.
func (w *keptFirst) WriteHeader(status int) {
	w.keep()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *keptFirst) Write(b []byte) (int, error) {
	w.keep()
	return w.ResponseWriter.Write(b)
}

// Unwrap lets faults reach the connection.
func (w *keptFirst) Unwrap() http.ResponseWriter { return w.ResponseWriter }
