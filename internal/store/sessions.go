package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/session"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/x402"
)

// Sessions is auth.Sessions in the database.
type Sessions struct{ s *Store }

var _ auth.Sessions = Sessions{}

// Sessions are the store's sessions.
func (s *Store) Sessions() Sessions { return Sessions{s} }

// Create implements auth.Sessions.
func (c Sessions) Create(ctx context.Context, n auth.Session) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	scopes := make([]string, len(n.Scopes))
	for i, scope := range n.Scopes {
		scopes[i] = string(scope)
	}
	_, err := c.s.pool.Exec(ctx, ent.SessionTable.Insert(), ent.SessionTable.Values(&ent.Session{
		ID: n.ID, Wallet: n.Wallet.Lower(), Scopes: scopes, TokenHash: n.TokenHash[:], IssuedAt: n.IssuedAt,
		ExpiresAt: n.ExpiresAt, RevokedAt: n.RevokedAt,
	})...)
	if err != nil {
		return fmt.Errorf("store session: %w", mapError(err))
	}
	return nil
}

// FindByHash implements auth.Sessions.
func (c Sessions) FindByHash(ctx context.Context, hash [32]byte) (auth.Session, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	row, err := c.s.ent.Session.Query().Where(session.TokenHash(hash[:])).Only(ctx)
	if err = mapError(err); errors.Is(err, ErrNotFound) {
		return auth.Session{}, auth.ErrNotFound
	}
	if err != nil {
		return auth.Session{}, fmt.Errorf("find session: %w", err)
	}
	return sessionOf(row)
}

// Revoke implements auth.Sessions.
func (c Sessions) Revoke(ctx context.Context, id uuid.UUID, now time.Time) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	err := c.s.ent.Session.Update().Where(session.ID(id), session.RevokedAtIsNil()).SetRevokedAt(now).Exec(ctx)
	if err != nil {
		return fmt.Errorf("revoke session: %w", mapError(err))
	}
	return nil
}

func sessionOf(row *ent.Session) (auth.Session, error) {
	wallet, err := x402.ParseAddress(row.Wallet)
	if err != nil || len(row.TokenHash) != 32 {
		return auth.Session{}, fmt.Errorf("read session %s: wallet or hash is damaged", row.ID)
	}
	s := auth.Session{
		ID: row.ID, Wallet: wallet, TokenHash: [32]byte(row.TokenHash),
		IssuedAt: row.IssuedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), RevokedAt: utc(row.RevokedAt),
	}
	for _, scope := range row.Scopes {
		s.Scopes = append(s.Scopes, auth.Scope(scope))
	}
	return s, nil
}
