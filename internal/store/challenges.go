package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

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
func (c Challenges) Create(ctx context.Context, n auth.Challenge, turns ...limit.Turn) error {
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		takeTurns(tx, turns)
		return createChallenge(ctx, tx, n)
	})
	if err != nil {
		return fmt.Errorf("store challenge: %w", c.s.refusedTurn(ctx, err))
	}
	return nil
}

func createChallenge(ctx context.Context, tx *ent.Tx, n auth.Challenge) error {
	create := tx.Challenge.Create().
		SetID(n.ID).
		SetPurpose(string(n.Purpose)).
		SetWallet(n.Wallet.Lower()).
		SetScheme(string(n.Scheme)).
		SetMessage(n.Message).
		SetNonce(n.Nonce).
		SetIssuedAt(n.IssuedAt).
		SetExpiresAt(n.ExpiresAt).
		SetNillableConsumedAt(n.ConsumedAt)
	if n.CardID != uuid.Nil {
		create.SetCardID(n.CardID)
	}
	if n.SessionID != uuid.Nil {
		create.SetSessionID(n.SessionID)
	}
	if n.RecipientKey != nil {
		create.SetRecipientKey(n.RecipientKey)
	}
	return create.Exec(ctx)
}

// Find implements auth.Challenges.
func (c Challenges) Find(ctx context.Context, id uuid.UUID) (auth.Challenge, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	return challengeOf(c.s.ent.Challenge.Get(ctx, id))
}

// Latest implements auth.Challenges.
func (c Challenges) Latest(ctx context.Context, wallet x402.Address, purpose auth.Purpose) (auth.Challenge, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	return challengeOf(c.s.ent.Challenge.Query().
		Where(challenge.Wallet(wallet.Lower()), challenge.Purpose(string(purpose)), challenge.ConsumedAtIsNil()).
		Order(ent.Desc(challenge.FieldIssuedAt, challenge.FieldID)).
		First(ctx))
}

// Consume implements auth.Challenges.
func (c Challenges) Consume(ctx context.Context, id uuid.UUID, now time.Time, turns ...limit.Turn) (bool, error) {
	spent := false
	err := c.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		takeTurns(tx, turns)
		n, err := tx.Challenge.Update().
			Where(challenge.ID(id), challenge.ConsumedAtIsNil(), challenge.ExpiresAtGT(now)).
			SetConsumedAt(now).
			Save(ctx)
		spent = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("consume challenge: %w", c.s.refusedTurn(ctx, err))
	}
	return spent, nil
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
		Message: row.Message, Nonce: row.Nonce,
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
