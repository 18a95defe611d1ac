package roamcard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/roamcard/roamcard/internal/secret/custody"
	"github.com/roamcard/roamcard/internal/x402"
)

// journalName is the journal's file in its folder, in all languages.
const journalName = "journal.json"

// FileStore keeps the journal in a folder that the programs of all languages on this machine may share, also those of
// its containers: every change is made under a lock, and is on the disk before it returns.
type FileStore struct {
	folder, path string
	mu           sync.Mutex
}

// NewFileStore opens the journal in a folder, which is made when it is not there; a path that ends in .json names
// the file. Only the user may read either. A journal that others may write is refused, and so is one in a folder that
// they may write, or put another one in the place of. The error is a *JournalError.
func NewFileStore(path string) (*FileStore, error) {
	named, err := filepath.Abs(path) // what is checked is what is used, also when the program changes its folder
	if err != nil {
		return nil, journalFailed(path, err)
	}
	s := &FileStore{folder: named, path: filepath.Join(named, journalName)}
	if strings.HasSuffix(named, ".json") {
		s.folder, s.path = filepath.Dir(named), named
	}
	if err := custody.MakeFolder(s.folder); err != nil {
		return nil, journalFailed(s.path, err)
	}
	// A journal that cannot be read must not pass for an empty one.
	_, _, err = s.read()
	return s, err
}

// DefaultJournal is the folder that the clients of all languages share: what ROAMCARD_JOURNAL names, or
// roamcard below XDG_STATE_HOME, which is ~/.local/state when it is not set.
func DefaultJournal() (string, error) {
	if path := os.Getenv("ROAMCARD_JOURNAL"); path != "" {
		return path, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "roamcard"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the journal (or set ROAMCARD_JOURNAL): %w", err)
	}
	return filepath.Join(home, ".local", "state", "roamcard"), nil
}

// Read implements Store.
func (s *FileStore) Read(context.Context) (Book, error) {
	b, _, err := s.read()
	return b, err
}

// Update implements Store.
func (s *FileStore) Update(ctx context.Context, change func(*Book) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := custody.CheckFolder(s.folder); err != nil {
		return journalFailed(s.path, err)
	}
	lock, err := lockFolder(ctx, s.folder)
	if err != nil {
		return journalFailed(s.path, err)
	}
	// A lock that cannot be let go is waited for until this process ends: the change is kept.
	defer func() { _ = lock.unlock() }()
	b, was, err := s.read()
	if err != nil {
		return err
	}
	generation := b.Generation
	if err := change(&b); err != nil {
		return err
	}
	b.Generation = generation + 1
	return s.write(b, was, lock)
}

// read gives the book, and its text as it was; nil when there is none.
func (s *FileStore) read() (b Book, text []byte, err error) {
	if err := custody.CheckFolder(s.folder); err != nil {
		return Book{}, nil, journalFailed(s.path, err)
	}
	text, err = readOwn(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return newBook(), nil, nil
	}
	if _, ok := errors.AsType[*custody.ExposedError](err); ok {
		return Book{}, nil, journalFailed(s.path, err)
	}
	if err != nil {
		return Book{}, nil, &JournalError{File: s.path, Reason: JournalUnreadable, Err: err}
	}
	b, err = readBook(s.path, text)
	return b, text, err
}

