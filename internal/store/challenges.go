package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/challenge"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

// Challenges is auth.Challenges in the database.
type Challenges struct{ s *Store }

var _ auth.Challenges = Challenges{}

// Challenges are the store's challenges.
func (s *Store) Challenges() Challenges { return Challenges{s} }

// Create implements auth.Challenges.
func (c Challenges) Create(ctx context.Context, n auth.Challenge, hits ...limit.Hit) error {
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		countHits(tx, hits)
		insert(tx, ent.ChallengeTable, challengeRow(n))
		return nil
	})
	if err != nil {
		return fmt.Errorf("store challenge: %w", c.s.refusedHit(ctx, err))
	}
	return nil
}

// Spend implements auth.Challenges.
func (c Challenges) Spend(ctx context.Context, n auth.Challenge, hits ...limit.Hit) (bool, error) {
	err := c.Create(ctx, n, hits...)
	if errors.Is(err, ErrDuplicate) {
		return false, nil
	}
	return err == nil, err
}

func challengeRow(n auth.Challenge) *ent.Challenge {
	row := &ent.Challenge{
		ID: n.ID, Purpose: string(n.Purpose), Wallet: n.Wallet.Lower(), Scheme: string(n.Scheme), Message: n.Message,
		Nonce: n.Nonce, Source: n.Source, IssuedAt: n.IssuedAt, ExpiresAt: n.ExpiresAt, ConsumedAt: n.ConsumedAt,
	}
	if n.CardID != uuid.Nil {
		row.CardID = &n.CardID
	}
	if n.SessionID != uuid.Nil {
		row.SessionID = &n.SessionID
	}
	if n.RecipientKey != nil {
		row.RecipientKey = &n.RecipientKey
	}
	return row
}

// Find implements auth.Challenges.
func (c Challenges) Find(ctx context.Context, id uuid.UUID) (auth.Challenge, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	return challengeOf(c.s.ent.Challenge.Get(ctx, id))
}

// openSQL orders the open challenges of a wallet: those of one source first, then the newest of each other source, the
// second newest of each, and so on. It reads so many of the wallet's, however many there are.
const openSQL = `
	SELECT id FROM (
		SELECT id, issued_at, source = $4 AS own,
			row_number() OVER (PARTITION BY source ORDER BY issued_at DESC, id DESC) AS nth
		FROM (
			SELECT id, issued_at, source FROM challenges
			WHERE wallet = $1 AND purpose = $2 AND expires_at > $3 AND consumed_at IS NULL
			ORDER BY expires_at DESC LIMIT $7
		) latest
	) open
	WHERE nth <= $5 OR NOT own
	ORDER BY own DESC, nth, issued_at DESC, id DESC LIMIT $6`

// Open implements auth.Challenges.
func (c Challenges) Open(
	ctx context.Context, wallet x402.Address, purpose auth.Purpose, source string, now time.Time,
) ([]auth.Challenge, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	found, err := c.s.pool.Query(ctx, openSQL,
		wallet.Lower(), string(purpose), now, source, auth.OpenOfSource, auth.OpenAtMost, auth.OpenLookedAt)
	if err != nil {
		return nil, fmt.Errorf("find open challenges: %w", mapError(err))
	}
	ids, err := pgx.CollectRows(found, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find open challenges: %w", mapError(err))
	}
	rows, err := c.s.ent.Challenge.Query().Where(challenge.IDIn(ids...)).All(ctx)
	if err != nil {
		return nil, fmt.Errorf("read open challenges: %w", mapError(err))
	}
	open := make([]auth.Challenge, 0, len(rows))
	for _, row := range rows {
		n, err := challengeOf(row, nil)
		if err != nil {
			return nil, err
		}
		open = append(open, n)
	}
	slices.SortFunc(open, func(a, b auth.Challenge) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return open, nil
}

// errUnspent rolls the counting of a challenge that is not consumed back.
var errUnspent = errors.New("the challenge cannot be consumed")

// Consume implements auth.Challenges.
func (c Challenges) Consume(ctx context.Context, id uuid.UUID, now time.Time, hits ...limit.Hit) (bool, error) {
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		countHits(tx, hits)
		if spent, err := consume(ctx, tx, id, now); err != nil || spent {
			return err
		}
		return errUnspent
	})
	if errors.Is(err, errUnspent) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("consume challenge: %w", c.s.refusedHit(ctx, err))
	}
	return true, nil
}

// Void implements auth.Challenges.
func (c Challenges) Void(ctx context.Context, id uuid.UUID, now time.Time, hits ...limit.Hit) error {
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		countHits(tx, hits)
		_, err := consume(ctx, tx, id, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("void challenge: %w", c.s.refusedHit(ctx, err))
	}
	return nil
}

func consume(ctx context.Context, tx *ent.Tx, id uuid.UUID, now time.Time) (bool, error) {
	n, err := tx.Challenge.Update().
		Where(challenge.ID(id), challenge.ConsumedAtIsNil(), challenge.ExpiresAtGT(now)).
		SetConsumedAt(now).
		Save(ctx)
	return n == 1, err
}

func challengeOf(row *ent.Challenge, err error) (auth.Challenge, error) {
	if err = mapError(err); errors.Is(err, ErrNotFound) {
		return auth.Challenge{}, auth.ErrNotFound
	}
	if err != nil {
		return auth.Challenge{}, fmt.Errorf("find challenge: %w", err)
	}
	wallet, err := x402.ParseAddress(row.Wallet)
	if err != nil {
		return auth.Challenge{}, fmt.Errorf("read challenge %s: %w", row.ID, err)
	}
	c := auth.Challenge{
		ID: row.ID, Purpose: auth.Purpose(row.Purpose), Wallet: wallet, Scheme: auth.Scheme(row.Scheme),
		Message: row.Message, Nonce: row.Nonce, Source: row.Source,
		IssuedAt: row.IssuedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), ConsumedAt: utc(row.ConsumedAt),
	}
	if row.CardID != nil {
		c.CardID = *row.CardID
	}
	if row.SessionID != nil {
		c.SessionID = *row.SessionID
	}
	if row.RecipientKey != nil {
		c.RecipientKey = *row.RecipientKey
	}
	return c, nil
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
