package agent

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// requestFor is how long a request for approval can be answered.
const requestFor = 24 * time.Hour

// Approvals are the requests and the answers that pass between the server and `roamcard approve`, as files that only
// this user may touch. An answer is for one payment of exactly its terms, once, within ten minutes.
type Approvals struct {
	// Folder holds the files.
	Folder string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// ApprovalsOf is where approvals lie for a journal: all servers that share it share them.
func ApprovalsOf(journal string) *Approvals {
	if strings.HasSuffix(journal, ".json") {
		journal = filepath.Dir(journal)
	}
	return &Approvals{Folder: filepath.Join(journal, "approvals")}
}

// Request is what a person is asked to approve.
type Request struct {
	Terms Terms `json:"terms"`
	// At is when it was asked, in seconds since 1970.
	At int64 `json:"at"`
}

// ErrNoRequest says that nothing waits for approval under a key.
var ErrNoRequest = errors.New("nothing waits for approval under this key")

// ask leaves a request for a person.
func (a *Approvals) ask(r Request) error {
	r.At = a.now().Unix()
	return a.write(a.path(r.Terms.Key, "request"), r)
}

// Find gives the request of a key, or ErrNoRequest.
func (a *Approvals) Find(key string) (Request, error) {
	r, err := read(a.path(key, "request"))
	if errors.Is(err, fs.ErrNotExist) || err == nil &&
		(r.Terms.Key != key || a.now().Sub(time.Unix(r.At, 0)) > requestFor) {
		return Request{}, ErrNoRequest
	}
	return r, err
}

// Approve leaves a person's yes to a request.
func (a *Approvals) Approve(r Request) error {
	r.At = a.now().Unix()
	return a.write(a.path(r.Terms.Key, "approved"), r)
}

// take consumes the approval of exactly these terms, or returns false. Only one process gets it.
func (a *Approvals) take(t Terms) (bool, error) {
	path := a.path(t.Key, "approved")
	mine := path + "." + rand.Text()
	if err := os.Rename(path, mine); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("take the approval: %w", err)
	}
	r, err := read(mine)
	if err = errors.Join(err, os.Remove(mine)); err != nil {
		return false, fmt.Errorf("take the approval: %w", err)
	}
	age := a.now().Sub(time.Unix(r.At, 0))
	return r.Terms == t && age < approvalFor && age > -time.Minute, nil
}

// done removes the request of a key.
func (a *Approvals) done(key string) { _ = os.Remove(a.path(key, "request")) }

func (a *Approvals) path(key, kind string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(a.Folder, hex.EncodeToString(sum[:16])+"."+kind)
}

func read(path string) (Request, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Request{}, err
	}
	var r Request
	if err := json.Unmarshal(data, &r); err != nil {
		return Request{}, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// write makes a file whole, for its readers, or not at all.
func (a *Approvals) write(path string, r Request) error {
	if err := os.MkdirAll(a.Folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of approvals: %w", err)
	}
	a.prune()
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the approval: %w", err)
	}
	draft := path + "." + rand.Text()
	if err := os.WriteFile(draft, data, 0o600); err != nil {
		return fmt.Errorf("write the approval: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("write the approval: %w", err)
	}
	return nil
}

// prune removes what nobody can use any more.
func (a *Approvals) prune() {
	files, _ := os.ReadDir(a.Folder) // what cannot be listed is not pruned
	for _, f := range files {
		if info, err := f.Info(); err == nil && a.now().Sub(info.ModTime()) > requestFor {
			_ = os.Remove(filepath.Join(a.Folder, f.Name()))
		}
	}
}

func (a *Approvals) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}
