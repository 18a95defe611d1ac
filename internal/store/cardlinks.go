package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// CardLinks is card.Links in the database.
type CardLinks struct{ s *Store }

var _ card.Links = CardLinks{}

// CardLinks are the store's links to pages that show cards.
func (s *Store) CardLinks() CardLinks { return CardLinks{s} }

const (
	// A link that is gone is unknown to who opens it again: it is kept for a day, to say that it was used.
	linksKept = 24 * time.Hour

	pruneLinksSQL = `
		WITH old AS (SELECT id FROM card_links WHERE expires_at < $1 ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
		DELETE FROM card_links WHERE id IN (SELECT id FROM old)`

	checkLinkSQL = `SELECT opened_at IS NULL AND expires_at > $2 FROM card_links WHERE token_hash = $1`

	openLinkSQL = `
		UPDATE card_links SET opened_at = $3, unlock_hash = $2, unlock_before = $4
		WHERE token_hash = $1 AND opened_at IS NULL AND expires_at > $3
		RETURNING id, card_id, owner, token_hash, expires_at`
	linkExistsSQL = `SELECT EXISTS (SELECT FROM card_links WHERE token_hash = $1)`

	unlockLinkSQL = `
		UPDATE card_links SET unlocked_at = $2
		WHERE unlock_hash = $1 AND unlocked_at IS NULL AND unlock_before > $2
		RETURNING id, card_id, owner, token_hash, expires_at`
	unlockExistsSQL = `SELECT EXISTS (SELECT FROM card_links WHERE unlock_hash = $1)`
)

// CreateLink implements card.Links. It deletes some of the oldest links in the same transaction.
func (c CardLinks) CreateLink(ctx context.Context, l card.Link) error {
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		later(tx, pruneLinksSQL, l.ExpiresAt.Add(-linksKept))
		insert(tx, ent.CardLinkTable, &ent.CardLink{
			ID: l.ID, CardID: l.Card, Owner: l.Owner.Lower(), TokenHash: l.Token[:], ExpiresAt: l.ExpiresAt,
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("store a card's link: %w", err)
	}
	return nil
}

// CheckLink implements card.Links.
func (c CardLinks) CheckLink(ctx context.Context, token [32]byte, now time.Time) error {
	var opens bool
	switch err := c.s.pool.QueryRow(ctx, checkLinkSQL, token[:], now).Scan(&opens); {
	case errors.Is(err, pgx.ErrNoRows):
		return card.ErrNotFound
	case err != nil:
		return fmt.Errorf("look at a card's link: %w", mapError(err))
	case !opens:
		return card.ErrLinkUsed
	default:
		return nil
	}
}

// OpenLink implements card.Links.
func (c CardLinks) OpenLink(ctx context.Context, token, unlock [32]byte, now, before time.Time) (card.Link, error) {
	return c.use(ctx, linkExistsSQL, token, openLinkSQL, token[:], unlock[:], now, before)
}

// UnlockLink implements card.Links.
func (c CardLinks) UnlockLink(ctx context.Context, unlock [32]byte, now time.Time) (card.Link, error) {
	return c.use(ctx, unlockExistsSQL, unlock, unlockLinkSQL, unlock[:], now)
}

// use runs a guarded update of one link. What it does not find is used, or there is none.
func (c CardLinks) use(
	ctx context.Context, existsSQL string, hash [32]byte, sql string, args ...any,
) (card.Link, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var (
		l     card.Link
		id    uuid.UUID
		of    uuid.UUID
		owner string
		token []byte
	)
	err := c.s.pool.QueryRow(ctx, sql, args...).Scan(&id, &of, &owner, &token, &l.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		var exists bool
		if err := c.s.pool.QueryRow(ctx, existsSQL, hash[:]).Scan(&exists); err != nil {
			return card.Link{}, fmt.Errorf("look for a card's link: %w", mapError(err))
		}
		if exists {
			return card.Link{}, card.ErrLinkUsed
		}
		return card.Link{}, card.ErrNotFound
	}
	if err != nil {
		return card.Link{}, fmt.Errorf("use a card's link: %w", mapError(err))
	}
	l.ID, l.Card, l.ExpiresAt = id, of, l.ExpiresAt.UTC()
	if l.Owner, err = x402.ParseAddress(owner); err != nil || len(token) != 32 {
		return card.Link{}, fmt.Errorf("read a card's link %s: owner or hash is damaged", id)
	}
	l.Token = [32]byte(token)
	return l, nil
}
