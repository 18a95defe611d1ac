package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// journal is an append-only file of JSON lines. A line that ends in a newline was written; a last
// line without one was torn by a crash, was never acknowledged, and is cut off at start.
type journal struct {
	file *os.File
	// broken is set by the first failed write: what the file holds is then uncertain, so nothing
	// more may be acknowledged.
	broken error
}

// openEntries passes every entry of the journal at path to apply, and then is ready to append. Without a path there is
// no journal, and what is appended to none is kept in memory alone.
func openEntries[E any](path string, apply func(E) error) (*journal, error) {
	if path == "" {
		return nil, nil
	}
	return openJournal(path, func(line []byte) error {
		var e E
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		return apply(e)
	})
}

// openJournal passes every whole line to replay, and then is ready to append.
func openJournal(path string, replay func(line []byte) error) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the books: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the books: %w", err)
	}
	if err := restore(file, path, replay); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &journal{file: file}, nil
}

func restore(file *os.File, path string, replay func(line []byte) error) error {
	held, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the books: %w", err)
	}
	whole := bytes.LastIndexByte(held, '\n') + 1
	for n, line := range bytes.Split(held[:whole], []byte{'\n'}) {
		if len(line) == 0 {
			continue
		}
		if err := replay(line); err != nil {
			return fmt.Errorf("read line %d of the books: %w", n+1, err)
		}
	}
	if whole < len(held) {
		if err := file.Truncate(int64(whole)); err != nil {
			return fmt.Errorf("cut the torn line off the books: %w", err)
		}
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new file's name survive a power cut.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the folder of the books: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("keep the folder of the books: %w", err)
	}
	return nil
}

// append writes one line and returns when the disk has it.
func (j *journal) append(v any) error {
	if j == nil {
		return nil
	}
	if j.broken != nil {
		return j.broken
	}
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode an entry of the books: %w", err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		j.broken = fmt.Errorf("write the books: %w", err)
		return j.broken
	}
	if err := j.file.Sync(); err != nil {
		j.broken = fmt.Errorf("keep the books: %w", err)
		return j.broken
	}
	return nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return j.file.Close()
}
