package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// Session is a signed-in wallet, with an expiry and scopes.
type Session struct {
	ID     uuid.UUID
	Wallet x402.Address
	Scopes []Scope
	// TokenHash is the SHA-256 of the bearer token; the token itself is not stored.
	TokenHash [32]byte
	// IssuedAt and ExpiresAt are UTC; use does not extend a session.
	IssuedAt  time.Time
	ExpiresAt time.Time
	// RevokedAt is nil until the session is revoked.
	RevokedAt *time.Time
}

// Sessions keeps sessions.
type Sessions interface {
	// Create stores a new session; a token hash can be stored once.
	Create(ctx context.Context, s Session) error
	// FindByHash returns the session in any state, or ErrNotFound.
	FindByHash(ctx context.Context, hash [32]byte) (Session, error)
	// Revoke ends a session at now. A second call keeps the first time, and an unknown id is no error.
	Revoke(ctx context.Context, id uuid.UUID, now time.Time) error
}

const (
	// sessionPrefix identifies our tokens to leak scanners.
	sessionPrefix     = "rcs_"
	sessionTokenBytes = 32
)

// Authenticate finds the wallet behind an Authorization header: Bearer and a session token. Whatever is wrong, the
// fault session_invalid is the same.
func (a *Auth) Authenticate(ctx context.Context, authorizationHeader string) (Caller, error) {
	token, ok := Bearer(authorizationHeader)
	if !ok || !isSessionToken(token) {
		return Caller{}, sessionInvalid()
	}
	s, err := a.sessions.FindByHash(ctx, sha256.Sum256([]byte(token)))
	if errors.Is(err, ErrNotFound) {
		return Caller{}, sessionInvalid()
	}
	if err != nil {
		return Caller{}, fmt.Errorf("find session: %w", err)
	}
	if s.RevokedAt != nil || !a.now().Before(s.ExpiresAt) {
		return Caller{}, sessionInvalid()
	}
	return a.callerOf(s), nil
}

// Revoke ends the caller's own session at once.
func (a *Auth) Revoke(ctx context.Context, c Caller) error {
	if c.Kind != KindWallet || c.SessionID == uuid.Nil {
		return sessionInvalid()
	}
	if err := a.sessions.Revoke(ctx, c.SessionID, a.now().UTC()); err != nil {
		return fmt.Errorf("revoke session: %w", err)
	}
	return nil
}

// callerOf keeps only the scopes that the configuration still allows: a wallet that is removed from the list loses the
// scope at the restart, not when its session expires.
func (a *Auth) callerOf(s Session) Caller {
	allowed := a.scopesFor(s.Wallet)
	scopes := slices.DeleteFunc(slices.Clone(s.Scopes), func(sc Scope) bool { return !slices.Contains(allowed, sc) })
	return Caller{Kind: KindWallet, Wallet: s.Wallet, SessionID: s.ID, Scopes: scopes, ExpiresAt: s.ExpiresAt}
}

func (a *Auth) scopesFor(wallet x402.Address) []Scope {
	scopes := []Scope{ScopeOrders, ScopeCards, ScopeReveal}
	if slices.Contains(a.activityWallets, wallet) {
		scopes = append(scopes, ScopeActivity)
	}
	return scopes
}

func (a *Auth) startSession(
	ctx context.Context, wallet x402.Address, now time.Time, ttl time.Duration,
) (Session, secret.Text, error) {
	random := make([]byte, sessionTokenBytes)
	_, _ = rand.Read(random) // never fails: the program ends when there is no randomness
	token := sessionPrefix + base64.RawURLEncoding.EncodeToString(random)
	issued := now.UTC().Truncate(time.Millisecond)
	s := Session{
		ID: uuid.New(), Wallet: wallet, Scopes: a.scopesFor(wallet), TokenHash: sha256.Sum256([]byte(token)),
		IssuedAt: issued, ExpiresAt: issued.Add(ttl),
	}
	if err := a.sessions.Create(ctx, s); err != nil {
		return Session{}, secret.Text{}, fmt.Errorf("store session: %w", err)
	}
	return s, secret.New(token), nil
}

func isSessionToken(token string) bool {
	text, ok := strings.CutPrefix(token, sessionPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(sessionTokenBytes) {
		return false
	}
	random, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(random) == sessionTokenBytes
}

func sessionInvalid() error {
	return fault.New(fault.SessionInvalid, "Sign in again: the session is missing, expired or revoked.")
}
