// Package oidc verifies operators who signed in with an issuer of OpenID Connect, by their ID or access tokens.
//
// Issuer, audience, time and signature are checked by go-oidc; the issuer's keys are fetched here, within bounds that a
// sender of tokens cannot exceed: one request at a time, and a pause after each, whatever key a token names. Who has a
// key that is known does not wait for it.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/outward"
)

// Config configures an Issuer.
type Config struct {
	// Issuer is its URL, as its tokens have it, and Audience what they are for: the client's id.
	Issuer, Audience string
	// NameClaim names the operator; DefaultNameClaim when empty. `email` counts only when it is verified.
	NameClaim string
	// RoleClaim has the values that Roles maps: a text or a list, with dots into inner objects; DefaultRoleClaim when
	// empty. The highest role counts.
	RoleClaim string
	Roles     map[string]auth.Role
	// Rule says whether the issuer may be asked without TLS.
	Rule outward.Rule
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Log may be nil.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// The claims when the configuration names none.
const (
	DefaultNameClaim = "sub"
	DefaultRoleClaim = "groups"
)

// algorithms are those with a public key. An issuer's public key is no secret that HMAC could rest on.
var algorithms = []string{
	gooidc.RS256, gooidc.RS384, gooidc.RS512, gooidc.ES256, gooidc.ES384, gooidc.ES512, gooidc.PS256, gooidc.PS384,
	gooidc.PS512, gooidc.EdDSA,
}

// names are those that fit the audit trail.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+|=:/-]{0,99}$`)

// Issuer verifies tokens. It implements auth.Issuers, and is safe for concurrent use.
type Issuer struct {
	config Config
	keys   *keys
}

// New makes an Issuer. It asks the issuer for nothing until the first token comes.
func New(c Config) *Issuer {
	if c.NameClaim == "" {
		c.NameClaim = DefaultNameClaim
	}
	if c.RoleClaim == "" {
		c.RoleClaim = DefaultRoleClaim
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Issuer{c, newKeys(c)}
}

// Check asks the issuer for its description and keys, as the first token does. It fails when the issuer does not
// answer, calls itself by another name or has no key that could verify a token.
func (i *Issuer) Check(ctx context.Context) error {
	_, err := newKeys(i.config).fetch(ctx)
	return err
}

// maxReason bounds what the log has of a token that anybody may have sent.
const maxReason = 300

// Identify implements auth.Issuers. Why a token is refused is for the log alone.
func (i *Issuer) Identify(ctx context.Context, token string) (auth.Identity, error) {
	who, err := i.identify(ctx, token)
	if errors.Is(err, auth.ErrNotFound) || errors.Is(err, auth.ErrNoRole) {
		why := err.Error()
		i.config.Log.InfoContext(ctx, "token of an operator refused", "reason", why[:min(len(why), maxReason)])
	}
	return who, err
}

func (i *Issuer) identify(ctx context.Context, token string) (auth.Identity, error) {
	used := &keysOfCall{keys: i.keys}
	verifier := gooidc.NewVerifier(i.config.Issuer, used, &gooidc.Config{
		ClientID: i.config.Audience, SupportedSigningAlgs: algorithms, Now: i.config.Now,
	})
	verified, err := verifier.Verify(ctx, token)
	if used.unreachable != nil {
		return auth.Identity{}, used.unreachable
	}
	if err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %w", auth.ErrNotFound, err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %w", auth.ErrNotFound, err)
	}
	if _, told := claims["events"]; told {
		// What an issuer tells of a person, such as that they signed out, proves nobody (RFC 8417, section 2.2).
		return auth.Identity{}, fmt.Errorf("%w: it tells of an event", auth.ErrNotFound)
	}
	if verified.Subject == "" {
		return auth.Identity{}, fmt.Errorf("%w: it is of no subject", auth.ErrNotFound)
	}
	name, err := i.name(claims)
	if err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %w", auth.ErrNotFound, err)
	}
	role, ok := i.role(claims)
	if !ok {
		return auth.Identity{}, fmt.Errorf("%w: oidc.roles has none of what the claim %s of %s has",
			auth.ErrNoRole, i.config.RoleClaim, name)
	}
	return auth.Identity{
		Issuer: verified.Issuer, Subject: verified.Subject, Name: name, Role: role, ExpiresAt: verified.Expiry.UTC(),
	}, nil
}

// name is the operator's, from the claim that the configuration names.
func (i *Issuer) name(claims map[string]any) (string, error) {
	name, _ := claims[i.config.NameClaim].(string)
	if !names.MatchString(name) {
		return "", fmt.Errorf("the claim %s names no operator", i.config.NameClaim)
	}
	if verified, _ := claims["email_verified"].(bool); i.config.NameClaim == "email" && !verified {
		return "", errors.New("the e-mail address is not verified")
	}
	return name, nil
}

// role is the highest role that the claims map to.
func (i *Issuer) role(claims map[string]any) (role auth.Role, ok bool) {
	for _, value := range values(claims, i.config.RoleClaim) {
		mapped, known := i.config.Roles[value]
		if known && (!ok || mapped.Covers(role)) {
			role, ok = mapped, true
		}
	}
	return role, ok
}

// values are the texts of a claim: itself, its elements, or those further in.
func values(claims map[string]any, name string) (all []string) {
	value, ok := claims[name]
	if outer, inner, dotted := strings.Cut(name, "."); !ok && dotted {
		deeper, _ := claims[outer].(map[string]any)
		return values(deeper, inner)
	}
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}
