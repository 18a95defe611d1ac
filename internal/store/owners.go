package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/product/card"
)

// A row of an order is changed by its owner and its id, because the owner says where it is. These statements find the
// owner of a row of which a caller knows only the id; they may ask all shards of a distributed database.
const (
	ownerOfOrderSQL = `SELECT owner FROM orders WHERE id = $1`
	ownerOfCardSQL  = `SELECT owner FROM cards WHERE id = $1`
)

// ownerOf is the owner of a row, empty when there is no such row. The owner of a row never changes.
func ownerOf(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, sql string, id any) (owner string, err error) {
	err = on.QueryRow(ctx, sql, id).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return owner, mapError(err)
}

// withOwner runs a transaction under the fence of a job, which changes what has an owner: that of the job, or else the
// one that sql finds.
func (s *Store) withOwner(
	ctx context.Context, f job.Fence, sql string, id any, do func(ctx context.Context, tx *ent.Tx, owner string) error,
) error {
	return s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		owner, err := lockedOwner(ctx, tx, f, sql, id)
		if err != nil {
			return err
		}
		return do(ctx, tx, owner)
	})
}

// lockedOwner is the owner of what a job changes: that of the job, or else of the row.
func lockedOwner(ctx context.Context, tx *ent.Tx, f job.Fence, sql string, id any) (string, error) {
	if f.Of != "" {
		return f.Of, nil
	}
	return ownerOf(ctx, raw(tx), sql, id)
}

// lockCard locks a card of which only the id is known, and returns its owner.
func lockCard(ctx context.Context, tx *ent.Tx, id uuid.UUID) (owner string, err error) {
	owner, err = ownerOf(ctx, raw(tx), ownerOfCardSQL, id)
	if err == nil && owner == "" {
		err = card.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	later(tx, lockCardSQL, id, owner)
	return owner, nil
}