// readOwn reads a file of a folder that was checked.
func readOwn(path string) ([]byte, error) {
	f, err := custody.OpenIn(path, custody.NoWriters)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// readBook reads a journal's text. One that is none is damaged; one of another program or version is foreign, and so is
// one with members that this version does not have: to keep it would lose them.
func readBook(path string, data []byte) (Book, error) {
	var head struct {
		Schema  *string `json:"schema"`
		Version *int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Book{}, &JournalError{File: path, Reason: JournalDamaged, Err: err}
	}
	if head.Schema == nil || *head.Schema != bookSchema || head.Version == nil || *head.Version != bookVersion {
		return Book{}, &JournalError{File: path, Reason: JournalForeign, Err: errors.New("it is not a journal of version 2")}
	}
	var b Book
	err := json.Unmarshal(data, &b)
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return Book{}, &JournalError{File: path, Reason: JournalDamaged, Err: err}
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(new(Book)); err != nil {
		return Book{}, &JournalError{File: path, Reason: JournalForeign, Err: err}
	}
	return b, nil
}

// check says what is wrong with a book: nothing is paid on the word of half a one.
func (b Book) check() error {
	if b.Payees == nil || b.Purchases == nil {
		return errors.New("it lacks payees or purchases")
	}
	if b.Generation < 0 || b.Generation > maxGeneration {
		return errors.New("it has no generation")
	}
	for id, e := range b.Purchases {
		switch e.State {
		case Reserved, Signed, Settled, Refused:
		default:
			return fmt.Errorf("purchase %s has no state", id)
		}
		if e.Key == "" || e.Operation == "" || e.Origin == "" || e.Path == "" || e.Payer == "" || len(e.Request) == 0 ||
			e.Amount <= 0 {
			return fmt.Errorf("purchase %s lacks a member", id)
		}
		if e.State == Signed && (e.Header == "" || len(e.Authorizations) == 0) {
			return fmt.Errorf("purchase %s is signed without a payment", id)
		}
		if e.Attempt < 0 || e.At < 0 || e.HeldUntil < 0 {
			return fmt.Errorf("purchase %s has a number below zero", id)
		}
		for _, a := range e.Authorizations {
			if err := a.check(); err != nil {
				return fmt.Errorf("purchase %s: %w", id, err)
			}
		}
	}
	return nil
}

// check says what is wrong with an authorization: one of less than nothing would raise the budget.
func (a SignedAuthorization) check() error {
	nonce, err := x402.ParseHash(a.Nonce)
	switch {
	case err != nil || nonce.String() != a.Nonce:
		return errors.New("an authorization has no nonce")
	case a.Amount <= 0:
		return fmt.Errorf("authorization %s has no amount", a.Nonce)
	case a.SignedAt < 0 || a.ValidBefore < 0:
		return fmt.Errorf("authorization %s has no time", a.Nonce)
	case !slices.Contains([]string{"", VoidExpired, VoidCancelled, VoidUsedElsewhere}, a.Void):
		return fmt.Errorf("authorization %s is void for no known reason", a.Nonce)
	}
	return nil
}

// write replaces the file whole, unless it is not the one that was read: file and folder are on the disk before it
// returns. The draft has the lock's number, and the next holder removes it first: whoever was stopped here, and has
// lost the lock meanwhile, has nothing to rename.
func (s *FileStore) write(b Book, was []byte, lock folderLock) (err error) {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return journalFailed(s.path, err)
	}
	draft := s.path + draftInfix + strconv.Itoa(lock.number)
	defer func() {
		if err != nil {
			_ = os.Remove(draft)
		}
	}()
	if err := writeSynced(draft, data); err != nil {
		return journalFailed(s.path, err)
	}
	if err := s.unchanged(b, was); err != nil {
		return journalFailed(s.path, err)
	}
	if err := lock.check(); err != nil {
		return journalFailed(s.path, err)
	}
	if err := os.Rename(draft, s.path); err != nil {
		return journalFailed(s.path, err)
	}
	if err := syncFolder(s.folder); err != nil {
		return journalFailed(s.path, err)
	}
	return nil
}

// unchanged compares the file's generation, and its text, with what the change was made of. They differ where something
// else than these clients writes, or a lock was given away.
func (s *FileStore) unchanged(b Book, was []byte) error {
	now, is, err := s.read()
	if err != nil {
		return err
	}
	if now.Generation != b.Generation-1 || !bytes.Equal(is, was) {
		return errors.New("it was changed by another program meanwhile; nothing was changed")
	}
	return nil
}

func writeSynced(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// JournalReason is what is wrong with a journal.
type JournalReason string

// The reasons.
const (
	JournalDamaged    JournalReason = "damaged"
	JournalForeign    JournalReason = "foreign"
	JournalUnreadable JournalReason = "unreadable"
	JournalReadOnly   JournalReason = "read_only"
	JournalFull       JournalReason = "full"
	JournalFailed     JournalReason = "failed"
	// JournalLocked is one whose lock another program keeps, or may keep: one that cannot be seen is not dead.
	JournalLocked JournalReason = "locked"
	// JournalExposed is one that others may write, or put another one in the place of.
	JournalExposed JournalReason = "exposed"
)

// JournalError is a journal that cannot be read or kept. Nothing is sent that is not kept.
type JournalError struct {
	// File is the journal.
	File   string
	Reason JournalReason
	// IdempotencyKey is set when a payment had been signed, which then was not sent.
	IdempotencyKey string
	Err            error
}

// Error implements error.
func (e *JournalError) Error() string {
	return fmt.Sprintf("the journal %s is %s: %v", e.File, strings.ReplaceAll(string(e.Reason), "_", " "), e.Err)
}

// Unwrap gives the cause.
func (e *JournalError) Unwrap() error { return e.Err }

func journalFailed(path string, err error) *JournalError {
	if told, ok := errors.AsType[*JournalError](err); ok {
		return told
	}
	reason := JournalFailed
	if _, ok := errors.AsType[*lockedError](err); ok {
		reason = JournalLocked
	}
	if _, ok := errors.AsType[*custody.ExposedError](err); ok {
		reason = JournalExposed
	}
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota):
		reason = JournalFull
	case errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission):
		reason = JournalReadOnly
	}
	return &JournalError{File: path, Reason: reason, Err: err}
}
