package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/roamcard/roamcard/internal/outward"
)

const (
	// keysFresh is how long keys are used without a look, and keysStale for how long they are when the issuer does not
	// answer: a key that it has withdrawn is no longer taken after that.
	keysFresh = 10 * time.Minute
	keysStale = time.Hour
	// fetchPause is the least time between two requests for keys, and fetchTimeout how long one may take.
	fetchPause   = 10 * time.Second
	fetchTimeout = 5 * time.Second
	// fetchMost is how large an answer may be.
	fetchMost = 1 << 20
)

// errKey says that no key of the issuer signed a token.
var errKey = errors.New("no key of the issuer signed it")

// keys are the issuer's, as far as they are known.
type keys struct {
	config Config
	// turn is held by who reads or changes what is below, and while keys are fetched.
	turn chan struct{}

	set       jose.JSONWebKeySet
	fetchedAt time.Time
	// triedAt is when keys were last asked for, and failed why they did not come; nil when they did.
	triedAt time.Time
	failed  error
}

func newKeys(c Config) *keys {
	c.HTTP = outward.New(outward.Config{Rule: c.Rule, Timeout: fetchTimeout, Through: c.HTTP})
	return &keys{config: c, turn: make(chan struct{}, 1)}
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

func allowed() (all []jose.SignatureAlgorithm) {
	for _, name := range algorithms {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}

// candidates are the keys that may have signed a token: those of its key id, or all where it names none. Keys are asked
// for when they are old or the id is unknown, unless that was tried a moment ago.
func (k *keys) candidates(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the issuer's keys: %w", ctx.Err())
	}
	now := k.config.Now()
	found := k.named(id)
	fresh := !k.fetchedAt.IsZero() && now.Sub(k.fetchedAt) < keysFresh
	if (len(found) == 0 || !fresh) && (k.triedAt.IsZero() || now.Sub(k.triedAt) >= fetchPause) {
		k.triedAt = now
		// The keys are for all callers: one that disconnects does not stop the reading.
		if k.failed = k.fetch(context.WithoutCancel(ctx)); k.failed == nil {
			k.fetchedAt = now
		}
		found = k.named(id)
	}
	stale := k.fetchedAt.IsZero() || now.Sub(k.fetchedAt) >= keysStale
	if k.failed != nil && (stale || len(found) == 0) {
		return nil, fmt.Errorf("fetch the issuer's keys: %w", k.failed)
	}
	return found, nil
}

func (k *keys) named(id string) []jose.JSONWebKey {
	if id == "" {
		return k.set.Keys
	}
	return k.set.Key(id)
}

// fetch reads the issuer's description and its keys. What is no public key for signatures is left out.
func (k *keys) fetch(ctx context.Context) error {
	var described struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	at := strings.TrimSuffix(k.config.Issuer, "/") + "/.well-known/openid-configuration"
	if err := k.get(ctx, at, &described); err != nil {
		return err
	}
	if described.Issuer != k.config.Issuer {
		return fmt.Errorf("the issuer calls itself %q", described.Issuer)
	}
	if strings.HasPrefix(k.config.Issuer, "https://") && !strings.HasPrefix(described.Keys, "https://") {
		return errors.New("the issuer's keys are not at an https address")
	}
	var set jose.JSONWebKeySet
	if err := k.get(ctx, described.Keys, &set); err != nil {
		return err
	}
	usable := set.Keys[:0]
	for _, key := range set.Keys {
		if key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			usable = append(usable, key)
		}
	}
	if len(usable) == 0 {
		return errors.New("the issuer shows no key for signatures")
	}
	k.set = jose.JSONWebKeySet{Keys: usable}
	return nil
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
