package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/roamcard/roamcard/internal/outward"
)

const (
	// keysAging is when keys are fetched again while they are used; keysFresh is how long that is waited for by nobody,
	// and keysStale for how long they are used when the issuer does not answer: a key that it has withdrawn is no longer
	// taken after that.
	keysAging = 5 * time.Minute
	keysFresh = 10 * time.Minute
	keysStale = time.Hour
	// freshWithin is how long a token of a known key waits for fresh keys in place of those that are not.
	freshWithin = time.Second
	// fetchPause is the least time between two requests for keys, and fetchTimeout how long one may take.
	fetchPause   = 10 * time.Second
	fetchTimeout = 5 * time.Second
	// fetchMost is how large an answer may be.
	fetchMost = 1 << 20
)

var (
	// errKey says that no key of the issuer signed a token.
	errKey = errors.New("no key of the issuer signed it")
	// errType says that what is signed is something else.
	errType = errors.New("it is no ID or access token")
)

// keys are the issuer's, as far as they are known.
type keys struct {
	config Config

	mu        sync.Mutex
	set       jose.JSONWebKeySet
	fetchedAt time.Time
	// triedAt is when keys were last asked for, and failed why they did not come; nil when they did.
	triedAt time.Time
	failed  error
	// fetching is closed when the keys that are asked for have come or not; nil while none are.
	fetching chan struct{}
}

func newKeys(c Config) *keys {
	c.HTTP = outward.New(outward.Config{Rule: c.Rule, Timeout: fetchTimeout, Through: c.HTTP})
	return &keys{config: c}
}

// keysOfCall is the key set of one verification. go-oidc hides why it failed.
type keysOfCall struct {
	*keys
	unreachable error
}

// VerifySignature implements the KeySet of go-oidc.
func (k *keysOfCall) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, allowed())
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("the token has not one signature")
	}
	if !isToken(signed.Signatures[0].Header) {
		return nil, errType
	}
	id := signed.Signatures[0].Header.KeyID
	candidates, err := k.candidates(ctx, id)
	if err != nil {
		k.unreachable = err
		return nil, err
	}
	for _, key := range candidates {
		if payload, err := signed.Verify(key); err == nil {
			return payload, nil
		}
	}
	return nil, errKey
}

// types are those of ID and access tokens (RFC 7519 section 5.1, RFC 9068 section 2.1). A token may have none.
var types = []string{"jwt", "at+jwt"}

// isToken reports whether a header is one of an ID or access token. What else an issuer signs has another type, such as
// logout+jwt, and proves nobody.
func isToken(h jose.Header) bool {
	value, typed := h.ExtraHeaders[jose.HeaderType]
	name, _ := value.(string)
	return !typed || slices.Contains(types, strings.TrimPrefix(strings.ToLower(name), "application/"))
}

func allowed() (all []jose.SignatureAlgorithm) {
	for _, name := range algorithms {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}

// candidates are the keys that may have signed a token: those of its key id, or all where it names none. Keys are asked
// for when they age or the id is unknown, by one request at a time and not twice within fetchPause. Who has no key
// waits for the answer, and nobody else, so that a stranger's token keeps no operator waiting: only the first to use
// keys that nobody has used for long wait, a moment, for newer ones.
func (k *keys) candidates(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	found, age, under, failed := k.look(ctx, id)
	switch {
	case under == nil, len(found) > 0 && age < keysFresh:
		return found, k.verdict(found)
	case len(found) > 0 && age < keysStale && failed:
		return found, nil
	case len(found) > 0 && age < keysStale:
		patience, stop := context.WithTimeout(ctx, freshWithin)
		defer stop()
		_ = wait(patience, under) // until then the old ones serve
	default:
		if err := wait(ctx, under); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	found = k.named(id)
	k.mu.Unlock()
	return found, k.verdict(found)
}

func wait(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the issuer's keys: %w", ctx.Err())
	}
}

// look finds the keys of an id, their age and whether the last request for newer ones failed, and makes a request where
// that is due. under is closed when the request that is under way has ended; nil when none is.
func (k *keys) look(
	ctx context.Context, id string,
) (found []jose.JSONWebKey, age time.Duration, under <-chan struct{}, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, age, failed = k.named(id), k.age(), k.failed != nil
	now := k.config.Now()
	due := k.triedAt.IsZero() || now.Sub(k.triedAt) >= fetchPause
	if k.fetching == nil && due && (len(found) == 0 || age >= keysAging) {
		k.triedAt, k.fetching = now, make(chan struct{})
		// The keys are for all callers: one that disconnects does not stop the reading, which ends by its own timeouts.
		go k.refresh(context.WithoutCancel(ctx), now, k.fetching)
	}
	return found, age, k.fetching, failed
}

// verdict is the error of the last request where its keys are missing: there are none of the token's, or none that may
// still be used.
func (k *keys) verdict(found []jose.JSONWebKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed != nil && (len(found) == 0 || k.age() >= keysStale) {
		return fmt.Errorf("fetch the issuer's keys: %w", k.failed)
	}
	return nil
}

// refresh fetches the keys, and wakes who waits for them.
func (k *keys) refresh(ctx context.Context, now time.Time, done chan struct{}) {
	set, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = err; err == nil {
		k.set, k.fetchedAt = set, now
	}
	k.fetching = nil
	close(done)
}

// age is how old the keys are; more than anything before the first ones have come.
func (k *keys) age() time.Duration {
	if k.fetchedAt.IsZero() {
		return math.MaxInt64
	}
	return k.config.Now().Sub(k.fetchedAt)
}

func (k *keys) named(id string) []jose.JSONWebKey {
	if id == "" {
		return k.set.Keys
	}
	return k.set.Key(id)
}

// fetch reads the issuer's description and its keys. What is no public key for signatures is left out.
func (k *keys) fetch(ctx context.Context) (set jose.JSONWebKeySet, err error) {
	var described struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	at := strings.TrimSuffix(k.config.Issuer, "/") + "/.well-known/openid-configuration"
	if err := k.get(ctx, at, &described); err != nil {
		return set, err
	}
	if described.Issuer != k.config.Issuer {
		return set, fmt.Errorf("the issuer calls itself %q", described.Issuer)
	}
	if strings.HasPrefix(k.config.Issuer, "https://") && !strings.HasPrefix(described.Keys, "https://") {
		return set, errors.New("the issuer's keys are not at an https address")
	}
	if err := k.get(ctx, described.Keys, &set); err != nil {
		return set, err
	}
	usable := set.Keys[:0]
	for _, key := range set.Keys {
		if key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			usable = append(usable, key)
		}
	}
	if len(usable) == 0 {
		return set, errors.New("the issuer shows no key for signatures")
	}
	return jose.JSONWebKeySet{Keys: usable}, nil
}

func (k *keys) get(ctx context.Context, at string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("ask the issuer: %w", err)
	}
	res, err := k.config.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("ask the issuer: %w", outward.Cause(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the issuer answers %d", res.StatusCode)
	}
	body, err := outward.Read(res.Body, fetchMost)
	if err != nil {
		return fmt.Errorf("read the issuer's answer: %w", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the issuer's answer: %w", err)
	}
	return nil
}
