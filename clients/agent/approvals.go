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

	"github.com/roamcard/roamcard/internal/secret/custody"
)

// requestFor is how long a request for approval can be answered.
const requestFor = 24 * time.Hour

// Approvals are the requests and the answers that pass between the server and `roamcard approve`, as files in a folder
// that only this user may touch. An answer is for one payment of exactly its terms, once, within ten minutes.
//
// What a file says makes it a request or an approval, not its name, and a secret of the folder makes it this user's:
// who can rename files approves nothing. An approval names the one request that a person has seen.
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
	Terms Terms
	// text is the request's file, which an approval names by its sum.
	text string
}

// ErrNoRequest says that nothing waits for approval under a key.
var ErrNoRequest = errors.New("nothing waits for approval under this key")

// What a document says.
const (
	requested = "requested"
	approved  = "approved"
)

// document is what a file holds, below its MAC.
type document struct {
	Says string `json:"says"`
	// ID and Terms are a request's. The id makes each another one: an approval is good for no later request.
	ID    string `json:"id,omitempty"`
	Terms *Terms `json:"terms,omitempty"`
	// Request is an approval's: the sum of the request.
	Request string `json:"request,omitempty"`
	// At is when it was written, in seconds since 1970.
	At int64 `json:"at"`
}

// ask leaves a request for a person. One that waits already stays: a person may be looking at it.
func (a *Approvals) ask(t Terms) error {
	switch known, err := a.Find(t.Key); {
	case err == nil && known.Terms == t:
		return nil
	case err != nil && !errors.Is(err, ErrNoRequest):
		return err
	}
	return a.write(a.path(t.Key, "request"), document{Says: requested, ID: rand.Text(), Terms: &t})
}

// Find gives the request of a key, or ErrNoRequest.
func (a *Approvals) Find(key string) (Request, error) {
	d, text, err := a.read(a.path(key, "request"))
	if errors.Is(err, fs.ErrNotExist) {
		return Request{}, ErrNoRequest
	}
	if err != nil {
		return Request{}, err
	}
	if d.Says != requested || d.Terms == nil || d.Terms.Key != key || a.age(d) > requestFor {
		return Request{}, ErrNoRequest
	}
	return Request{Terms: *d.Terms, text: text}, nil
}

// Approve leaves a person's yes to a request that Find gave.
func (a *Approvals) Approve(r Request) error {
	return a.write(a.path(r.Terms.Key, "approved"), document{Says: approved, Request: sumOf(r.text)})
}

// take consumes the approval of exactly these terms, and its request, or returns false. Only one process gets it.
func (a *Approvals) take(t Terms) (bool, error) {
	asked, err := a.Find(t.Key)
	if errors.Is(err, ErrNoRequest) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take the approval: %w", err)
	}
	path := a.path(t.Key, "approved")
	mine := path + "." + rand.Text()
	if err := os.Rename(path, mine); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("take the approval: %w", err)
	}
	d, _, err := a.read(mine)
	if removed := os.Remove(mine); removed != nil || err != nil && !errors.Is(err, ErrNoRequest) {
		return false, fmt.Errorf("take the approval: %w", errors.Join(err, removed))
	}
	if d.Says != approved || d.Request != sumOf(asked.text) {
		return false, nil
	}
	if age := a.age(d); asked.Terms != t || age >= approvalFor || age <= -time.Minute {
		return false, nil
	}
	a.done(t.Key)
	return true, nil
}

// done removes the request of a key.
func (a *Approvals) done(key string) { _ = os.Remove(a.path(key, "request")) }

func (a *Approvals) path(key, kind string) string {
	return filepath.Join(a.Folder, sumOf(key)[:32]+"."+kind)
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// maxDocument is more than any request needs.
const maxDocument = 64 << 10

// read gives a document and its file's text. One without the secret's MAC is as good as none: ErrNoRequest.
func (a *Approvals) read(path string) (d document, text string, err error) {
	if err := custody.CheckFolder(a.Folder); err != nil {
		return document{}, "", err
	}
	data, err := custody.Read(path, custody.NoWriters, maxDocument)
	if err != nil {
		return document{}, "", err
	}
	secret, err := a.secret()
	if err != nil {
		return document{}, "", err
	}
	body, ok := authentic(secret, string(data))
	if !ok || json.Unmarshal(body, &d) != nil {
		return document{}, "", fmt.Errorf("%w: no program of this user's wrote %s", ErrNoRequest, path)
	}
	return d, string(data), nil
}

// write makes a file whole, for its readers, or not at all.
func (a *Approvals) write(path string, d document) error {
	if err := custody.MakeFolder(a.Folder); err != nil {
		return fmt.Errorf("make the folder of approvals: %w", err)
	}
	a.prune()
	secret, err := a.secret()
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = a.makeSecret()
	}
	if err != nil {
		return fmt.Errorf("read the secret of approvals: %w", err)
	}
	d.At = a.now().Unix()
	body, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the approval: %w", err)
	}
	draft := path + "." + rand.Text()
	if err := custody.Create(draft, []byte(authenticated(secret, body))); err != nil {
		return fmt.Errorf("write the approval: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("write the approval: %w", err)
	}
	return nil
}

// secretName is the file of what makes requests and approvals: a secret that only this user can read.
const secretName = "secret"

func (a *Approvals) secret() ([]byte, error) {
	path := filepath.Join(a.Folder, secretName)
	text, err := custody.Read(path, custody.NoReaders, maxDocument)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(string(text))
	if err != nil || len(secret) != sha256.Size {
		return nil, fmt.Errorf("%s is damaged; remove it, and what was asked is asked again", path)
	}
	return secret, nil
}

// makeSecret makes the secret, unless another process does so first.
func (a *Approvals) makeSecret() ([]byte, error) {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails: the program ends when there is no randomness
	path := filepath.Join(a.Folder, secretName)
	draft := path + "." + rand.Text()
	if err := custody.Create(draft, []byte(hex.EncodeToString(secret))); err != nil {
		return nil, err
	}
	err := os.Link(draft, path)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err := errors.Join(err, os.Remove(draft)); err != nil {
		return nil, err
	}
	return a.secret()
}

// prune removes what nobody can use any more.
func (a *Approvals) prune() {
	files, _ := os.ReadDir(a.Folder) // what cannot be listed is not pruned
	for _, f := range files {
		info, err := f.Info()
		if err == nil && f.Name() != secretName && a.now().Sub(info.ModTime()) > requestFor {
			_ = os.Remove(filepath.Join(a.Folder, f.Name()))
		}
	}
}

func (a *Approvals) age(d document) time.Duration { return a.now().Sub(time.Unix(d.At, 0)) }

func (a *Approvals) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}
