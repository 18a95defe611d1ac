// Package oidctest plays an issuer of OpenID Connect, and makes tokens: the issuer's, and those of who forges them. It
// shares nothing with what verifies them.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Issuer is an issuer as far as its tokens go: a description, keys, and what is wrong with it.
type Issuer struct {
	*httptest.Server
	now func() time.Time

	mu   sync.Mutex
	down bool
	// held keeps requests waiting while it is open, and asked tells of each of them.
	held, asked chan struct{}
	name        string
	keys        []Key
	// elsewhere are keys at other addresses, and visits counts who came to each address.
	elsewhere map[string]Key
	visits    map[string]int
}

// Key is a key that signs tokens, with its id.
type Key struct {
	ID string
	*rsa.PrivateKey
}

const (
	description = "/.well-known/openid-configuration"
	keys        = "/keys"
)

// New starts an issuer without keys, which ends with the test. Its clock is now.
func New(t *testing.T, now func() time.Time) *Issuer {
	t.Helper()
	i := &Issuer{now: now, elsewhere: map[string]Key{}, visits: map[string]int{}}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	held, asked := i.held, i.asked
	i.mu.Unlock()
	if held != nil {
		asked <- struct{}{}
		<-held
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	i.visits[r.URL.Path]++
	stranger, ok := i.elsewhere[r.URL.Path]
	switch {
	case r.URL.Path == description:
		name := i.name
		if name == "" {
			name = i.URL
		}
		answer(w, map[string]string{"issuer": name, "jwks_uri": i.URL + keys})
	case r.URL.Path == keys:
		answer(w, setOf(i.keys))
	case ok:
		answer(w, setOf([]Key{stranger}))
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

// Break makes the issuer answer nothing, or answer again.
func (i *Issuer) Break(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Hold makes the issuer take requests and answer none until release. asked has one element for each.
func (i *Issuer) Hold() (asked <-chan struct{}, release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	held, all := make(chan struct{}), make(chan struct{}, 1000)
	i.held, i.asked = held, all
	return all, sync.OnceFunc(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.held = nil
		close(held)
	})
}

// Call makes the issuer call itself another name than its address.
func (i *Issuer) Call(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name = name
}

// AddKey makes the issuer use another key, next to those that it has.
func (i *Issuer) AddKey(t *testing.T, id string) Key {
	t.Helper()
	key := NewKey(t, id)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key)
	return key
}

// WithdrawKeys makes the issuer have no key.
func (i *Issuer) WithdrawKeys() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
}

// Publish puts a key that is not the issuer's at a path of its own, and returns the address.
func (i *Issuer) Publish(path string, key Key) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.elsewhere[path] = key
	return i.URL + path
}

// Described counts how often the issuer's description was read.
func (i *Issuer) Described() int { return i.Visits(description) }

// Visits counts how often a path was asked for while the issuer was up.
func (i *Issuer) Visits(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.visits[path]
}

// Claims are those of a good token for the audience roamcard: an operator of one group, ops, for an hour. The changes
// replace some; nil leaves a claim out.
func (i *Issuer) Claims(changes map[string]any) map[string]any {
	now := i.now()
	all := map[string]any{
		"iss": i.URL, "aud": "roamcard", "sub": "ann", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"groups": []string{"ops"},
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// NewKey makes a key that no issuer has.
func NewKey(t testing.TB, id string) Key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, private}
}

// setOf are public keys as a set of JSON Web Keys.
func setOf(all []Key) map[string]any {
	set := make([]map[string]any, 0, len(all))
	for _, key := range all {
		set = append(set, key.Public())
	}
	return map[string]any{"keys": set}
}
